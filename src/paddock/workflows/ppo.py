"""Proximal policy optimisation (arXiv:1707.06347), for choices and for continuous actions, with and without memory.

Shapes: T steps of the rollout, B copies of the environment, N = T * B samples, M in a minibatch. With a memory a sample
is a copy's whole rollout, [B, T, ...], and a minibatch [M, T, ...].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from paddock.components.compiling import Compiling
from paddock.components.controllers import actor_critic
from paddock.components.controllers.actor_critic import FusedActorCritic
from paddock.components.optimizers.optimizer import Gradients
from paddock.components.return_computers.gae import generalized_advantages
from paddock.components.workers import Workers
from paddock.config.schema import Switch, TargetSchema
from paddock.core.errors import InputError
from paddock.core.system import available_cores
from paddock.core.trees import map_tree
from paddock.rollout.pipeline import collected_by
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext

Samples = dict[str, Any]  # tensors [N, ...] by name; `observation` and `memory` are dicts of such
LARGEST_WEIGHT = 2.0  # of a sample that an earlier policy collected; beyond it weights add more noise than they correct
DIAGNOSED_SAMPLES = 4_096  # of a rollout, evenly spread: enough to say how far the policy moved

LEAST_EVALUATED = 2_048  # samples that a thread evaluates at a time: nothing there is as large as a gradient

STEERING_FACTOR, SLOWEST, FASTEST = 1.5, 1e-5, 1e-2  # of the learning rate where a desired KL steers it


class PPOConfig(TargetSchema):
    """Options of PPO."""

    rollout_steps: int = Field(ge=1)
    epochs: int = Field(ge=1)
    minibatch_size: int = Field(ge=1)
    gamma: float = Field(gt=0, le=1)
    gae_lambda: float = Field(ge=0, le=1)
    clip_ratio: float = Field(gt=0)
    value_clip: float | None = Field(default=None, gt=0)
    value_coef: float = Field(ge=0)
    entropy_coef: float = Field(ge=0)
    aux_coef: float = Field(default=1.0, ge=0)
    normalize_advantage: bool = True
    target_kl: float | None = Field(default=None, gt=0)
    desired_kl: float | None = Field(default=None, gt=0)
    anneal_learning_rate: bool = False
    anneal_clip: bool = False
    fused: Switch = "auto"
    compile: Switch = "off"
    shard_size: int = Field(default=2_048, ge=1)
    workers: int | None = Field(default=None, ge=1)


class PPO(Workflow):
    """Needs components `policy`, `value`, `observation_normalizer`, `reward_normalizer` and optimizer `main`.

    Values and log-probabilities of a rollout are computed in one batch when it is complete, with the very parameters
    that collected it, so that acting costs no more than the policy's forward pass. With a pipeline these are the
    parameters that the update begins with, and samples are weighed against the earlier ones that collected them.

    A minibatch larger than `shard_size` is worked on in shards of that size, which stay in a core's cache and are
    shared among `workers` threads. Shards are added up in order: the number of threads does not change a result.

    With recurrent networks a minibatch is made of whole copies (`minibatch_size` counts their steps), unrolled from
    the memory that they had when the rollout began; memory begins anew where an episode does.
    """

    config: PPOConfig
    splits_updates = True

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.policy, self.value = parts["policy"], parts["value"]
        self.observation_normalizer = parts["observation_normalizer"]
        self.reward_normalizer = parts["reward_normalizer"]
        self.optimizer = context.optimizers["main"]
        self.mean_gradients = context.learners.mean_of(self._gradients, weigh=self._weight)
        self.workers = Workers(self.config.workers or max(available_cores() // context.learners.count, 1))
        self.auxiliary_targets = getattr(self.policy, "auxiliary_targets", None)
        self.is_recurrent = self.policy.is_recurrent or self.value.is_recurrent
        self.fused = self._fuse()
        self.compiling = Compiling("off" if self.fused is not None else self.config.compile, context.counters)
        self.losses = self.compiling.losses(self._losses)
        copies = context.experience.num_envs
        self._memory = {"policy": self.policy.initial_state(copies), "value": self.value.initial_state(copies)}

    def _fuse(self) -> FusedActorCritic | None:
        """The kernel that learns with both networks at once, where `fused` allows it and they fit."""
        config = self.config
        if config.fused == "off" or (config.fused == "auto" and config.compile == "on"):
            return None
        parts = self.policy, self.value, self.observation_normalizer
        reason = "debug=true and another precision than float32 need autograd" if self.context.needs_autograd else None
        if (reason := reason or actor_critic.obstacle(*parts, self.context.spec.observation)) is None:
            coefs = {name: getattr(config, name) for name in ("value_coef", "entropy_coef", "value_clip")}
            return FusedActorCritic(*parts, **coefs, workers=self.workers, shard_size=config.shard_size)
        if config.fused == "on":
            raise InputError(f"workflow.fused=on cannot be used here: {reason}. Set workflow.fused=off, or auto.")
        return None

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """All epochs over one rollout."""
        config = self.config
        remaining = 1.0 - self.context.progress
        if config.anneal_learning_rate and config.desired_kl is None:
            self.optimizer.set_learning_rate_fraction(remaining)
        clip_ratio = config.clip_ratio * (remaining if config.anneal_clip else 1.0)

        samples = self._prepare(batch)
        count, size = len(samples["advantage"]), self._samples_in(config.minibatch_size)
        learned = samples if self.fused is None else self.fused.hold(samples)
        norms: list[float] = []
        for _ in range(config.epochs):
            # Shuffling and normalising once an epoch leaves plain slices, views without a copy, as minibatches.
            order = torch.randperm(count, device=self.context.device)
            shuffled = map_tree(partial(_taken, order), learned)
            if config.normalize_advantage:
                shuffled["advantage"] = normalize_by_minibatch(shuffled["advantage"], size, shuffled.get("valid"))
            if "weight" in shuffled:
                shuffled["advantage"] = shuffled["advantage"] * shuffled["weight"]
            shuffled["ratio_low"], shuffled["ratio_high"] = ratio_bounds(shuffled["advantage"], clip_ratio)
            norms += [self._descend(minibatch) for minibatch in _shards(shuffled, size)]
            self.context.counters.updates += -(-count // size)
            if config.target_kl is not None and self._diagnose(samples, clip_ratio)["kl"] > 1.5 * config.target_kl:
                break
        metrics = self._diagnose(samples, clip_ratio)
        if config.desired_kl is not None:
            desired = config.desired_kl * (remaining if config.anneal_learning_rate else 1.0)
            self.optimizer.learning_rate = steered(self.optimizer.learning_rate, float(metrics["kl"]), desired)
        # Only now, so that every sample of this rollout was normalised in the same way as when it was collected.
        self.observation_normalizer.update(batch["observation"])
        return {
            **{f"train/{name}": value for name, value in metrics.items()},
            "train/gradient_norm": sum(norms) / len(norms),
            "train/learning_rate": self.optimizer.learning_rate,
        }

    def _descend(self, minibatch: Samples) -> float:
        """One gradient step on the minibatch as a whole."""
        means, gradients = self.mean_gradients(minibatch)
        return self.optimizer.descend(means["loss"], gradients)

    def _gradients(self, minibatch: Samples) -> tuple[dict[str, Tensor], Gradients]:
        """Of the loss of the minibatch, or of its shards side by side."""
        if self.fused is not None:
            loss, found = self.fused.gradients(minibatch, self.optimizer.parameters)
            # Learners that work on a minibatch in pieces keep what they were given.
            learners = self.context.learners
            is_alone = learners.count == learners.accumulate == 1
            return {"loss": loss}, found if is_alone else [gradient.clone() for gradient in found]
        shards = list(_shards(minibatch, self._samples_in(self.config.shard_size)))
        if len(shards) == 1:
            loss = self._total(self.losses(minibatch))
            return {"loss": loss.detach()}, self.optimizer.differentiate(loss)
        whole = self._weight(minibatch)

        def loss_of(shard: Samples) -> Tensor:
            return self._total(self.losses(shard)) * (self._weight(shard) / whole)

        loss, gradients = self.optimizer.differentiate_sum([partial(loss_of, shard) for shard in shards], self.workers)
        return {"loss": loss}, gradients

    def _weight(self, samples: Samples) -> float:
        """Steps that count: losses are means over them."""
        return float(samples["valid"].sum()) if self.is_recurrent else len(samples["advantage"])

    @torch.no_grad()
    def _prepare(self, batch: dict[str, Any]) -> Samples:
        """The rollout as samples with advantages, returns and the old log-probability: flat, or whole copies."""
        parts = {name: part.flatten(0, 1) for name, part in batch["observation"].items()}
        observation = self._scaled(parts)
        estimate = self._values_with_memory if self.is_recurrent else self._values
        values, next_value = estimate(batch, observation)

        ends = batch["terminated"], batch["truncated"]
        self.reward_normalizer.update(batch["reward"], ends[0] | ends[1], self.config.gamma)
        reward = self.reward_normalizer(batch["reward"])
        gamma, lambda_ = self.config.gamma, self.config.gae_lambda
        advantage = generalized_advantages(
            reward, values, next_value, *ends, batch["valid"], gamma=gamma, lambda_=lambda_
        )
        samples: Samples = {
            "observation": {name: part[: values.numel()] for name, part in observation.items()},
            "action": batch["action"].flatten(0, 1),
            "value": values.flatten(),
            "advantage": advantage.flatten(),
            "return": (advantage + values).flatten(),
        }
        if self.is_recurrent:
            return self._as_sequences(samples, batch)
        samples["log_prob"] = self._over_shards(self._log_prob, samples)
        if (earlier := collected_by(self.context.experience, self.actor())) is not None:
            samples["weight"] = self._weight_against(earlier, parts, samples)
        valid = batch["valid"].flatten()
        return samples if valid.all() else map_tree(partial(_taken, valid), samples)

    def _weight_against(self, earlier: Any, parts: dict[str, Tensor], samples: Samples) -> Tensor:
        """How much likelier the policy is to act as the earlier one did, [N]: the decoupled objective, Eq. 2 of
        arXiv:2110.00641. Clipping and the KL stay relative to the policy that the update begins with."""
        seen = {name: part[: len(samples["action"])] for name, part in parts.items()}
        collected = {"observation": seen, "action": samples["action"]}
        log_prob = self._over_shards(lambda shard: earlier.log_prob(shard["observation"], shard["action"]), collected)
        return (samples["log_prob"] - log_prob).exp().clamp(max=LARGEST_WEIGHT)

    def _values(self, batch: dict[str, Any], observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What is expected of every step [T, B] and of what followed it [T, B]."""
        length, copies = batch["reward"].shape
        values = self._over_shards(self._value_of, observation).view(length + 1, copies)
        next_value = values[1:].clone()
        if len(batch["final_index"]):
            at, row = batch["final_index"].T
            next_value[at, row] = self._value_of(self._scaled(batch["final_observation"]))
        return values[:-1], next_value

    def _values_with_memory(self, batch: dict[str, Any], observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """As `_values`, step by step: the last observation of an episode is judged with the memory of that moment."""
        length, copies = batch["reward"].shape
        by_step = {name: part.unflatten(0, (length + 1, copies)) for name, part in observation.items()}
        final = self.observation_normalizer(batch["final_observation"])
        memory, values, final_values = self._memory["value"], [], []
        for t in range(length):
            keep = ~batch["is_first"][t].unsqueeze(-1)
            memory = memory and {name: part * keep for name, part in memory.items()}
            value, memory = self.value.step({name: part[t] for name, part in by_step.items()}, memory)
            values.append(value)
            if len(ended := (batch["final_index"][:, 0] == t).nonzero().flatten()):
                then = memory and {name: part[batch["final_index"][ended, 1]] for name, part in memory.items()}
                final_values.append(self.value.step({name: part[ended] for name, part in final.items()}, then)[0])
        self._value_memory_after = memory
        values.append(self.value.step({name: part[length] for name, part in by_step.items()}, memory)[0])
        next_value = torch.stack(values[1:])
        if final_values:  # In the order of time, as the buffer keeps them.
            next_value[batch["final_index"][:, 0], batch["final_index"][:, 1]] = torch.cat(final_values)
        return torch.stack(values[:-1]), next_value

    def _as_sequences(self, samples: Samples, batch: dict[str, Any]) -> Samples:
        """Flat samples as whole copies [B, T, ...], with the memories that they begin with."""
        shape = batch["reward"].shape
        samples = map_tree(lambda part: part.unflatten(0, shape).transpose(0, 1), samples)
        samples |= {name: batch[name].T for name in ("is_first", "valid")}
        samples["memory"] = {part: memory or {} for part, memory in self._memory.items()}
        distribution, after = self.policy.unroll(samples["observation"], self._memory["policy"], samples["is_first"])
        samples["log_prob"] = distribution.log_prob(samples["action"])
        self._memory = {"policy": after, "value": self._value_memory_after}
        return samples

    def _over_shards(self, function: Callable[[Samples], Tensor], samples: Samples) -> Tensor:
        """What `function` gives for samples [N, ...], computed shard by shard."""
        shards = list(_shards(samples, max(self.config.shard_size, LEAST_EVALUATED)))
        return torch.cat(self.workers.map(torch.no_grad()(function), shards))

    def _log_prob(self, samples: Samples) -> Tensor:
        return self._policy_of(samples["observation"]).log_prob(samples["action"])

    # The kernel normalises observations itself: samples hold them as they were seen then.

    def _scaled(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        return parts if self.fused is not None else self.observation_normalizer(parts)

    def _policy_of(self, observation: dict[str, Tensor]) -> Any:
        fused = self.fused is not None
        return self.policy.of_unscaled(observation, self.observation_normalizer) if fused else self.policy(observation)

    def _value_of(self, observation: dict[str, Tensor]) -> Tensor:
        fused = self.fused is not None
        return self.value.of_unscaled(observation, self.observation_normalizer) if fused else self.value(observation)

    def _predict(self, samples: Samples) -> tuple[Any, Tensor, dict[str, Tensor]]:
        """The distribution over actions, values, and what is known of the samples, steps that only reset left out."""
        observation = samples["observation"]
        if self.auxiliary_targets:
            distribution, error = self.policy.forward_with_aux(observation)
            return distribution, self.value(observation), {**samples, "aux_loss": error}
        if not self.is_recurrent:
            return self._policy_of(observation), self._value_of(observation), samples
        memory, is_first, valid = samples["memory"], samples["is_first"], samples["valid"]
        distribution, _ = self.policy.unroll(observation, memory["policy"] or None, is_first)
        value, _ = self.value.unroll(observation, memory["value"] or None, is_first)
        known = {name: part[valid] for name, part in samples.items() if isinstance(part, Tensor)}
        return distribution[valid], value[valid], known

    def _losses(self, minibatch: Samples) -> dict[str, Tensor]:
        distribution, value, known = self._predict(minibatch)
        losses = {
            "policy": policy_loss(distribution.log_prob(known["action"]), known),
            "value": value_loss(value, known, self.config.value_clip),
        }
        if self.config.entropy_coef:
            losses["entropy"] = -distribution.entropy().mean()
        if self.auxiliary_targets:
            losses["aux"] = known["aux_loss"].mean()
        return losses

    def _total(self, losses: dict[str, Tensor]) -> Tensor:
        scales = {"policy": 1.0, "value": self.config.value_coef}
        if self.config.entropy_coef:
            scales["entropy"] = self.config.entropy_coef
        if self.auxiliary_targets:
            scales["aux"] = self.config.aux_coef
        assert losses.keys() == scales.keys()
        return reduce(torch.add, [losses[name] * scale for name, scale in scales.items()])

    @torch.no_grad()
    def _diagnose(self, samples: Samples, clip_ratio: float) -> dict[str, Tensor]:
        """How far the policy has moved from the one that collected, and how well values fit, over the rollout."""
        stride = -(-len(samples["advantage"]) // self._samples_in(DIAGNOSED_SAMPLES))
        distribution, value, known = self._predict(map_tree(partial(_taken, slice(None, None, stride)), samples))
        log_ratio = distribution.log_prob(known["action"]) - known["log_prob"]
        ratio = log_ratio.exp()
        return {
            # The estimator of KL with low variance: http://joschu.net/blog/kl-approx.html
            "kl": (ratio - 1 - log_ratio).mean(),
            "clip_fraction": ((ratio - 1).abs() > clip_ratio).float().mean(),
            "entropy": distribution.entropy().mean(),
            "value_loss": value_loss(value, known, None),
            "explained_variance": explained_variance(known["value"], known["return"]),
            **({"aux_loss": known["aux_loss"].mean()} if self.auxiliary_targets else {}),
        }

    def _samples_in(self, steps: int) -> int:
        """How many samples make about so many steps: as many, or whole copies of a rollout."""
        if not self.is_recurrent:
            return steps
        length = -(-self.config.rollout_steps // self.context.experience.num_envs)
        return max(steps // length, 1)

    def get_state(self) -> dict[str, Any]:
        """What the networks remember at the start of the next rollout, and whether losses are compiled."""
        return {"compiling": self.compiling.get_state()} | ({"memory": self._memory} if self.is_recurrent else {})

    def set_state(self, state: dict[str, Any]) -> None:
        self.compiling.set_state(state.get("compiling", {}))  # Older checkpoints do not say.
        if self.is_recurrent:
            self._memory = state["memory"]


def steered(learning_rate: float, kl: float, desired: float) -> float:
    """A learning rate that brings the next rollout's movement nearer to the desired one, within sane bounds.

    The rule of arXiv:1707.02286 (Heess et al., appendix) for a penalty, applied to the learning rate.
    """
    if kl > 2 * desired:
        learning_rate /= STEERING_FACTOR
    elif kl < desired / 2:
        learning_rate *= STEERING_FACTOR
    return min(max(learning_rate, SLOWEST), FASTEST)


def normalize_by_minibatch(advantage: Tensor, size: int, valid: Tensor | None = None) -> Tensor:
    """Zero mean and unit deviation within each run of `size` samples of [N]; a run of one stays as it is.

    With `valid` [N, T] samples are sequences [N, T], and only valid steps count.
    """
    if valid is not None:
        pairs = zip(advantage.split(size), valid.split(size), strict=True)
        return torch.cat([run.masked_scatter(counts, _standardize(run[counts].view(1, -1))) for run, counts in pairs])
    whole = len(advantage) // size * size
    runs = [advantage[:whole].view(-1, size)] if whole else []
    runs += [advantage[whole:].view(1, -1)] if whole < len(advantage) else []
    return torch.cat([_standardize(run).flatten() for run in runs])


def _standardize(runs: Tensor) -> Tensor:
    if runs.shape[1] == 1:
        return runs
    return (runs - runs.mean(1, keepdim=True)) / (runs.std(1, keepdim=True) + 1e-8)


def ratio_bounds(advantage: Tensor, clip_ratio: float) -> tuple[Tensor, Tensor]:
    """Where a probability ratio stops to pay: above 1 + clip for a good action, below 1 - clip for a bad one."""
    low = torch.where(advantage < 0, 1 - clip_ratio, -torch.inf)
    high = torch.where(advantage > 0, 1 + clip_ratio, torch.inf)
    return low, high


def policy_loss(log_prob: Tensor, minibatch: dict[str, Tensor]) -> Tensor:
    """The clipped surrogate, Eq. 7 of arXiv:1707.06347; arrays are [M].

    min(r A, clip(r) A) is A times r, bounded on the side that `ratio_bounds` gives.
    """
    ratio = (log_prob - minibatch["log_prob"]).exp()
    return -(ratio.clamp(minibatch["ratio_low"], minibatch["ratio_high"]) * minibatch["advantage"]).mean()


def value_loss(value: Tensor, minibatch: dict[str, Tensor], value_clip: float | None) -> Tensor:
    """Squared error to the return; with clipping, values that ran away from the old ones learn no further."""
    target = minibatch["return"]
    if value_clip is None:
        return functional.mse_loss(value, target)
    old = minibatch["value"]
    near = old + (value - old).clamp(-value_clip, value_clip)
    return torch.maximum((value - target).square(), (near - target).square()).mean()


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 for values that predict every return, 0 for a constant guess."""
    return 1 - (target - value).var() / target.var().clamp(min=1e-8)


def _shards(samples: Samples, size: int) -> Iterator[Samples]:
    """Views of samples [N, ...] in pieces of `size`, the last of which may be smaller."""
    for start in range(0, _count(samples), size):
        yield map_tree(partial(_taken, slice(start, start + size)), samples)


def _taken(which: slice | Tensor, part: Tensor) -> Tensor:
    return part[which]


def _count(samples: Samples) -> int:
    first = next(iter(samples.values()))
    return _count(first) if isinstance(first, dict) else len(first)

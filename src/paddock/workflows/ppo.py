"""Proximal policy optimisation (arXiv:1707.06347), for choices and for continuous actions.

Shapes: T steps of the rollout, B copies of the environment, N = T * B samples, M in a minibatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from paddock.components.return_computers.gae import generalized_advantages
from paddock.components.workers import Workers, available_cores
from paddock.config.schema import TargetSchema
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext

JUDGED_SAMPLES = 4_096  # of a rollout, evenly spread: enough to say how far the policy moved

STEERING_FACTOR, SLOWEST, FASTEST = 1.5, 1e-5, 1e-2  # of the learning rate where a desired KL steers it


class PPOConfig(TargetSchema):
    """Options of PPO."""

    rollout_steps: int = Field(ge=1)
    epochs: int = Field(ge=1)
    minibatch_size: int = Field(ge=1)
    discount: float = Field(gt=0, le=1)
    gae_decay: float = Field(ge=0, le=1)
    clip: float = Field(gt=0)
    value_clip: float | None = Field(default=None, gt=0)
    value_scale: float = Field(ge=0)
    entropy_scale: float = Field(ge=0)
    normalize_advantage: bool = True
    target_kl: float | None = Field(default=None, gt=0)
    desired_kl: float | None = Field(default=None, gt=0)
    anneal_learning_rate: bool = False
    anneal_clip: bool = False
    compile: bool = False
    shard_size: int = Field(default=2_048, ge=1)
    workers: int | None = Field(default=None, ge=1)


class PPO(Workflow):
    """Needs components `policy`, `value`, `observation_normalizer`, `reward_normalizer` and optimizer `main`.

    Values and log-probabilities of a rollout are computed in one batch when it is complete, with the very parameters
    that collected it, so that acting costs no more than the policy's forward pass.

    A minibatch larger than `shard_size` is worked on in shards of that size, which stay in a core's cache and are
    shared among `workers` threads. Shards are added up in order: the number of threads does not change a result.
    """

    config: PPOConfig

    def __init__(self, config: PPOConfig) -> None:
        super().__init__(config)

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.policy, self.value = parts["policy"], parts["value"]
        self.observation_normalizer = parts["observation_normalizer"]
        self.reward_normalizer = parts["reward_normalizer"]
        self.optimizer = context.optimizers["main"]
        self.losses = torch.compile(self._losses) if self.config.compile else self._losses
        self.workers = Workers(self.config.workers or available_cores())

    def update_controller(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """All epochs over one rollout."""
        config = self.config
        remaining = 1.0 - self.context.progress
        if config.anneal_learning_rate and config.desired_kl is None:
            self.optimizer.set_learning_rate_fraction(remaining)
        clip = config.clip * (remaining if config.anneal_clip else 1.0)

        samples = {name: value.to(self.context.device) for name, value in self._prepare(batch).items()}
        count, size = len(samples["advantage"]), config.minibatch_size
        norms: list[float] = []
        for _ in range(config.epochs):
            # Shuffling and normalising once an epoch leaves plain slices, views without a copy, as minibatches.
            order = torch.randperm(count, device=self.context.device)
            shuffled = {name: value[order] for name, value in samples.items()}
            if config.normalize_advantage:
                shuffled["advantage"] = normalize_by_minibatch(shuffled["advantage"], size)
            shuffled["ratio_low"], shuffled["ratio_high"] = ratio_bounds(shuffled["advantage"], clip)
            norms += [self._descend(minibatch) for minibatch in _shards(shuffled, size)]
            self.context.counters.updates += -(-count // size)
            if config.target_kl is not None and self._judge(samples)["kl"] > 1.5 * config.target_kl:
                break
        metrics = self._judge(samples)
        if config.desired_kl is not None:
            desired = config.desired_kl * (remaining if config.anneal_learning_rate else 1.0)
            self.optimizer.learning_rate = steered(self.optimizer.learning_rate, float(metrics["kl"]), desired)
        # Only now, so that every sample of this rollout was seen through the same eyes as when it was collected.
        self.observation_normalizer.update(batch["observation"])
        return {
            **{f"train/{name}": value for name, value in metrics.items()},
            "train/gradient_norm": sum(norms) / len(norms),
            "train/learning_rate": self.optimizer.learning_rate,
        }

    def _descend(self, minibatch: dict[str, Tensor]) -> float:
        """One gradient step, on the minibatch as a whole or on its shards side by side."""
        count = len(minibatch["advantage"])
        shards = list(_shards(minibatch, self.config.shard_size))
        if len(shards) == 1:
            return self.optimizer.descend(self._total(self.losses(minibatch)))

        def loss_of(shard: dict[str, Tensor]) -> Tensor:
            return self._total(self.losses(shard)) * (len(shard["advantage"]) / count)

        return self.optimizer.descend_sum([partial(loss_of, shard) for shard in shards], self.workers)

    @torch.no_grad()
    def _prepare(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """The rollout as flat samples [N, ...] with advantages, returns and the old log-probability."""
        observation = self._seen({name: part.flatten(0, 1) for name, part in batch["observation"].items()})
        length, copies = batch["reward"].shape
        values = self._over_shards(self.value, observation).view(length + 1, copies)
        next_value = values[1:].clone()
        if len(batch["final_index"]):
            at, row = batch["final_index"].T
            next_value[at, row] = self.value(self._seen(batch["final_observation"]))

        done = batch["terminated"] | batch["truncated"]
        self.reward_normalizer.update(batch["reward"].numpy(), done.numpy(), self.config.discount)
        advantage = torch.from_numpy(
            generalized_advantages(
                self.reward_normalizer(batch["reward"]).cpu().numpy(),
                values[:-1].cpu().numpy(),
                next_value.cpu().numpy(),
                batch["terminated"].numpy(),
                batch["truncated"].numpy(),
                batch["valid"].numpy(),
                discount=self.config.discount,
                decay=self.config.gae_decay,
            )
        )
        count = length * copies
        prefixed = {f"observation.{name}": part[:count] for name, part in observation.items()}
        action = batch["action"].flatten(0, 1)
        samples = {
            **prefixed,
            "action": action,
            "log_prob": self._over_shards(self._log_prob, {**prefixed, "action": action.to(self.context.device)}),
            "value": values[:-1].flatten(),
            "advantage": advantage.flatten(),
            "return": advantage.flatten() + values[:-1].flatten().cpu(),
        }
        valid = batch["valid"].flatten()
        return samples if valid.all() else {name: value[valid] for name, value in samples.items()}

    def _seen(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        return self.observation_normalizer({name: part.to(self.context.device) for name, part in observation.items()})

    def _over_shards(self, function: Callable[[dict[str, Tensor]], Tensor], samples: dict[str, Tensor]) -> Tensor:
        """What `function` gives for samples [N, ...], computed shard by shard."""
        shards = list(_shards(samples, self.config.shard_size))
        return torch.cat(self.workers.map(torch.no_grad()(function), shards))

    def _log_prob(self, samples: dict[str, Tensor]) -> Tensor:
        return self.policy(_observation_of(samples)).log_prob(samples["action"])

    def _losses(self, minibatch: dict[str, Tensor]) -> dict[str, Tensor]:
        observation = _observation_of(minibatch)
        distribution = self.policy(observation)
        losses = {
            "policy": policy_loss(distribution.log_prob(minibatch["action"]), minibatch),
            "value": value_loss(self.value(observation), minibatch, self.config.value_clip),
        }
        if self.config.entropy_scale:
            losses["entropy"] = -distribution.entropy().mean()
        return losses

    def _total(self, losses: dict[str, Tensor]) -> Tensor:
        scales = {"policy": 1.0, "value": self.config.value_scale}
        if self.config.entropy_scale:
            scales["entropy"] = self.config.entropy_scale
        assert losses.keys() == scales.keys()
        return reduce(torch.add, [losses[name] * scale for name, scale in scales.items()])

    @torch.no_grad()
    def _judge(self, samples: dict[str, Tensor]) -> dict[str, Tensor]:
        """How far the policy has moved from the one that collected, and how well values fit, over the rollout."""
        stride = -(-len(samples["advantage"]) // JUDGED_SAMPLES)
        samples = {name: value[::stride] for name, value in samples.items()}
        observation = _observation_of(samples)
        distribution = self.policy(observation)
        log_ratio = distribution.log_prob(samples["action"]) - samples["log_prob"]
        ratio = log_ratio.exp()
        return {
            # The estimator of KL with low variance: http://joschu.net/blog/kl-approx.html
            "kl": (ratio - 1 - log_ratio).mean(),
            "clip_fraction": ((ratio - 1).abs() > self.config.clip).float().mean(),
            "entropy": distribution.entropy().mean(),
            "value_loss": value_loss(self.value(observation), samples, None),
            "explained_variance": explained_variance(samples["value"], samples["return"]),
        }


def steered(learning_rate: float, kl: float, desired: float) -> float:
    """A learning rate that brings the next rollout's movement nearer to the desired one, within sane bounds.

    The rule of arXiv:1707.02286 (Heess et al., appendix) for a penalty, applied to the learning rate.
    """
    if kl > 2 * desired:
        learning_rate /= STEERING_FACTOR
    elif kl < desired / 2:
        learning_rate *= STEERING_FACTOR
    return min(max(learning_rate, SLOWEST), FASTEST)


def normalize_by_minibatch(advantage: Tensor, size: int) -> Tensor:
    """Zero mean and unit deviation within each run of `size` samples of [N]; a run of one stays as it is."""
    whole = len(advantage) // size * size
    runs = [advantage[:whole].view(-1, size)] if whole else []
    runs += [advantage[whole:].view(1, -1)] if whole < len(advantage) else []
    return torch.cat([_standardize(run).flatten() for run in runs])


def _standardize(runs: Tensor) -> Tensor:
    if runs.shape[1] == 1:
        return runs
    return (runs - runs.mean(1, keepdim=True)) / (runs.std(1, keepdim=True) + 1e-8)


def ratio_bounds(advantage: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Where a probability ratio stops to pay: above 1 + clip for a good action, below 1 - clip for a bad one."""
    low = torch.where(advantage < 0, 1 - clip, -torch.inf)
    high = torch.where(advantage > 0, 1 + clip, torch.inf)
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


def _shards(samples: dict[str, Tensor], size: int) -> Iterator[dict[str, Tensor]]:
    """Views of samples [N, ...] in pieces of `size`, the last of which may be smaller."""
    count = len(next(iter(samples.values())))
    for start in range(0, count, size):
        yield {name: value[start : start + size] for name, value in samples.items()}


def _observation_of(samples: dict[str, Tensor]) -> dict[str, Tensor]:
    prefix = "observation."
    return {name.removeprefix(prefix): part for name, part in samples.items() if name.startswith(prefix)}

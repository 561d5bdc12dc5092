"""Proximal policy optimisation (arXiv:1707.06347), for choices and for continuous actions.

Shapes: T steps of the rollout, B copies of the environment, N = T * B samples, M in a minibatch.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.networks.distributions import Categorical, Gaussian
from paddock.components.return_computers.gae import generalized_advantages
from paddock.config.schema import TargetSchema
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext


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
    anneal_learning_rate: bool = False
    anneal_clip: bool = False
    compile: bool = False


class PPO(Workflow):
    """Needs components `policy`, `value`, `observation_normalizer`, `reward_normalizer` and optimizer `main`.

    Values and log-probabilities of a rollout are computed in one batch when it is complete, with the very parameters
    that collected it, so that acting costs no more than the policy's forward pass.
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

    def update_controller(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """All epochs over one rollout."""
        config, device = self.config, self.context.device
        remaining = 1.0 - self.context.progress
        if config.anneal_learning_rate:
            self.optimizer.set_learning_rate_fraction(remaining)
        clip = config.clip * (remaining if config.anneal_clip else 1.0)

        samples = {name: value.to(device) for name, value in self._prepare(batch).items()}
        count = len(samples["advantage"])
        summed: dict[str, Tensor] = {}
        minibatches, stopped_early = 0, False
        for _ in range(config.epochs):
            # Shuffling once an epoch leaves plain slices, views without a copy, as minibatches.
            order = torch.randperm(count)
            shuffled = {name: value[order] for name, value in samples.items()}
            for start in range(0, count, config.minibatch_size):
                minibatch = {name: value[start : start + config.minibatch_size] for name, value in shuffled.items()}
                loss, metrics = self.losses(minibatch, clip)
                metrics["gradient_norm"] = self.optimizer.descend(loss)
                self.context.counters.updates += 1
                minibatches += 1
                for name, value in metrics.items():
                    summed[name] = summed[name] + value if name in summed else value
            if config.target_kl is not None and metrics["kl"] > 1.5 * config.target_kl:
                stopped_early = True
                break
        # Only now, so that every sample of this rollout was seen through the same eyes as when it was collected.
        self.observation_normalizer.update(batch["observation"])
        return {
            **{f"train/{name}": value / minibatches for name, value in summed.items()},
            "train/explained_variance": explained_variance(samples["value"], samples["return"]),
            "train/learning_rate": self.optimizer.param_groups[0]["lr"],
            "train/stopped_early": float(stopped_early),
        }

    @torch.no_grad()
    def _prepare(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """The rollout as flat samples [N, ...] with advantages, returns and the old log-probability."""
        observation = self._seen({name: part.flatten(0, 1) for name, part in batch["observation"].items()})
        length, copies = batch["reward"].shape
        values = self.value(observation).view(length + 1, copies)
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
        observation = {name: part[:count] for name, part in observation.items()}
        action = batch["action"].flatten(0, 1)
        samples = {
            **{f"observation.{name}": part for name, part in observation.items()},
            "action": action,
            "log_prob": self.policy(observation).log_prob(action.to(self.context.device)),
            "value": values[:-1].flatten(),
            "advantage": advantage.flatten(),
            "return": advantage.flatten() + values[:-1].flatten().cpu(),
        }
        valid = batch["valid"].flatten()
        return samples if valid.all() else {name: value[valid] for name, value in samples.items()}

    def _seen(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        return self.observation_normalizer({name: part.to(self.context.device) for name, part in observation.items()})

    def _losses(self, minibatch: dict[str, Tensor], clip: float) -> tuple[Tensor, Metrics]:
        observation = {
            name.removeprefix("observation."): part
            for name, part in minibatch.items()
            if name.startswith("observation.")
        }
        policy_losses, metrics = policy_loss(
            self.policy(observation), minibatch, clip=clip, normalize_advantage=self.config.normalize_advantage
        )
        losses = {**policy_losses, "value": value_loss(self.value(observation), minibatch, self.config.value_clip)}
        scales = {"policy": 1.0, "entropy": self.config.entropy_scale, "value": self.config.value_scale}
        assert losses.keys() == scales.keys()
        loss = reduce(torch.add, [losses[name] * scale for name, scale in scales.items() if scale])
        return loss, {**{f"{name}_loss": value.detach() for name, value in losses.items()}, **metrics}


def policy_loss(
    distribution: Gaussian | Categorical, minibatch: dict[str, Tensor], *, clip: float, normalize_advantage: bool
) -> tuple[dict[str, Tensor], Metrics]:
    """The clipped surrogate (Eq. 7, arXiv:1707.06347) and the negative entropy; minibatch arrays are [M]."""
    advantage = minibatch["advantage"]
    if normalize_advantage and len(advantage) > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_ratio = distribution.log_prob(minibatch["action"]) - minibatch["log_prob"]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    losses = {"policy": -surrogate.mean(), "entropy": -distribution.entropy().mean()}
    with torch.no_grad():
        # The estimator of KL with low variance: http://joschu.net/blog/kl-approx.html
        kl = (ratio - 1 - log_ratio).mean()
        clip_fraction = (ratio != clipped).float().mean()
    return losses, {"kl": kl, "clip_fraction": clip_fraction}


def value_loss(value: Tensor, minibatch: dict[str, Tensor], value_clip: float | None) -> Tensor:
    """Squared error to the return; with clipping, values that ran away from the old ones learn no further."""
    error = (value - minibatch["return"]).square()
    if value_clip is not None:
        old = minibatch["value"]
        near = old + (value - old).clamp(-value_clip, value_clip)
        error = torch.maximum(error, (near - minibatch["return"]).square())
    return error.mean()


def explained_variance(value: Tensor, target: Tensor) -> float:
    """1 for values that predict every return, 0 for a constant guess."""
    variance = target.var()
    return float(1 - (target - value.cpu()).var() / variance) if variance > 0 else 0.0

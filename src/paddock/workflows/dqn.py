"""Deep Q-learning (Nature 518, 529) with its improvements: double (arXiv:1509.06461), dueling, n-step, prioritized, and
implicit quantiles (IQN, arXiv:1806.06923) where the network is of that kind.

Shapes: N samples in a batch, K choices, Q quantiles that learn, P quantiles of the target.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional

from paddock.components.learning import TargetNetwork
from paddock.components.optimizers.optimizer import Gradients
from paddock.components.return_computers.bootstrap import importance_weights
from paddock.config.schema import Schema
from paddock.rollout.result import CollectResult
from paddock.rollout.value_actor import GreedyActor
from paddock.workflows.base import Metrics, Phase
from paddock.workflows.context import WorkflowContext
from paddock.workflows.off_policy import ReplayBatch, ReplayConfig, ReplayWorkflow


class EpsilonConfig(Schema):
    """From start to end over so many agent steps, or over a share of training.total_steps; then it stays. `duration`:
    for how many steps, on average, a random choice is held."""

    start: float = Field(ge=0, le=1)
    end: float = Field(ge=0, le=1)
    steps: int | None = Field(default=None, ge=1)
    share: float | None = Field(default=None, gt=0, le=1)
    duration: float = Field(default=1.0, ge=1)

    @model_validator(mode="after")
    def _has_one_length(self) -> EpsilonConfig:
        if (self.steps is None) == (self.share is None):
            raise ValueError("give either steps or share, and null for the other one")
        return self


class DQNConfig(ReplayConfig):
    """Options of DQN."""

    double: bool = True
    target_update_interval: int = Field(ge=1)
    epsilon: EpsilonConfig
    beta: tuple[float, float] = (0.4, 1.0)
    huber_delta: float = Field(default=1.0, gt=0)
    quantiles: int = Field(default=8, ge=1)
    target_quantiles: int = Field(default=32, ge=1)
    anneal_learning_rate: bool = False


class DQN(ReplayWorkflow):
    """Needs components `action_values`, `target_action_values`, `observation_normalizer` and optimizer `action_values`.
    With a prioritized buffer it gives the errors back."""

    config: DQNConfig
    actions = "discrete"

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.values, self.target_values = parts["action_values"], parts["target_action_values"]
        self.optimizer = context.optimizers["action_values"]
        self.target = TargetNetwork(self.target_values, self.values, self.config.tau)
        kind = self._quantile_gradients if self.values.is_distributional else self._value_gradients
        self.gradients = self.compiling.gradients(kind)

    def collect_step(self, step: int, *, phase: Phase) -> CollectResult:
        actor, epsilon = self.actor(), self.epsilon
        if isinstance(actor, GreedyActor):
            actor.epsilon.fill_(epsilon)
        result = super().collect_step(step, phase=phase)
        result.metrics["collect/epsilon"] = epsilon
        return result

    @property
    def epsilon(self) -> float:
        """The chance of a random choice at this step."""
        schedule = self.config.epsilon
        if schedule.share is not None:
            part = self.context.progress / schedule.share
        else:
            part = self.context.counters.agent_steps / (schedule.steps or 1)
        return schedule.start + min(part, 1.0) * (schedule.end - schedule.start)

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One gradient step; the target follows every `target_update_interval` updates."""
        sample = self.prepare_batch(batch)
        buffer: Any = self.context.buffers[phase.buffer or ""]  # of replay: it has a length, maybe priorities
        if "probability" in batch:
            start, end = self.config.beta
            beta = start + self.context.progress * (end - start)
            sample["weight"] = importance_weights(batch["probability"], len(buffer), beta)
        # Fractions are drawn out here, so that a compiled update draws the same numbers as a plain one.
        if self.values.is_distributional:
            shape = (len(sample["reward"]), self.config.quantiles + self.config.target_quantiles)
            sample["fractions"] = torch.rand(shape, device=self.context.device)

        self.anneal_learning_rates()
        metrics, error, gradients = self.gradients(sample)
        norm = self.optimizer.descend(metrics["train/loss"], gradients)
        if (self.context.counters.updates + 1) % self.config.target_update_interval == 0:
            self.target.update()
        if "index" in batch:
            buffer.update_priorities(batch["index"], error)
        return {**metrics, "train/gradient_norm": norm}

    def _value_gradients(self, sample: ReplayBatch) -> tuple[Metrics, Tensor, Gradients]:
        with torch.no_grad():
            next_values = self.target_values(sample["next_observation"])
            choice = (self.values(sample["next_observation"]) if self.config.double else next_values).argmax(-1)
            target = sample["reward"] + sample["bootstrap"] * gather_actions(next_values, choice)
        value = gather_actions(self.values(sample["observation"]), sample["action"])
        error = target - value
        loss = weighted_mean(huber(error, self.config.huber_delta), sample.get("weight"))
        return self._metrics(loss, value), error.detach(), self.optimizer.differentiate(loss)

    def _quantile_gradients(self, sample: ReplayBatch) -> tuple[Metrics, Tensor, Gradients]:
        """Eq. 3, arXiv:1806.06923, with the best choice by the mean of evenly spaced quantiles."""
        fractions, target_fractions = sample["fractions"].split(
            [self.config.quantiles, self.config.target_quantiles], 1
        )
        with torch.no_grad():
            selector = self.values if self.config.double else self.target_values
            choice = selector.expected(sample["next_observation"]).argmax(-1)
            next_value = gather_actions(self.target_values(sample["next_observation"], target_fractions), choice)
            target = sample["reward"].unsqueeze(1) + sample["bootstrap"].unsqueeze(1) * next_value
        value = gather_actions(self.values(sample["observation"], fractions), sample["action"])
        losses = quantile_huber_loss(value, target, fractions, self.config.huber_delta)
        loss = weighted_mean(losses, sample.get("weight"))
        error = target.mean(1) - value.detach().mean(1)
        return self._metrics(loss, value), error, self.optimizer.differentiate(loss)

    def _metrics(self, loss: Tensor, value: Tensor) -> Metrics:
        return {"train/loss": loss.detach(), "train/value": value.detach().mean()}


def gather_actions(values: Tensor, choice: Tensor) -> Tensor:
    """Of values [N, K] or [N, Q, K] those of the choices [N]: [N] or [N, Q]."""
    index = choice.view(-1, *[1] * (values.dim() - 1)).expand(*values.shape[:-1], 1)
    return values.gather(-1, index).squeeze(-1)


def huber(error: Tensor, delta: float) -> Tensor:
    """Squared where the error is small, linear beyond delta."""
    return functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


def quantile_huber_loss(value: Tensor, target: Tensor, fractions: Tensor, delta: float) -> Tensor:
    """[N]: quantile Huber loss of quantiles [N, Q] at `fractions` [N, Q] to samples [N, P]; Eq. 3, arXiv:1806.06923."""
    error = target.unsqueeze(1) - value.unsqueeze(2)
    tilt = (fractions.unsqueeze(2) - (error.detach() < 0).float()).abs()
    return (tilt * huber(error, delta) / delta).mean(2).sum(1)


def weighted_mean(loss: Tensor, weight: Tensor | None) -> Tensor:
    """The mean of [N], with importance weights [N] where there are any."""
    return loss.mean() if weight is None else (loss * weight).mean()

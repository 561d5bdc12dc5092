"""Implicit Q-learning (arXiv:2110.06169): learns from recorded transitions alone, without ever asking for the value of
an action that was not taken.

Shapes: N samples in a batch, C critics, A action dimensions.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.learning import TargetNetwork, is_frozen
from paddock.components.optimizers.optimizer import Gradients
from paddock.workflows.base import Metrics, Phase
from paddock.workflows.context import WorkflowContext
from paddock.workflows.off_policy import ReplayBatch, ReplayConfig, ReplayWorkflow
from paddock.workflows.sac import critic_loss


class IQLConfig(ReplayConfig):
    """Options of IQL. expectile: of the values of the actions taken, which one a state is worth; 0.5 is their mean,
    towards 1 the best. beta: how much more an action counts that was better than its state; 0 clones all of them.
    max_weight: of an action."""

    expectile: float = Field(gt=0, lt=1)
    beta: float = Field(ge=0)
    max_weight: float = Field(gt=0)


class IQL(ReplayWorkflow):
    """Needs components `policy` (whatever has `log_prob`), `value`, `critics`, `target_critics`,
    `observation_normalizer` and optimizers `policy`, `value`, `critics`."""

    config: IQLConfig
    actions = "continuous"

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.policy, self.value = parts["policy"], parts["value"]
        self.critics, self.target_critics = parts["critics"], parts["target_critics"]
        self.optimizers = context.optimizers
        self.target = TargetNetwork(self.target_critics, self.critics, self.config.tau)
        self.gradients = self.compiling.gradients(self._gradients)

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the value, of the policy, of the critics and of their targets."""
        self.learn_scale(batch, phase)
        sample = self.prepare_batch(batch)
        metrics, gradients = self.gradients(sample)
        for name, part in (("value", self.value), ("policy", self.policy), ("critics", self.critics)):
            if not is_frozen(part):
                norm = self.optimizers[name].descend(metrics[f"train/{name}_loss"], gradients[name])
                metrics[f"train/{name}_gradient_norm"] = norm
        if not is_frozen(self.critics):
            self.target.update()
        return metrics

    def _gradients(self, sample: ReplayBatch) -> tuple[Metrics, dict[str, Gradients]]:
        observation, action = sample["observation"], sample["action"]
        with torch.no_grad():
            taken = self.target_critics(observation, action).amin(0)
            target = sample["reward"] + sample["bootstrap"] * self.value(sample["next_observation"])
        value = self.value(observation)
        advantage = taken - value.detach()
        values = self.critics(observation, action)
        losses = {
            "value": expectile_loss(taken - value, self.config.expectile),
            "critics": critic_loss(values, target),
            "policy": weighted_cloning_loss(
                self.policy(observation).log_prob(action), advantage, self.config.beta, self.config.max_weight
            ),
        }
        metrics: Metrics = {f"train/{name}_loss": loss.detach() for name, loss in losses.items()}
        metrics |= {"train/value": value.detach().mean(), "train/advantage": advantage.mean()}
        gradients: dict[str, Gradients] = {
            name: () if is_frozen(getattr(self, name)) else self.optimizers[name].differentiate(loss)
            for name, loss in losses.items()
        }
        return metrics, gradients


def expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """Mean of squared errors [N], those above 0 weighted by the expectile, the others by the rest; Eq. 5."""
    weight = torch.where(error > 0, expectile, 1 - expectile)
    return (weight * error.square()).mean()


def weighted_cloning_loss(log_prob: Tensor, advantage: Tensor, beta: float, max_weight: float) -> Tensor:
    """Minus the log-probability [N] of the actions taken, weighted by exp(beta * advantage [N]), bounded; Eq. 7."""
    weight = (beta * advantage).exp().clamp(max=max_weight)
    return -(weight * log_prob).mean()

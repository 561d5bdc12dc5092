"""Randomised ensembled double Q-learning (arXiv:2101.05982): many critics, many updates of them per step.

Shapes: N samples in a batch, C critics, A action dimensions.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.compilation import compile_gradients
from paddock.components.targets import TargetNetwork
from paddock.core.errors import InputError
from paddock.workflows.base import Metrics, Phase
from paddock.workflows.context import WorkflowContext
from paddock.workflows.off_policy import ReplayConfig, Replayed, ReplayWorkflow
from paddock.workflows.sac import adjust_temperature, critic_loss, policy_loss, soft_target


class REDQConfig(ReplayConfig):
    """Options of REDQ."""

    subset: int = Field(ge=1)


class REDQ(ReplayWorkflow):
    """Needs what SAC needs, with an ensemble of critics. Phases name its two updates, each with a ratio of its own:
    `update_critics` (20 per step in the paper) and `update_policy` (1 per step)."""

    config: REDQConfig
    actions = "continuous"

    def __init__(self, config: REDQConfig) -> None:
        super().__init__(config)

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.policy, self.critics, self.target_critics = parts["policy"], parts["critics"], parts["target_critics"]
        self.temperature, self.optimizers = parts["temperature"], context.optimizers
        self.copies = self.critics.config.copies
        if self.config.subset > self.copies:
            raise InputError(
                f"workflow.subset = {self.config.subset} critics cannot be drawn from components.critics.copies = "
                f"{self.copies}; make the one smaller or the other larger."
            )
        self.target = TargetNetwork(self.target_critics, self.critics, self.config.target_rate)
        self.critic_gradients = compile_gradients(self._critic_gradients, enabled=self.config.compile)
        self.policy_gradients = compile_gradients(self._policy_gradients, enabled=self.config.compile)

    def update_critics(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of all critics towards one target, and of their targets."""
        sample = self.replayed(batch)
        noise = torch.randn(sample["action"].shape, device=self.context.device)
        chosen = torch.randperm(self.copies, device=self.context.device)[: self.config.subset]
        metrics, gradients = self.critic_gradients(sample, noise, chosen)
        norm = self.optimizers["critics"].apply(metrics["train/critic_loss"], gradients)
        self.target.follow()
        return {**metrics, "train/critic_gradient_norm": norm}

    def update_policy(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the policy and of the temperature."""
        sample = self.replayed(batch)
        noise = torch.randn(sample["action"].shape, device=self.context.device)
        metrics, gradients = self.policy_gradients(sample["observation"], noise)
        norm = self.optimizers["policy"].apply(metrics["train/policy_loss"], gradients)
        adjust_temperature(self.temperature, self.optimizers["temperature"], metrics["train/entropy"])
        return {**metrics, "train/policy_gradient_norm": norm, "train/temperature": self.temperature()}

    def _critic_gradients(self, sample: Replayed, noise: Tensor, chosen: Tensor) -> tuple[Metrics, tuple[Tensor, ...]]:
        """Eq. 1, arXiv:2101.05982: the target is the least of a random subset of the target critics."""
        with torch.no_grad():
            following = sample["next_observation"]
            action, log_prob = self.policy(following).sample_with_log_prob(noise)
            next_value = self.target_critics(following, action, chosen).amin(0)
            target = soft_target(sample, next_value, log_prob, self.temperature())
        values = self.critics(sample["observation"], sample["action"])
        loss = critic_loss(values, target)
        metrics = {
            "train/critic_loss": loss.detach() / self.copies,
            "train/value": values.detach().mean(),
            "train/value_spread": values.detach().std(0).mean(),
        }
        return metrics, self.optimizers["critics"].differentiate(loss)

    def _policy_gradients(self, observation: dict[str, Tensor], noise: Tensor) -> tuple[Metrics, tuple[Tensor, ...]]:
        """The policy improves on the mean of all critics."""
        action, log_prob = self.policy(observation).sample_with_log_prob(noise)
        loss = policy_loss(log_prob, self.critics(observation, action).mean(0), self.temperature())
        metrics = {"train/policy_loss": loss.detach(), "train/entropy": -log_prob.detach().mean()}
        return metrics, self.optimizers["policy"].differentiate(loss)

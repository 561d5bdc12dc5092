"""Randomised ensembled double Q-learning (arXiv:2101.05982): many critics, many updates of them per step.

Shapes: N samples in a batch, C critics, A action dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.learning import TargetNetwork
from paddock.components.optimizers.optimizer import Gradients
from paddock.core.errors import InputError
from paddock.workflows.base import Metrics, Phase
from paddock.workflows.context import WorkflowContext
from paddock.workflows.off_policy import ReplayBatch, ReplayConfig, ReplayWorkflow
from paddock.workflows.sac import adjust_temperature, critic_loss, policy_loss, soft_target


class REDQConfig(ReplayConfig):
    """Options of REDQ."""

    subset: int = Field(ge=1)
    anneal_learning_rate: bool = False


class REDQ(ReplayWorkflow):
    """Needs what SAC needs, with an ensemble of critics. Phases give its two updates ratios of their own:
    `update_critics` (20 per step in the paper) and `update_policy` (1 per step); `update` is one of each."""

    config: REDQConfig
    actions = "continuous"
    splits_updates = True

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.policy, self.critics, self.target_critics = parts["policy"], parts["critics"], parts["target_critics"]
        self.temperature, self.optimizers = parts["temperature"], context.optimizers
        self.ensemble_size = self.critics.config.ensemble_size
        if self.config.subset > self.ensemble_size:
            raise InputError(
                f"workflow.subset = {self.config.subset} critics cannot be drawn from "
                f"components.critics.ensemble_size = {self.ensemble_size}; make the one smaller or the other larger."
            )
        self.target = TargetNetwork(self.target_critics, self.critics, self.config.tau)
        self.critic_gradients = self.compiling.gradients(self._critic_gradients)
        self.policy_gradients = self.compiling.gradients(self._policy_gradients)

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the critics, then one of the policy and of the temperature."""
        return {**self.update_critics(batch, phase=phase), **self.update_policy(batch, phase=phase)}

    def update_critics(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of all critics towards one target, and of their targets."""
        self.anneal_learning_rates()
        sample = self.prepare_batch(batch)
        noise = torch.randn(sample["action"].shape, device=self.context.device)
        chosen = torch.randperm(self.ensemble_size, device=self.context.device)[: self.config.subset]
        of_chosen = partial(self.critic_gradients, chosen=chosen)
        metrics, gradients = self.context.learners.mean(of_chosen, sample, noise)
        norm = self.optimizers["critics"].descend(metrics["train/critic_loss"], gradients)
        self.target.update()
        return {**metrics, "train/critic_gradient_norm": norm}

    def update_policy(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the policy and of the temperature."""
        self.anneal_learning_rates()
        sample = self.prepare_batch(batch)
        noise = torch.randn(sample["action"].shape, device=self.context.device)
        metrics, gradients = self.context.learners.mean(self.policy_gradients, sample["observation"], noise)
        norm = self.optimizers["policy"].descend(metrics["train/policy_loss"], gradients)
        adjust_temperature(self.temperature, self.optimizers["temperature"], metrics["train/entropy"])
        return {**metrics, "train/policy_gradient_norm": norm, "train/temperature": self.temperature()}

    def _critic_gradients(self, sample: ReplayBatch, noise: Tensor, chosen: Tensor) -> tuple[Metrics, Gradients]:
        """Eq. 1, arXiv:2101.05982: the target is the least of a random subset of the target critics."""
        with torch.no_grad():
            action, log_prob = self.policy(sample["next_observation"]).sample_with_log_prob(noise)
            next_value = self.target_critics(sample["next_observation"], action, chosen).amin(0)
            target = soft_target(sample, next_value, log_prob, self.temperature())
        values = self.critics(sample["observation"], sample["action"])
        loss = critic_loss(values, target)
        metrics = {
            "train/critic_loss": loss.detach() / self.ensemble_size,
            "train/value": values.detach().mean(),
            "train/value_std": values.detach().std(0).mean(),
        }
        return metrics, self.optimizers["critics"].differentiate(loss)

    def _policy_gradients(self, observation: dict[str, Tensor], noise: Tensor) -> tuple[Metrics, Gradients]:
        """The policy improves on the mean of all critics."""
        action, log_prob = self.policy(observation).sample_with_log_prob(noise)
        loss = policy_loss(log_prob, self.critics(observation, action, learns=False).mean(0), self.temperature())
        metrics = {"train/policy_loss": loss.detach(), "train/entropy": -log_prob.detach().mean()}
        return metrics, self.optimizers["policy"].differentiate(loss)

"""Soft actor-critic (arXiv:1812.05905) with twin critics and a learned or fixed temperature.

Shapes: N samples in a batch, C critics, A action dimensions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paddock.components.learning import TargetNetwork, is_frozen
from paddock.components.optimizers.optimizer import Gradients, Optimizer
from paddock.workflows.base import Metrics, Phase
from paddock.workflows.context import WorkflowContext
from paddock.workflows.off_policy import ReplayBatch, ReplayConfig, ReplayWorkflow

INSIDE = 0.999  # A demonstration's full lock: the tanh of a number that can be reached.


class SACConfig(ReplayConfig):
    """Options of SAC."""

    anneal_learning_rate: bool = False


class SAC(ReplayWorkflow):
    """Needs components `policy`, `critics`, `target_critics`, `temperature`, `observation_normalizer` and optimizers
    `policy`, `critics`, `temperature`."""

    config: SACConfig
    actions = "continuous"
    splits_updates = True

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.policy, self.critics, self.target_critics = parts["policy"], parts["critics"], parts["target_critics"]
        self.temperature, self.optimizers = parts["temperature"], context.optimizers
        self.target = TargetNetwork(self.target_critics, self.critics, self.config.tau)
        self.critic_gradients = self.compiling.gradients(self._critic_gradients)
        self.policy_gradients = self.compiling.gradients(self._policy_gradients)

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the critics, of their targets, of the policy and of the temperature, in this order."""
        self.anneal_learning_rates()
        sample = self.prepare_batch(batch)
        # Noise is drawn out here, so that a compiled update draws the same numbers as a plain one.
        next_noise, noise = torch.randn(2, *sample["action"].shape, device=self.context.device)
        metrics: Metrics = {"train/temperature": self.temperature()}
        return {**metrics, **self._step_critics(sample, next_noise), **self._step_policy(sample, noise)}

    def update_critics(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the critics and of their targets alone."""
        self.anneal_learning_rates()
        sample = self.prepare_batch(batch)
        return self._step_critics(sample, torch.randn(sample["action"].shape, device=self.context.device))

    def update_policy(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the policy and of the temperature alone."""
        self.anneal_learning_rates()
        sample = self.prepare_batch(batch)
        noise = torch.randn(sample["action"].shape, device=self.context.device)
        return {"train/temperature": self.temperature(), **self._step_policy(sample, noise)}

    def clone_policy(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One step of the policy alone towards the actions of the batch: for demonstrations, before it collects."""
        self.learn_scale(batch, phase)
        sample = self.prepare_batch(batch)
        action = sample["action"].clamp(-INSIDE, INSIDE)
        metrics, gradients = self.context.learners.mean(self._cloning_gradients, sample["observation"], action)
        norm = self.optimizers["policy"].descend(metrics["train/cloning_loss"], gradients)
        return {**metrics, "train/policy_gradient_norm": norm}

    def _cloning_gradients(self, observation: dict[str, Tensor], action: Tensor) -> tuple[Metrics, Gradients]:
        loss = -self.policy(observation).log_prob(action).mean()
        return {"train/cloning_loss": loss.detach()}, self.optimizers["policy"].differentiate(loss)

    def _step_critics(self, sample: ReplayBatch, noise: Tensor) -> Metrics:
        if is_frozen(self.critics):
            return {}
        metrics, gradients = self.context.learners.mean(self.critic_gradients, sample, noise)
        norm = self.optimizers["critics"].descend(metrics["train/critic_loss"], gradients)
        self.target.update()
        return {**metrics, "train/critic_gradient_norm": norm}

    def _step_policy(self, sample: ReplayBatch, noise: Tensor) -> Metrics:
        if is_frozen(self.policy):
            return {}
        metrics, gradients = self.context.learners.mean(self.policy_gradients, sample["observation"], noise)
        norm = self.optimizers["policy"].descend(metrics["train/policy_loss"], gradients)
        adjust_temperature(self.temperature, self.optimizers["temperature"], metrics["train/entropy"])
        return {**metrics, "train/policy_gradient_norm": norm}

    def _critic_gradients(self, sample: ReplayBatch, noise: Tensor) -> tuple[Metrics, Gradients]:
        """Eq. 5, arXiv:1812.05905: the squared soft Bellman error."""
        with torch.no_grad():
            action, log_prob = self.policy(sample["next_observation"]).sample_with_log_prob(noise)
            next_value = self.target_critics(sample["next_observation"], action).amin(0)
            target = soft_target(sample, next_value, log_prob, self.temperature())
        values = self.critics(sample["observation"], sample["action"])
        loss = critic_loss(values, target)
        metrics = {"train/critic_loss": loss.detach(), "train/value": values.detach().mean()}
        return metrics, self.optimizers["critics"].differentiate(loss)

    def _policy_gradients(self, observation: dict[str, Tensor], noise: Tensor) -> tuple[Metrics, Gradients]:
        """Eq. 7, arXiv:1812.05905, with the smaller of the critics' values."""
        action, log_prob = self.policy(observation).sample_with_log_prob(noise)
        loss = policy_loss(log_prob, self.critics(observation, action, learns=False).amin(0), self.temperature())
        metrics = {"train/policy_loss": loss.detach(), "train/entropy": -log_prob.detach().mean()}
        return metrics, self.optimizers["policy"].differentiate(loss)


def soft_target(sample: ReplayBatch, next_value: Tensor, next_log_prob: Tensor, temperature: Tensor) -> Tensor:
    """[N]: the reward, and the value with entropy of what follows; Eq. 3 in Eq. 6, arXiv:1812.05905."""
    return sample["reward"] + sample["bootstrap"] * (next_value - temperature * next_log_prob)


def critic_loss(values: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of values [C, N] to the target [N], summed over the critics, each of which learns alone."""
    return 0.5 * (values - target).square().mean(1).sum()


def policy_loss(log_prob: Tensor, value: Tensor, temperature: Tensor) -> Tensor:
    """Entropy-regularised policy loss: alpha times the log-probability [N], minus the value [N] of the actions."""
    return (temperature * log_prob - value).mean()


def adjust_temperature(temperature: Any, optimizer: Optimizer, entropy: Tensor) -> None:
    """One step on Eq. 18, arXiv:1812.05905: alpha rises while the entropy is below its target, and falls above it.

    The loss is `log alpha * (entropy - target)` as in the authors' code, whose gradient needs no backward pass.
    """
    if temperature.is_learned and not is_frozen(temperature):
        excess = entropy - temperature.target_entropy
        optimizer.descend(temperature.log.detach() * excess, [excess])

"""Dreamer: a world model learned from replay, and a policy learned in its dreams. One file for V1 (arXiv:1912.01603),
V2 (arXiv:2010.02193) and V3 of 2023 and of 2024 (arXiv:2301.04104, versions 1 and 2); presets choose among them.

Shapes: B sequences, T steps, H imagined steps, N = B * T states that are imagined from, F features, A action numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from paddock.components.controllers.latent_control import Distribution
from paddock.components.distributions import Categorical, SquashedGaussian
from paddock.components.freezing import is_frozen
from paddock.components.targets import TargetNetwork
from paddock.config.schema import TargetSchema
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext
from paddock.workflows.dreamer_losses import (
    Sample,
    imagined_returns,
    policy_loss,
    replay_returns,
    shift_actions,
    value_loss,
    weighted_sum,
    world_model_losses,
)

Latent = dict[str, Tensor]


class DreamerConfig(TargetSchema):
    """Options of Dreamer."""

    version: Literal["v1", "v2", "v3_2023", "v3_2024"]
    horizon: int = Field(ge=1)
    imagination_starts: int | None = Field(ge=1)
    gamma: float = Field(gt=0, le=1)
    lambda_: float = Field(ge=0, le=1, alias="lambda")
    scales: dict[str, float]
    free_nats: float = Field(ge=0)
    free_nats_of_mean: bool
    entropy_coef: float = Field(ge=0)
    reinforce_share: float | None = Field(ge=0, le=1)
    baseline: Literal["value", "slow_value"]
    tau: float = Field(gt=0, le=1)
    target_update_interval: int = Field(ge=1)
    slow_regularizer: bool
    replay_value_coef: float = Field(ge=0)

    @model_validator(mode="after")
    def _check(self) -> DreamerConfig:
        if self.replay_value_coef and self.imagination_starts is not None:
            raise ValueError(
                "replay_value_coef needs every state to be imagined from; set imagination_starts to null, or "
                "replay_value_coef to 0"
            )
        return self


@dataclass(frozen=True)
class Dream:
    """What was imagined: `features` [H + 1, N, F], `action` and `reward` [H, N, ...], `continues` [H + 1, N]."""

    features: Tensor
    action: Tensor
    reward: Tensor
    continues: Tensor


class Dreamer(Workflow):
    """Needs components `world_model` (see components/dynamics/world_model.py), `policy` and `value` over its features,
    `slow_value`, `return_scale`, and optimizers `world_model`, `policy`, `value`. Batches are sequences of T + 1 rows.
    """

    config: DreamerConfig

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__(config)

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.model, self.policy, self.value = parts["world_model"], parts["policy"], parts["value"]
        self.slow_value, self.return_scale = parts["slow_value"], parts["return_scale"]
        self.slow = TargetNetwork(self.slow_value, self.value, self.config.tau)
        self.optimizers = context.optimizers
        share, is_discrete = self.config.reinforce_share, context.spec.action.is_discrete
        self.reinforce_share = float(is_discrete) if share is None else share
        self.by_dynamics = self.reinforce_share < 1
        self.needs_slow = self.config.slow_regularizer or self.config.baseline == "slow_value"

    @property
    def kind(self) -> str:
        return f"{super().kind} ({self.config.version})"

    def update(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of the world model, then one of policy and value from the states that it found."""
        sample = shift_actions(batch, self.context.device)
        latents, metrics = self._learn_model(sample)
        return {**metrics, **self._learn_controller(latents, sample)}

    def update_world_model(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of the world model alone."""
        return self._learn_model(shift_actions(batch, self.context.device))[1]

    def update_controller(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of policy and value alone, from states that the world model finds in the batch."""
        sample = shift_actions(batch, self.context.device)
        with torch.no_grad():
            latents = self._observe(sample)
        return self._learn_controller(latents, sample)

    def imagine(self, start: Latent, *, horizon: int) -> tuple[Tensor, Tensor]:
        """Follow the policy in the model: features [H + 1, N, F] from latents `start` [N, ...], and actions
        [H, N, ...] as the policy gives them. Gradients reach the policy through the actions where they can."""
        latent, features, actions = start, [self.model.features(start)], []
        for _ in range(horizon):
            action, encoded = self._drawn(self.policy(features[-1]))
            latent = self.model.imagine_step(latent, encoded)
            features.append(self.model.features(latent))
            actions.append(action)
        self.context.counters.imagined_steps += horizon * len(actions[0])
        return torch.stack(features), torch.stack(actions)

    def _observe(self, sample: Sample) -> Latent:
        action = self.model.encode_action(sample["action"])
        return self.model.observe_sequence(sample["observation"], action, sample["is_first"])

    def _learn_model(self, sample: Sample) -> tuple[Latent, Metrics]:
        """Latents [B, T, ...] without a gradient, and metrics."""
        config = self.config
        self.model.learn_scale(sample["observation"])
        with torch.set_grad_enabled(not is_frozen(self.model)):
            latents = self._observe(sample)
            losses, kl = world_model_losses(
                self.model, latents, sample, free_nats=config.free_nats, free_mean=config.free_nats_of_mean
            )
            loss = weighted_sum(losses, config.scales)
        metrics: Metrics = {f"train/{name}_loss": value.detach() for name, value in losses.items()}
        metrics |= {"train/model_loss": loss.detach(), "train/kl": kl}
        if not is_frozen(self.model):
            metrics["train/model_gradient_norm"] = self.optimizers["world_model"].descend(loss)
        return {name: part.detach() for name, part in latents.items()}, metrics

    def _learn_controller(self, latents: Latent, sample: Sample) -> Metrics:
        """Dream from every state, then one step of the policy and one of the value."""
        config = self.config
        with torch.set_grad_enabled(self.by_dynamics):
            dream = self._dream({name: latents[name].flatten(0, 1) for name in self.model.initial(1)}, sample)
            slow = self.slow_value.predict(self.slow_value(dream.features)) if self.needs_slow else None
        outputs = self.value(dream.features[:-1])
        with torch.set_grad_enabled(self.by_dynamics):
            last = self.value.predict(self.value(dream.features[-1:]))
            value = torch.cat([self.value.predict(outputs), last])
            baseline = slow if slow is not None and config.baseline == "slow_value" else value
            returns, weight = imagined_returns(
                dream.reward, dream.continues, baseline, gamma=config.gamma, lambda_=config.lambda_
            )
        target, weight = returns.detach(), weight.detach()
        self.return_scale.update(target)
        scale = self.return_scale()

        # The policy first: its gradient may run through the value as it was when it gave the baseline.
        distribution = self.policy(dream.features[:-1].detach())
        advantage = self.reinforce_share * (target - baseline[:-1].detach()) / scale
        loss, entropy = policy_loss(
            distribution, dream.action.detach(), advantage, weight, entropy_coef=config.entropy_coef
        )
        if self.by_dynamics:
            loss = loss - (1 - self.reinforce_share) * (weight * returns / scale).mean()
        metrics = self._step("policy", loss)

        regularizer = slow.detach()[:-1] if slow is not None and config.slow_regularizer else None
        loss = value_loss(self.value, outputs, target, regularizer, weight)
        if config.replay_value_coef:
            loss = loss + config.replay_value_coef * self._replay_value_loss(latents, sample, target[0])
        metrics |= self._step("value", loss)
        if self.needs_slow and (self.context.counters.updates + 1) % config.target_update_interval == 0:
            self.slow.update()
        return metrics | {
            "controller/entropy": entropy,
            "controller/value": value.detach().mean(),
            "controller/return": target.mean(),
            "controller/return_scale": scale,
            "controller/imagined_reward": dream.reward.detach().mean(),
        }

    def _dream(self, start: Latent, sample: Sample) -> Dream:
        continues = sample["continue"].flatten()
        if self.config.imagination_starts is not None:
            chosen = torch.randperm(len(continues), device=continues.device)[: self.config.imagination_starts]
            start, continues = {name: part[chosen] for name, part in start.items()}, continues[chosen]
        features, action = self.imagine(start, horizon=self.config.horizon)
        reward = self.model.reward.predict(self.model.reward(features[1:]))
        # Whether the first state was an episode's last is known.
        continues = torch.cat([continues[None], self.model.goes_on(features[1:]).sigmoid()])
        return Dream(features, action, reward, continues)

    def _replay_value_loss(self, latents: Latent, sample: Sample, dreamed: Tensor) -> Tensor:
        """[]: the value has to fit what really followed, too; dreamed returns [N] stand for what follows beyond."""
        config = self.config
        returns, weight = replay_returns(
            sample, dreamed.view_as(sample["reward"]), gamma=config.gamma, lambda_=config.lambda_
        )
        features = self.model.features(latents).transpose(0, 1)[:-1]
        slow = None
        if config.slow_regularizer:
            with torch.no_grad():
                slow = self.slow_value.predict(self.slow_value(features))
        return value_loss(self.value, self.value(features), returns, slow, weight)

    def _step(self, name: str, loss: Tensor) -> Metrics:
        """One step of the named component, unless the phase freezes it. Only its own parameters are differentiated."""
        metrics: Metrics = {f"controller/{name}_loss": loss.detach()}
        if not is_frozen(self.context.components[name]):
            optimizer = self.optimizers[name]
            gradients = optimizer.differentiate(loss, retain_graph=self.by_dynamics)
            metrics[f"controller/{name}_gradient_norm"] = optimizer.apply(loss.detach(), gradients)
        return metrics

    def _drawn(self, distribution: Distribution) -> tuple[Tensor, Tensor]:
        """An action as the policy gives it, and as the model reads it; with gradients where dreams need them."""
        if isinstance(distribution, Categorical):
            action = distribution.sample()
            encoded = self.model.encode_action(action)
            if self.by_dynamics:
                probabilities = distribution.logits.softmax(-1)
                encoded = encoded + probabilities - probabilities.detach()
            return action, encoded
        if isinstance(distribution, SquashedGaussian):
            action = distribution.sample_with_log_prob(torch.randn_like(distribution.mean))[0]
        else:
            action = distribution.sample()
        return action, self.model.encode_action(action)

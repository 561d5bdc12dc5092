"""Dreamer: a world model learned from replay, and a policy learned in its dreams. One file for V1 (arXiv:1912.01603),
V2 (arXiv:2010.02193) and V3 of 2023 and of 2024 (arXiv:2301.04104, versions 1 and 2); presets choose among them.

Shapes, time first: T steps, B sequences, H imagined steps, N = T * B states that are imagined from, F features,
A action numbers.
Symbols: R lambda-returns, v values, S the scale of returns, w weights of imagined states, pi the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from paddock.components.actions import Categorical, SquashedGaussian, flattened, normal_like, to_vector
from paddock.components.controllers.latent_control import Distribution, stacked
from paddock.components.learning import TargetNetwork, is_frozen
from paddock.components.optimizers.optimizer import Gradients
from paddock.components.return_computers.td_lambda import lambda_returns
from paddock.core.trees import map_tree
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext
from paddock.workflows.world_model_update import (
    Latent,
    Sample,
    WorldModelLossConfig,
    WorldModelScales,
    WorldModelUpdate,
    observe,
    prepare_batch,
)

CONTROLLER_LOSSES = ("policy", "value")


class DreamerScales(WorldModelScales):
    """What each loss counts: those of the world model, of the policy and of the value."""

    policy: float = Field(default=1.0, ge=0)
    value: float = Field(default=1.0, ge=0)


class DreamerConfig(WorldModelLossConfig):
    """Options of Dreamer."""

    version: Literal["v1", "v2", "v3_2023", "v3_2024"]
    horizon: int = Field(ge=1)
    imagination_starts: int | None = Field(ge=1)
    gamma: float = Field(gt=0, le=1)
    lambda_: float = Field(ge=0, le=1, alias="lambda")
    scales: DreamerScales
    entropy_coef: float = Field(ge=0)
    reinforce_share: float | None = Field(ge=0, le=1)
    baseline: Literal["value", "slow_value"]
    tau: float = Field(gt=0, le=1)
    target_update_interval: int = Field(ge=1)
    slow_regularizer: bool
    replay_value_coef: float = Field(ge=0)
    anneal_learning_rate: bool = False

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
    """What was imagined: `features` [H + 1, N, F], `action` and `reward` [H, N, ...], `continues` [H + 1, N], and the
    `policy` [H, N] that was followed."""

    features: Tensor
    action: Tensor
    reward: Tensor
    continues: Tensor
    policy: Distribution


class Dreamer(Workflow):
    """Needs components `world_model` (see components/dynamics/world_model.py), `policy` and `value` over its features,
    `slow_value`, `return_scale`, and optimizers `world_model`, `policy`, `value`. Batches are sequences of T + 1 rows.
    """

    config: DreamerConfig
    splits_updates = True

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        parts = context.components
        self.model, self.policy, self.value = parts["world_model"], parts["policy"], parts["value"]
        self.slow_value, self.return_scale = parts["slow_value"], parts["return_scale"]
        self.slow = TargetNetwork(self.slow_value, self.value, self.config.tau)
        self.optimizers = context.optimizers
        self.scales = self.config.scales.model_dump(by_alias=True)
        self.model_scales = {name: scale for name, scale in self.scales.items() if name not in CONTROLLER_LOSSES}
        share, is_discrete = self.config.reinforce_share, context.spec.action.is_discrete
        self.reinforce_share = float(is_discrete) if share is None else share
        self.by_dynamics = self.reinforce_share < 1
        self.needs_slow = self.config.slow_regularizer or self.config.baseline == "slow_value"
        optimizer, learners = self.optimizers["world_model"], context.learners
        self.learn_model = WorldModelUpdate(self.model, optimizer, self.config, self.model_scales, learners)
        self.controller_gradients = learners.mean_of(self._controller_gradients, axis=1, sees_whole=True)
        self.scale_of = learners.whole_of(self._scale_of, axis=2)

    @property
    def kind(self) -> str:
        return f"{super().kind} ({self.config.version})"

    def update(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of the world model, then one of policy and value from the states that it found."""
        self.anneal_learning_rates()
        sample = self._prepare(batch)
        losses = {*self.model_scales, *CONTROLLER_LOSSES}
        assert losses == self.scales.keys(), f"losses {sorted(losses)}, scales {sorted(self.scales)}"
        latents, metrics = self.learn_model(sample)
        return metrics | self._learn_controller(latents, sample)

    def update_world_model(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of the world model alone."""
        self.anneal_learning_rates()
        return self.learn_model(self._prepare(batch))[1]

    def update_controller(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One step of policy and value alone, from states that the world model finds in the batch."""
        self.anneal_learning_rates()
        sample = self._prepare(batch)
        with torch.no_grad():
            latents = observe(self.model, sample)
        return self._learn_controller(latents, sample)

    def imagine(self, start: Latent, *, horizon: int) -> tuple[Tensor, Tensor]:
        """Follow the policy in the model: features [H + 1, N, F] from latents `start` [N, ...], and actions
        [H, N, ...] as the policy gives them. Gradients reach the policy through the actions where they can."""
        return self._follow(start, horizon, learns=torch.is_grad_enabled())[:2]

    def _follow(self, start: Latent, horizon: int, *, learns: bool) -> tuple[Tensor, Tensor, Distribution]:
        """As `imagine`, and the policy [H, N] that was followed. If it `learns` it has a gradient even where
        nothing else has one."""
        latent, features, actions, followed = start, [self.model.features(start)], [], []
        for _ in range(horizon):
            with torch.set_grad_enabled(learns):
                followed.append(self.policy(features[-1]))
            action, encoded = self._sample_action(followed[-1])
            latent = self.model.imagine_step(latent, encoded)
            features.append(self.model.features(latent))
            actions.append(action)
        with torch.set_grad_enabled(learns):
            return torch.stack(features), torch.stack(actions), stacked(followed)

    def _prepare(self, batch: Sample) -> Sample:
        """[T, B, ...] of T + 1 rows, the first of which lends its action."""
        return prepare_batch(batch, self.context.spec.action, skip=1)

    def _learn_controller(self, latents: Latent, sample: Sample) -> Metrics:
        """Imagine from every state, then one step of the policy and one of the value."""
        config, names = self.config, self.model.initial(1)
        starts: Sample = {"latent": {name: latents[name] for name in names}, "continue": sample["continue"]}
        if config.imagination_starts is not None:
            starts = map_tree(lambda part: part.flatten(0, 1), starts)
            states = len(starts["continue"])
            chosen = torch.randperm(states, device=self.context.device)[: config.imagination_starts]
            starts = map_tree(lambda part: part[chosen][None], starts)
        else:
            starts |= {name: sample[name] for name in ("reward", "is_last")}
        metrics, policy_gradients, value_gradients = self.controller_gradients(starts)
        self.context.counters.imagined_steps += config.horizon * starts["continue"].numel()
        metrics = self._descend("policy", metrics, policy_gradients)
        metrics = self._descend("value", metrics, value_gradients)
        if self.needs_slow and (self.context.counters.updates + 1) % config.target_update_interval == 0:
            self.slow.update()
        return metrics

    def _controller_gradients(self, starts: Sample) -> tuple[Metrics, Gradients, Gradients]:
        """Of the losses of policy and value, by dreams from states [T, B], or from [1, N] that were chosen."""
        config, shape, learns = self.config, starts["continue"].shape, torch.is_grad_enabled()
        by_dynamics = self.by_dynamics and learns

        # Imagine
        with torch.set_grad_enabled(by_dynamics), flattened(shape[0]):
            dream = self._dream(map_tree(lambda part: part.flatten(0, 1), starts), learns=learns)

        # Values
        outputs = self.value(dream.features[:-1])
        with torch.set_grad_enabled(by_dynamics):
            v_slow = self.slow_value.predict(self.slow_value(dream.features)) if self.needs_slow else None
            v_last = self.value.predict(self.value(dream.features[-1:]))
            v = torch.cat([self.value.predict(outputs), v_last])
            baseline = v_slow if v_slow is not None and config.baseline == "slow_value" else v

        # Returns: Eq. 4, arXiv:2010.02193, and their scale: Eq. 12, arXiv:2301.04104
        with torch.set_grad_enabled(by_dynamics):
            R, w = imagined_returns(dream.reward, dream.continues, baseline, gamma=config.gamma, lambda_=config.lambda_)
        target, w = R.detach(), w.detach()
        S = self.scale_of(target.unflatten(1, shape))

        # Actor: Eq. 11, arXiv:2301.04104; Eq. 6, arXiv:2010.02193, where gradients run through the dynamics.
        pi = self.policy(dream.features[:-1].detach()) if self.by_dynamics else dream.policy
        advantage = self.reinforce_share * (target - baseline[:-1].detach()) / S
        actor, entropy = policy_loss(pi, dream.action.detach(), advantage, w, entropy_coef=config.entropy_coef)
        if self.by_dynamics:
            actor = actor - (1 - self.reinforce_share) * (w * R / S).mean()

        # Critic: imagined states, and real ones where replay_value_coef says so
        regularizer = v_slow.detach()[:-1] if v_slow is not None and config.slow_regularizer else None
        critic = value_loss(self.value, outputs, target, regularizer, w)
        if config.replay_value_coef:
            critic = critic + config.replay_value_coef * self._replay_value_loss(starts, target[0])

        metrics = {
            "controller/policy_loss": actor.detach(),
            "controller/value_loss": critic.detach(),
            "controller/entropy": entropy,
            "controller/value": v.detach().mean(),
            "controller/return": target.mean(),
            "controller/return_scale": S,
            "controller/imagined_reward": dream.reward.detach().mean(),
        }
        return metrics, self._gradients("policy", actor), self._gradients("value", critic)

    def _scale_of(self, returns: Tensor) -> Tensor:
        """[]: what returns of a whole batch are divided by, once they have been seen."""
        self.return_scale.update(returns)
        return self.return_scale()

    def _dream(self, start: Sample, *, learns: bool) -> Dream:
        """From states [N, ...]."""
        features, action, policy = self._follow(start["latent"], self.config.horizon, learns=learns)
        reward = self.model.reward.predict(self.model.reward(features[1:]))
        # Whether the first state was an episode's last is known.
        continues = torch.cat([start["continue"][None], self.model.goes_on(features[1:]).sigmoid()])
        return Dream(features, action, reward, continues, policy)

    def _replay_value_loss(self, sample: Sample, dreamed: Tensor) -> Tensor:
        """[]: the value has to fit what really followed, too; dreamed returns [N] stand for what follows beyond."""
        config = self.config
        returns, weight = replay_returns(
            sample, dreamed.view_as(sample["reward"]), gamma=config.gamma, lambda_=config.lambda_
        )
        features = self.model.features(sample["latent"])[:-1]
        slow = None
        if config.slow_regularizer:
            with torch.no_grad():
                slow = self.slow_value.predict(self.slow_value(features))
        return value_loss(self.value, self.value(features), returns, slow, weight)

    def _gradients(self, name: str, loss: Tensor) -> Gradients:
        """Of a component's loss, times its scale; none of a frozen one, which is only looked at."""
        if is_frozen(self.context.components[name]):
            return ()
        return self.optimizers[name].differentiate(self.scales[name] * loss, retain_graph=self.by_dynamics)

    def _descend(self, name: str, metrics: Metrics, gradients: Gradients) -> Metrics:
        """One step of the named component; the metrics with the gradient's norm."""
        if is_frozen(self.context.components[name]):
            return metrics
        norm = self.optimizers[name].descend(self.scales[name] * metrics[f"controller/{name}_loss"], gradients)
        return metrics | {f"controller/{name}_gradient_norm": norm}

    def _sample_action(self, distribution: Distribution) -> tuple[Tensor, Tensor]:
        """An action as the policy gives it, and as the model reads it; with gradients where dreams need them."""
        if isinstance(distribution, Categorical):
            action = distribution.sample()
            encoded = to_vector(action, self.context.spec.action)
            if self.by_dynamics:
                probabilities = distribution.logits.softmax(-1)
                encoded = encoded + probabilities - probabilities.detach()
            return action, encoded
        if isinstance(distribution, SquashedGaussian):
            action = distribution.sample_with_log_prob(normal_like(distribution.mean))[0]
        else:
            action = distribution.sample()
        return action, to_vector(action, self.context.spec.action)


def imagined_returns(
    reward: Tensor, continues: Tensor, value: Tensor, *, gamma: float, lambda_: float
) -> tuple[Tensor, Tensor]:
    """Returns [H, N] of imagined states, and how much each counts [H, N].

    Rewards [H, N] come with the state after each action; `continues` and `value` [H + 1, N] are of all states.
    What comes after an episode's likely end counts as much less.
    """
    discount = gamma * continues[1:]
    returns = lambda_returns(reward, value[1:], discount, value[-1], lambda_=lambda_)
    weight = torch.cat([continues[:1], continues[0] * discount[:-1].cumprod(0)])
    return returns, weight


def replay_returns(sample: Sample, bootstrap: Tensor, *, gamma: float, lambda_: float) -> tuple[Tensor, Tensor]:
    """Returns [T - 1, B] along real sequences, with imagined returns [T, B] for what follows, and which count."""
    is_last = sample["is_last"].float()
    discount = gamma * sample["continue"][1:]
    carried = lambda_ * (1 - is_last[1:])
    returns = lambda_returns(sample["reward"][1:], bootstrap[1:], discount, bootstrap[-1], lambda_=carried)
    return returns, 1 - is_last[:-1]


def policy_loss(
    distribution: Distribution, action: Tensor, advantage: Tensor, weight: Tensor, *, entropy_coef: float
) -> tuple[Tensor, Tensor]:
    """REINFORCE with an entropy bonus (Eq. 11, arXiv:2301.04104), and the mean entropy.

    The distribution and the actions are of [H, N] states; `advantage` and `weight` [H, N] carry no gradient.
    """
    entropy = entropy_of(distribution, action)
    gain = distribution.log_prob(action) * advantage + entropy_coef * entropy
    return -(weight * gain).mean(), entropy.detach().mean()


def entropy_of(distribution: Distribution, action: Tensor) -> Tensor:
    """[...]: exact where there is a formula, else of the drawn action."""
    return -distribution.log_prob(action) if isinstance(distribution, SquashedGaussian) else distribution.entropy()


def value_loss(head: Any, outputs: Tensor, target: Tensor, slow: Tensor | None, weight: Tensor) -> Tensor:
    """[]: the loss of raw value outputs [..., K] to returns [...], and to the slow network's values [...] if given."""
    targets = [target] if slow is None else [target, slow]
    return (weight * head.loss(outputs, *targets)).mean()

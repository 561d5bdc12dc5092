"""The latent actor: a small deterministic world model, and a policy that learns by gradients through what it imagines,
with a value of what follows the imagined steps where there is one.

Shapes, time first: T rows, B windows from replay, H imagined steps, S starts of imagination (T * B, or as many as are
drawn from them), A numbers in an action's vector, L of the latent state, F features.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from paddock.components.dynamics.rssm import Latent
from paddock.components.learning import TargetNetwork, is_frozen
from paddock.config.schema import Schema, TargetSchema
from paddock.core.errors import InputError
from paddock.rollout.model_actors import ModelActor
from paddock.rollout.result import CollectResult
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext
from paddock.workflows.dreamer import imagined_returns, value_loss
from paddock.workflows.world_model_update import observe, prepare_batch, weighted_sum

Losses = dict[str, Tensor]


class ExplorationConfig(Schema):
    """What is added to actions while collecting: `start`, times `decay` with each step of the environment, not below
    `end`."""

    start: float = Field(ge=0)
    decay: float = Field(gt=0, le=1)
    end: float = Field(ge=0)


class ScalesConfig(Schema):
    """What each loss of the model counts."""

    reconstruction: float = Field(ge=0)
    next_state: float = Field(ge=0)
    next_observation: float = Field(ge=0)
    reward: float = Field(ge=0)
    continue_: float = Field(ge=0, alias="continue")


class LatentActorConfig(TargetSchema):
    """Options of the latent actor. `imagination_starts` null takes every row; `imagination_noise` is the deviation of
    what is added to imagined actions, where they are numbers; `lambda` and `tau` are of the value."""

    gamma: float = Field(gt=0, le=1)
    horizon: int = Field(ge=1)
    imagination_starts: int | None = Field(default=None, ge=1)
    imagination_noise: float = Field(default=0.0, ge=0)
    lambda_: float = Field(default=0.95, ge=0, le=1, alias="lambda")
    tau: float = Field(default=0.02, gt=0, le=1)
    scales: ScalesConfig
    exploration: ExplorationConfig
    anneal_learning_rate: bool = False


class LatentActor(Workflow):
    """Needs components `world_model`, `policy` and optimizers of the same names; takes a `value` over the model's
    features with an optimizer of that name, and its target `slow_value`. Replay gives windows of rows."""

    config: LatentActorConfig

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        self.model, self.policy = context.components["world_model"], context.components["policy"]
        self.scales = self.config.scales.model_dump(by_alias=True)
        self.model_optimizer, self.policy_optimizer = context.optimizers["world_model"], context.optimizers["policy"]
        if self.config.imagination_noise and context.spec.action.is_discrete:
            raise InputError(
                f"imagination_noise = {self.config.imagination_noise} is for continuous actions, and these are "
                "choices; set it to 0."
            )
        self.value: Any = context.components.get("value")
        if self.value is not None:
            self.slow_value, self.value_optimizer = context.components["slow_value"], context.optimizers["value"]
            self.slow = TargetNetwork(self.slow_value, self.value, self.config.tau)

    def collect_step(self, step: int, *, phase: Phase) -> CollectResult:
        """Collect with as much exploration as is left; the model's scale learns from what the round gave."""
        actor, exploration = self.actor(), self.exploration
        if isinstance(actor, ModelActor):
            actor.exploration.fill_(exploration)
        result = super().collect_step(step, phase=phase)
        if result.observation:  # Nothing may have arrived yet from workers elsewhere.
            observation = {name: torch.from_numpy(part).unsqueeze(1) for name, part in result.observation.items()}
            self.model.learn_scale(observation)
        result.metrics["collect/exploration"] = exploration
        return result

    @property
    def exploration(self) -> float:
        """How much is tried out at this step."""
        schedule = self.config.exploration
        steps = self.context.counters.agent_steps // self.context.experience.num_envs
        return max(schedule.start * schedule.decay**steps, schedule.end)

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One gradient step of the model, and one of the policy from the same windows."""
        return {**self.update_world_model(batch, phase=phase), **self.update_controller(batch, phase=phase)}

    def update_world_model(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One gradient step on what was seen, followed over whole windows; a frozen model is only looked at."""
        rows = prepare_batch(batch, self.context.spec.action)
        if not self.model.knows_scale:  # Nobody collects: a recording tells.
            self.model.learn_scale(rows["observation"])
        with torch.set_grad_enabled(not is_frozen(self.model)):
            losses, metrics = model_losses(self.model, rows)
            loss = weighted_sum(losses, self.scales)
        metrics |= {f"train/{name}_loss": value.detach() for name, value in losses.items()}
        if not is_frozen(self.model):
            metrics["train/model_gradient_norm"] = self._descend(self.model_optimizer, loss)
        return metrics

    def update_controller(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One gradient step of the policy on the return that it imagines from everywhere in the batch, and one of the
        value on what it has imagined."""
        learns_value = self.value is not None and not is_frozen(self.value)
        if is_frozen(self.policy) and not learns_value:
            return {}
        rows = prepare_batch(batch, self.context.spec.action)
        with torch.no_grad():
            seen = observe(self.model, rows)
        start = {name: part.flatten(0, 1) for name, part in seen.items()}
        # A terminated row is the end: nothing can be done there.
        is_open = (~rows["terminated"]).flatten().float()
        if self.config.imagination_starts is not None:
            chosen = torch.randperm(len(is_open), device=is_open.device)[: self.config.imagination_starts]
            start, is_open = {name: part[chosen] for name, part in start.items()}, is_open[chosen]
        self.context.counters.imagined_steps += self.config.horizon * len(is_open)

        with torch.set_grad_enabled(not is_frozen(self.policy)):
            states = self.imagine(start, horizon=self.config.horizon)
            returns, weight = self._returns(states, is_open)
            loss = -(returns[0] * is_open).sum() / is_open.sum().clamp(min=1)
        metrics: Metrics = {"train/imagined_return": -loss.detach()}
        if not is_frozen(self.policy):
            metrics["train/policy_gradient_norm"] = self._descend(self.policy_optimizer, loss)
        if learns_value:
            metrics |= self._learn_value(self.model.features(states)[:-1].detach(), returns.detach(), weight.detach())
        return metrics

    def imagine(self, latent: Latent, *, horizon: int) -> Latent:
        """The latent states [H + 1, S, L] of the policy's own dream, from [S, L] on; differentiable."""
        dream = [latent]
        for _ in range(horizon):
            action = self.policy(self.model.features(dream[-1]))
            if self.config.imagination_noise:
                action = (action + self.config.imagination_noise * torch.randn_like(action)).clamp(-1, 1)
            dream.append(self.model.imagine_step(dream[-1], action))
        return {name: torch.stack([each[name] for each in dream]) for name in latent}

    def _returns(self, states: Latent, is_open: Tensor) -> tuple[Tensor, Tensor]:
        """Returns [H, S] of imagined states [H + 1, S, L], the last one's value included, and how much each counts
        [H, S]; without a value those of the first states alone, [1, S]."""
        after = {name: part[1:] for name, part in states.items()}
        reward, continues = self.model.predict_reward(after), self.model.predict_continue(after)
        if self.value is None:
            return discounted_sum(reward, continues * self.config.gamma).unsqueeze(0), is_open.unsqueeze(0)
        value = self.slow_value.predict(self.slow_value(self.model.features(states)))
        continues = torch.cat([is_open.unsqueeze(0), continues])
        return imagined_returns(reward, continues, value, gamma=self.config.gamma, lambda_=self.config.lambda_)

    def _learn_value(self, features: Tensor, returns: Tensor, weight: Tensor) -> Metrics:
        """One gradient step of the value of features [H, S, F], and one of its target towards it."""
        outputs = self.value(features)
        loss = value_loss(self.value, outputs, returns, None, weight)
        norm = self._descend(self.value_optimizer, loss)
        self.slow.update()
        return {
            "train/value_loss": loss.detach(),
            "train/value": self.value.predict(outputs.detach()).mean(),
            "train/value_gradient_norm": norm,
        }

    def _descend(self, optimizer: Any, loss: Tensor) -> float:
        """One step, at what is left of the learning rate; the gradient's norm."""
        self.anneal_learning_rates()
        return optimizer.descend(loss)


def model_losses(model: Any, rows: dict[str, Any]) -> tuple[Losses, Metrics]:
    """Reconstruction, next state, reward and end, over windows [T, B].

    The latent state of the first row is followed by the actions alone. Where an episode begins it is what the encoder
    sees, and nothing is asked of the step that led there.
    """
    is_first = rows["is_first"]
    seen = model.features(observe(model, rows))
    target = model.scaled(rows["observation"], leading=2)
    followed = follow(model, seen, rows["action"], is_first)
    is_step = (~is_first[1:]).float()
    latent = {"state": followed[1:]}
    reward_error = model.predict_reward(latent) - rows["reward"][1:]
    losses = {
        "reconstruction": functional.mse_loss(model.decoder(seen), target),
        "next_state": masked_mean((followed - seen.detach())[1:].square().mean(-1), is_step),
        "next_observation": masked_mean((model.decoder(followed) - target)[1:].square().mean(-1), is_step),
        "reward": masked_mean(reward_error.square(), is_step),
        "continue": masked_mean(model.continue_loss(latent, rows["terminated"][1:]), is_step),
    }
    return losses, {"train/reward_error": masked_mean(reward_error.detach().abs(), is_step)}


def follow(model: Any, seen: Tensor, action: Tensor, is_first: Tensor) -> Tensor:
    """Latent states [T, B, L] from the first one on by imagination, begun anew from `seen` where an episode begins."""
    state, states = seen[0], [seen[0]]
    for t in range(1, len(seen)):
        imagined = model.imagine_step({"state": state}, action[t - 1])["state"]
        state = torch.where(is_first[t].unsqueeze(-1), seen[t], imagined)
        states.append(state)
    return torch.stack(states)


def discounted_sum(reward: Tensor, weight: Tensor) -> Tensor:
    """[S]: rewards [H, S], each times the weights [H, S] of all steps before it."""
    before = torch.cat([torch.ones_like(weight[:1]), weight[:-1]]).cumprod(0)
    return (before * reward).sum(0)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of values where the mask is 1; 0 where it nowhere is."""
    return (values * mask).sum() / mask.sum().clamp(min=1)

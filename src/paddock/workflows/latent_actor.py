"""The latent actor: a small deterministic world model, and a policy that learns by gradients through what it imagines.

Shapes, time first: T rows, B windows from replay, H imagined steps, S = T * B starts of imagination, A numbers in an
action's vector, L of the latent state.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from paddock.components.dynamics.rssm import Latent
from paddock.components.learning import is_frozen
from paddock.config.schema import Schema, TargetSchema
from paddock.rollout.model_actors import ModelActor
from paddock.rollout.result import CollectResult
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext
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
    """Options of the latent actor."""

    gamma: float = Field(gt=0, le=1)
    horizon: int = Field(ge=1)
    scales: ScalesConfig
    exploration: ExplorationConfig


class LatentActor(Workflow):
    """Needs components `world_model`, `policy` and optimizers of the same names. Replay gives windows of rows."""

    config: LatentActorConfig

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        self.model, self.policy = context.components["world_model"], context.components["policy"]
        self.scales = self.config.scales.model_dump(by_alias=True)
        self.model_optimizer, self.policy_optimizer = context.optimizers["world_model"], context.optimizers["policy"]

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
            metrics["train/model_gradient_norm"] = self.model_optimizer.descend(loss)
        return metrics

    def update_controller(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One gradient step of the policy on the return that it imagines from everywhere in the batch."""
        if is_frozen(self.policy):
            return {}
        rows = prepare_batch(batch, self.context.spec.action)
        with torch.no_grad():
            seen = observe(self.model, rows)
        start = {name: part.flatten(0, 1) for name, part in seen.items()}
        returns = self.imagine(start, horizon=self.config.horizon)
        # A terminated row is the end: nothing can be done there.
        is_open = (~rows["terminated"]).flatten().float()
        loss = -(returns * is_open).sum() / is_open.sum().clamp(min=1)
        norm = self.policy_optimizer.descend(loss)
        self.context.counters.imagined_steps += self.config.horizon * len(is_open)
        return {"train/imagined_return": -loss.detach(), "train/policy_gradient_norm": norm}

    def imagine(self, latent: Latent, *, horizon: int) -> Tensor:
        """[S]: the discounted rewards of the policy's own dream from latent states [S, L]; differentiable."""
        dream = []
        for _ in range(horizon):
            latent = self.model.imagine_step(latent, self.policy(self.model.features(latent)))
            dream.append(latent)
        states = {name: torch.stack([each[name] for each in dream]) for name in latent}
        reward, continues = self.model.predict_reward(states), self.model.predict_continue(states)
        return discounted_sum(reward, continues * self.config.gamma)


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

"""A policy over a world model's latents: it remembers what was seen, and what it did last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation, pick

LAST_ACTION = "last_action"


class WorldModelActorConfig(TargetSchema):
    """Which components the actor is made of, by name. `noise` is added to every action that is not deterministic:
    the deviation of numbers, or the chance of a random choice."""

    world_model: str
    policy: str
    noise: float = Field(default=0.0, ge=0)


class WorldModelActor(ActorModule):
    """Bring the latent up to date with what is seen, ask the policy for a distribution, sample it or take its mode.

    The state is the latent and the last action as the world model reads it.
    """

    def __init__(self, config: WorldModelActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.world_model, config.policy), spec)
        self._noise = config.noise
        self._names = config.world_model, config.policy

    def initial_state(self, n: int) -> ActorState:
        model: Any = self.parts[self._names[0]]
        return {**model.initial(n), LAST_ACTION: torch.zeros(n, model.action_size, device=self.device)}

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        model, policy = (cast(Any, self.parts[name]) for name in self._names)
        n = next(iter(observation.values())).shape[0]
        latent = dict(state or self.initial_state(n) or {})
        last_action = latent.pop(LAST_ACTION)
        is_first = torch.zeros(n, dtype=torch.bool, device=last_action.device)
        latent = model.observe(latent, last_action, observation, is_first)
        distribution = policy(model.features(latent))
        action = distribution.mode() if deterministic else self._explored(distribution.sample())
        return action, {**latent, LAST_ACTION: model.encode_action(action)}

    def _explored(self, action: Tensor) -> Tensor:
        if not self._noise:
            return action
        choices = self.spec.action.choices
        if choices is None:
            return (action + self._noise * torch.randn_like(action)).clamp(-1, 1)
        is_random = torch.rand(action.shape, device=action.device) < self._noise
        return torch.where(is_random, torch.randint_like(action, choices), action)

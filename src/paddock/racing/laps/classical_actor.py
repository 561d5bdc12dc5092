"""The classical driver among the controllers of an experiment: it drives a share of the cars while data are collected,
so that they also show the road at speed; another controller drives the others.

Shapes: N environments, A numbers of an action.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from pydantic import Field
from torch import Tensor, nn

from paddock.config.schema import Part, TargetSchema, instantiate
from paddock.core.errors import InputError
from paddock.core.specs import Spec
from paddock.environments.calls import name_of
from paddock.racing.env.actions import build_actions
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import ClassicalAtTheWheel
from paddock.rollout.actor import ActorModule, ActorState, Observation


class ClassicalActorConfig(TargetSchema):
    """share: of the environments, those that the classical driver has, the first ones; it is rounded to whole ones.
    otherwise: the controller of the others. noise: how much of that controller's action is mixed into the driver's, or
    the chance of it where actions are choices; none where the likeliest action is asked for."""

    otherwise: Part
    share: float = Field(default=0.25, ge=0, le=1)
    noise: float = Field(default=0.0, ge=0, le=1)


class ClassicalActor(ActorModule):
    """Reads the simulator's state in place of observations, so it acts only where the racing environment is."""

    config: ClassicalActorConfig

    def __init__(self, config: ClassicalActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, {}, spec)
        self._otherwise: ActorModule = instantiate(config.otherwise, components, spec)
        self._environment: RacingVectorEnv | None = None
        self._driver: ClassicalAtTheWheel | None = None

    def watch(self, environment: VectorEnv) -> None:
        self._otherwise.watch(environment)
        racing = environment.unwrapped
        if racing is self._environment:
            return
        if not isinstance(racing, RacingVectorEnv):
            raise InputError(
                "the classical driver drives in the racing environment only, and this one is "
                f"'{name_of(environment)}'. Choose another controller for the phase."
            )
        self._environment, self._driver = racing, ClassicalAtTheWheel(racing)

    def initial_state(self, n: int) -> ActorState:
        return self._otherwise.initial_state(n)

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        action, state = self._otherwise.act(observation, state, deterministic=deterministic)
        cars = round(self.config.share * len(action))
        action = action.clone()
        action[:cars] = self._driven(action[:cars], 0.0 if deterministic else self.config.noise)
        return action, state

    def _driven(self, other: Tensor, noise: float) -> Tensor:
        """Actions [K, A] of the first K cars by the classical driver, with some of what was drawn instead."""
        own = torch.from_numpy(self._own_actions()[: len(other)]).to(other)
        if self.spec.action.is_discrete:
            return torch.where(torch.rand(len(other)) < noise, other, own) if noise else own
        return (1 - noise) * own + noise * other

    def _own_actions(self) -> np.ndarray:
        """What the classical driver does in each environment [N, A], in a policy's range."""
        environment, driver = self._environment, self._driver
        if environment is None or driver is None:
            raise InputError("the classical driver has no racing environment to look at; it acts only inside of one.")
        command = driver.act(None, environment.world)[environment._rows]
        action = build_actions(environment.config).encode(command)
        return action if self._reach is None else (action - self._center) / self._reach

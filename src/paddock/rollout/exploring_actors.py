"""Actors for collecting data before anything is learned: random actions that last long enough to have consequences.

Shapes: N environments, A numbers of an action's vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from paddock.components.actions import from_vector, to_vector, vector_size
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation

ACTION, LEFT = "action", "steps_left"


class ExploringConfig(TargetSchema):
    """Around which action numbers are drawn, and how far off it (in the policy's own range, -1 to 1); null is 0 and 1.
    Choices are drawn uniformly."""

    center: list[float] | None = None
    spread: list[float] | None = None


class ExploringActor(ActorModule):
    """Keeps an action for each environment; subclasses say how it changes."""

    config: ExploringConfig

    def __init__(self, config: ExploringConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, {}, spec)
        self._around, self._spread = (
            _numbers(name, given, default, spec)
            for name, given, default in (("center", config.center, 0.0), ("spread", config.spread, 1.0))
        )

    def initial_state(self, n: int) -> ActorState:
        # No action yet: a state that is asked for must not cost random numbers, else a resumed run draws others.
        return {ACTION: torch.full((n, vector_size(self.spec.action)), torch.nan)}

    def _drawn(self, n: int) -> Tensor:
        """Fresh action vectors [N, A]."""
        action = self.spec.action
        if action.choices is not None:
            return to_vector(torch.randint(action.choices, (n,)), action)
        uniform = 2.0 * torch.rand(n, vector_size(action)) - 1.0
        return (self._around + self._spread * uniform).clamp(-1, 1)


class HeldActorConfig(ExploringConfig):
    """An action is held for `steps` decisions: a number of them drawn from this range."""

    steps: tuple[int, int] = (1, 10)

    @model_validator(mode="after")
    def _check(self) -> HeldActorConfig:
        if not 1 <= self.steps[0] <= self.steps[1]:
            raise ValueError(f"steps = {list(self.steps)}; it is a range such as [1, 10]")
        return self


class HeldActor(ExploringActor):
    """Uniformly random actions, each held for a while."""

    config: HeldActorConfig

    def __init__(self, config: HeldActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, components, spec)

    def initial_state(self, n: int) -> ActorState:
        return {**(super().initial_state(n) or {}), LEFT: torch.zeros(n, dtype=torch.int64)}

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        n = next(iter(observation.values())).shape[0]
        before = state or self.initial_state(n)
        assert before is not None
        low, high = self.config.steps
        is_over = before[LEFT] == 0
        action = torch.where(is_over.unsqueeze(-1), self._drawn(n), before[ACTION])
        left = torch.where(is_over, torch.randint(low, high + 1, (n,)), before[LEFT]) - 1
        return from_vector(action, self.spec.action), {ACTION: action, LEFT: left}


class BrownianActorConfig(ExploringConfig):
    """rate: variance that a step adds to each number; a choice changes with this chance."""

    rate: float = Field(default=0.02, gt=0, le=1)


class BrownianActor(ExploringActor):
    """Numbers that wander: each step adds a little noise; choices that now and then change."""

    config: BrownianActorConfig

    def __init__(self, config: BrownianActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, components, spec)

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        n = next(iter(observation.values())).shape[0]
        before = state or self.initial_state(n)
        assert before is not None
        action = before[ACTION]
        action = torch.where(action.isnan(), self._drawn(n), action)
        if self.spec.action.is_discrete:
            changes = torch.rand(n, 1) < self.config.rate
            action = torch.where(changes, self._drawn(n), action)
        else:
            step = self._spread * math.sqrt(self.config.rate) * torch.randn_like(action)
            action = torch.clamp(action + step, -1, 1)
        return from_vector(action, self.spec.action), {ACTION: action}


def _numbers(name: str, given: list[float] | None, default: float, spec: Spec) -> Tensor:
    size = vector_size(spec.action)
    if given is None:
        return torch.full((size,), default)
    if spec.action.is_discrete:
        raise InputError(f"{name} = {given}; it is for continuous actions, and these are choices. Leave it out.")
    if len(given) != size:
        raise InputError(f"{name} has {len(given)} numbers, and an action has {size}; give one for each.")
    return torch.tensor(given)

"""Acting by values: the best choice, and now and then a random one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation, pick

HELD = "held"
NOTHING = -1


class GreedyActorConfig(TargetSchema):
    """Which components the actor is made of, by name; and for how many steps, on average, a random choice is held
    (temporally extended exploration, arXiv:2006.01782)."""

    action_values: str
    normalizer: str
    duration: float = Field(default=1.0, ge=1)


class GreedyActor(ActorModule):
    """Takes the choice of highest expected return; unless deterministic, random ones in a share `epsilon` of steps."""

    config: GreedyActorConfig
    epsilon: Tensor

    def __init__(self, config: GreedyActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.action_values, config.normalizer), spec)
        self._values, self._normalizer = config.action_values, config.normalizer
        self.register_buffer("epsilon", torch.zeros(()))

    def initial_state(self, n: int) -> ActorState:
        return {HELD: torch.full((n,), NOTHING)} if self.config.duration > 1 else None

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        values = self.parts[self._values].expected(self.parts[self._normalizer](observation))  # type: ignore[operator]
        best = values.argmax(-1)
        if deterministic:
            return best, state
        if self.config.duration > 1:
            held = (state or self.initial_state(len(best)) or {})[HELD]
            held = self._held(held.to(best.device), values.shape[-1])
            return torch.where(held == NOTHING, best, held), {HELD: held}
        is_random = torch.rand(best.shape, device=best.device) < self.epsilon
        return torch.where(is_random, torch.randint_like(best, values.shape[-1]), best), state

    def _held(self, held: Tensor, choices: int) -> Tensor:
        """The choices [N] that are held in the next step, after those of the step before; NOTHING where none is."""
        duration = self.config.duration
        # So seldom they begin that steps with one held are a share epsilon of all.
        begins = self.epsilon / (duration - self.epsilon * (duration - 1))
        luck = torch.rand(held.shape, device=held.device)
        is_kept = (held != NOTHING) & (torch.rand(held.shape, device=held.device) >= 1 / duration)
        begun = torch.where(luck < begins, torch.randint_like(held, choices), NOTHING)
        return torch.where(is_kept, held, begun)

"""Acting by values: the best choice, and now and then a random one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation, pick


class GreedyActorConfig(TargetSchema):
    """Which components the actor is made of, by name."""

    action_values: str
    normalizer: str


class GreedyActor(ActorModule):
    """Takes the choice of highest expected return; unless deterministic, a random one with chance `epsilon`."""

    epsilon: Tensor

    def __init__(self, config: GreedyActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.action_values, config.normalizer), spec)
        self._values, self._normalizer = config.action_values, config.normalizer
        self.register_buffer("epsilon", torch.zeros(()))

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        values = self.parts[self._values].expected(self.parts[self._normalizer](observation))  # type: ignore[operator]
        best = values.argmax(-1)
        if deterministic:
            return best, state
        is_random = torch.rand(best.shape, device=best.device) < self.epsilon
        return torch.where(is_random, torch.randint_like(best, values.shape[-1]), best), state

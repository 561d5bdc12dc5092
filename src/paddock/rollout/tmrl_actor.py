"""An actor around an `ActorModule` of TMRL's shape: one observation at a time, as a tuple, to one action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation, pick


class TmrlActorConfig(TargetSchema):
    """Which component acts, by name."""

    actor: str = "actor"


class TmrlActor(ActorModule):
    """Asks the component for each copy's action; `deterministic` is TMRL's `test`."""

    def __init__(self, config: TmrlActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.actor), spec)
        self._name = config.actor

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        part: Any = self.parts[self._name]
        count = next(iter(observation.values())).shape[0]
        actions = np.stack([part.act(part.single(observation, row), test=deterministic) for row in range(count)])
        return torch.from_numpy(self._own_range(actions)).to(self.device), state

    def _own_range(self, actions: np.ndarray) -> np.ndarray:
        """From the environment's units to [-1, 1], where its actions have bounds."""
        if self._reach is None or self._center is None:
            return actions
        return ((actions - self._center) / np.where(self._reach == 0, 1, self._reach)).astype(np.float32)

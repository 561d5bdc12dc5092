"""The controllers of an experiment by name: the learned policy, planners over a model, the random one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from paddock.core.errors import unknown_choice
from paddock.rollout.actor import ActorModule


class ControllerManager:
    """Holds the controllers and says which one acts. A phase may name another one for its own duration."""

    def __init__(self, controllers: Mapping[str, ActorModule], default: str) -> None:
        self._controllers = dict(controllers)
        self._default = self._active = default
        self[default]

    def __getitem__(self, name: str) -> ActorModule:
        if name not in self._controllers:
            raise unknown_choice("controller", name, self._controllers)
        return self._controllers[name]

    @property
    def active(self) -> ActorModule:
        return self[self._active]

    def name_of(self, actor: ActorModule) -> str:
        """Under which name the experiment knows a controller."""
        return next(name for name, one in self._controllers.items() if one is actor)

    def select(self, name: str | None) -> None:
        """Let the named controller act; None returns to the experiment's own."""
        self[name or self._default]
        self._active = name or self._default

    def get_state(self) -> dict[str, Any]:
        """Who acts, and what the controllers hold beyond the components: how much is tried out, say."""
        return {"active": self._active, "own": {name: _own(actor) for name, actor in self._controllers.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what `get_state` gave."""
        self.select(state["active"])
        for name, values in state["own"].items():
            own = _own(self[name])
            for key, value in values.items():
                own[key].copy_(value)


def _own(actor: ActorModule) -> dict[str, Tensor]:
    """An actor's numbers that are not of its parts, which are the experiment's components."""
    return {name: value for name, value in actor.named_buffers() if not name.startswith("parts.")}

"""The controllers of an experiment by name: the learned policy, planners over a model, the random one."""

from __future__ import annotations

from collections.abc import Mapping

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

    def select(self, name: str | None) -> None:
        """Let the named controller act; None returns to the experiment's own."""
        self[name or self._default]
        self._active = name or self._default

    def names(self) -> list[str]:
        return sorted(self._controllers)

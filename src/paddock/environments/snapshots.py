"""The whole state of a single environment, taken and put back, wrappers included: what makes a resumed run exact.

A layer (wrapper or simulator) with `get_state()/set_state()` answers for itself and everything inside it; a wrapper
with `get_layer_state()/set_layer_state()` for itself alone. A simulator's `np_random` is saved with it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

# What makes up the state of simulators that have no get_state of their own, beyond random numbers.
STATE_ATTRIBUTES = {
    "CartPoleEnv": ("state", "steps_beyond_terminated"),
    "PendulumEnv": ("state", "last_u"),
    "AcrobotEnv": ("state",),
    "MountainCarEnv": ("state",),
    "Continuous_MountainCarEnv": ("state",),
    "CartPoleVectorEnv": ("state", "steps", "prev_done", "low", "high"),
}


def can_snapshot(env: Any) -> bool:
    """Whether `get_state` can give everything that decides how this environment goes on."""
    return any(_is_whole(layer) for layer in _layers(env))


def get_state(env: Any) -> list[Any]:
    """The state of each layer from the outside in, as plain values and arrays."""
    states = []
    for layer in _layers(env):
        states.append(_state_of(layer))
        if _is_whole(layer):
            break
    return states


def set_state(env: Any, states: list[Any]) -> None:
    """Put back what `get_state` gave for an environment made alike."""
    # A reset first: it satisfies the wrappers that insist on one. Its random draw is undone by the state.
    env.reset(seed=0)
    for layer, state in zip(_layers(env), states, strict=False):
        _restore(layer, state)


def _layers(env: Any) -> list[Any]:
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _is_whole(layer: Any) -> bool:
    return hasattr(layer, "get_state") or type(layer).__name__ in STATE_ATTRIBUTES


def _state_of(layer: Any) -> Any:
    if isinstance(layer, TimeLimit):
        return layer._elapsed_steps
    if isinstance(layer, gymnasium.Wrapper) and not _is_whole(layer):
        return layer.get_layer_state() if hasattr(layer, "get_layer_state") else None
    if isinstance(layer, gymnasium.Wrapper):
        return layer.get_state()  # type: ignore[attr-defined]
    if hasattr(layer, "get_state"):
        own = layer.get_state()
    else:
        own = {name: _plain(getattr(layer, name)) for name in STATE_ATTRIBUTES[type(layer).__name__]}
    return {"own": own, "random": layer.np_random.bit_generator.state}


def _restore(layer: Any, state: Any) -> None:
    if isinstance(layer, TimeLimit):
        layer._elapsed_steps = state
    elif isinstance(layer, gymnasium.Wrapper) and not _is_whole(layer):
        if hasattr(layer, "set_layer_state"):
            layer.set_layer_state(state)
    elif isinstance(layer, gymnasium.Wrapper):
        layer.set_state(state)  # type: ignore[attr-defined]
    else:
        if hasattr(layer, "set_state"):
            layer.set_state(state["own"])
        else:
            for name, value in state["own"].items():
                setattr(layer, name, value.copy() if isinstance(value, np.ndarray) else value)
        layer.np_random.bit_generator.state = state["random"]


def _plain(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray | list | tuple) else value


class ExactVectorEnv(gymnasium.vector.VectorWrapper):
    """A vector environment written as one, whose whole state can be taken and put back."""

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)

    def get_state(self) -> dict[str, Any]:
        return _state_of(self.env.unwrapped)

    def set_state(self, state: dict[str, Any]) -> None:
        self.env.reset(seed=0)
        _restore(self.env.unwrapped, state)

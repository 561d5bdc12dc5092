"""Gymnasium spaces as plain specs."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv

from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.environments.calls import PLAIN


def spec_of(env: VectorEnv) -> Spec:
    """The Spec of one of the vector environment's copies."""
    return spec_of_spaces(env.single_observation_space, env.single_action_space)


def spec_of_spaces(observation: Space, action: Space) -> Spec:
    """The Spec of an environment with these spaces."""
    if isinstance(observation, spaces.Dict):
        parts = {name: _observation_spec(space, name) for name, space in sorted(observation.spaces.items())}
        return Spec(observation=parts, action=_action_spec(action), is_dict=True)
    return Spec(observation={PLAIN: _observation_spec(observation, PLAIN)}, action=_action_spec(action))


def _observation_spec(space: Space, name: str) -> ArraySpec:
    if not isinstance(space, spaces.Box):
        raise InputError(
            f"observation '{name}' is {space}; agents here read Box arrays or a Dict of them. "
            "Set environment.flatten_observation=true to turn it into one vector."
        )
    return _box_spec(space)


def _action_spec(space: Space) -> ArraySpec:
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise InputError(f"the action space {space} starts at {space.start}; it has to start at 0.")
        return ArraySpec(shape=(), dtype="int64", choices=int(space.n))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return _box_spec(space)
    raise InputError(f"the action space {space} is not supported; it has to be Discrete or a Box of floats.")


def _box_spec(space: spaces.Box) -> ArraySpec:
    return ArraySpec(shape=tuple(space.shape), dtype=str(space.dtype), low=_bound(space.low), high=_bound(space.high))


def _bound(values: np.ndarray) -> float | list[Any] | None:
    if not np.isfinite(values).all():
        return None
    first = values.flat[0].item() if values.size else 0.0
    return first if (values == first).all() else values.tolist()

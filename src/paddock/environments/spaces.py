"""Gymnasium spaces as plain specs, and observations as dicts of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv

from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

PLAIN = "observation"
FRAMES = "env_frames"
"""Where `info` says how many simulator ticks a step took, if the environment repeats actions."""


def spec_of(env: VectorEnv) -> Spec:
    """The Spec of one of the vector environment's copies."""
    return spec_of_spaces(env.single_observation_space, env.single_action_space)


def spec_of_spaces(observation: Space, action: Space) -> Spec:
    """The Spec of an environment with these spaces."""
    if isinstance(observation, spaces.Dict):
        parts = {name: _observation_spec(space, name) for name, space in sorted(observation.spaces.items())}
        return Spec(observation=parts, action=_action_spec(action), is_dict=True)
    return Spec(observation={PLAIN: _observation_spec(observation, PLAIN)}, action=_action_spec(action))


def as_dict(observation: Any) -> dict[str, np.ndarray]:
    """A vector environment's observation by name; a plain one is named `observation`."""
    return observation if isinstance(observation, dict) else {PLAIN: observation}


def final_observations(info: dict[str, Any], rows: np.ndarray) -> dict[str, np.ndarray]:
    """The last observations of the episodes that ended in this step (same-step autoreset), for the given rows."""
    final = info["final_obs"]
    if isinstance(final, dict):
        return {name: values[rows] for name, values in final.items()}
    if final.dtype != object:
        return {PLAIN: final[rows]}
    # Gymnasium's own vector environments give one object per row that ended.
    parts = [as_dict(final[row]) for row in rows]
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


def frames_of(info: dict[str, Any], decisions: int) -> int:
    """Simulator ticks of one vector step: as many as decisions, unless the environment counts them (`env_frames`)."""
    ended = info.get("final_info", {})
    counts = [source[FRAMES].sum() for source in (info, ended) if FRAMES in source]
    return int(sum(counts)) if counts else decisions


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

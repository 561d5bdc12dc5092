"""Rows of a vector environment: some of a larger one in a process of their own, which begin and go on as the same rows
do there; and the state of rows that each have a stream of random numbers.

Shapes: N environments in all, of which this process has n, from row `first` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from paddock.environments import calls


def take_rows(env: VectorEnv, first: int) -> bool:
    """Let the copies of `env` be the rows from `first` on. False where its random numbers are not of single rows, so
    that what they do depends on how many of them there are.

    A vector environment whose copies share one seed offers `take_rows(first)` itself.
    """
    base: Any = env.unwrapped
    if hasattr(base, "take_rows"):
        base.take_rows(first)
        return True
    return isinstance(base, SyncVectorEnv | AsyncVectorEnv)


def reset_rows(env: VectorEnv, *, seed: int, first: int) -> tuple[Any, dict[str, Any]]:
    """Begin episodes in the rows from `first` on, as a reset of all rows with this seed does."""
    is_told = hasattr(env.unwrapped, "take_rows")  # Then it adds the row's number itself.
    return calls.reset(env, seed=seed if is_told else seed + first)


def state_of(env: object, names: Sequence[str], streams: Sequence[np.random.Generator]) -> dict[str, Any]:
    """Copies of an environment's arrays of these names, and where its streams of random numbers stand."""
    values = {name: getattr(env, name).copy() for name in names}
    return {**values, "streams": [stream.bit_generator.state for stream in streams]}


def go_on_from(
    env: object, names: Sequence[str], streams: Sequence[np.random.Generator], state: dict[str, Any]
) -> None:
    """Put back what `state_of` gave."""
    for name in names:
        setattr(env, name, np.array(state[name]))
    for stream, saved in zip(streams, state["streams"], strict=True):
        stream.bit_generator.state = saved

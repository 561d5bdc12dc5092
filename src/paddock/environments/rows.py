"""Some rows of a larger vector environment, in a process of their own: they begin and go on as the same rows do there.

Shapes: N environments in all, of which this process has n, from row `first` on.
"""

from __future__ import annotations

from typing import Any

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

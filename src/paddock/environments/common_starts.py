"""New episodes that begin alike in several copies, so that policies are compared on the same starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed
from paddock.environments import calls


def reset_alike(env: VectorEnv, *, seed: int, starts: int) -> tuple[Any, dict[str, Any]]:
    """Begin episodes in all copies; copy i begins as copy i + `starts` does.

    A vector environment that cannot be seeded copy by copy offers `reset_alike(seed=, starts=)` itself.
    """
    base: Any = env.unwrapped
    if hasattr(base, "reset_alike"):
        return calls.call(env, "reset_alike", base.reset_alike, seed=seed, starts=starts)
    if isinstance(base, SyncVectorEnv | AsyncVectorEnv):
        seeds = [derive_seed(seed, "start", int(start)) for start in np.arange(env.num_envs) % starts]
        return calls.reset(env, seed=seeds)
    raise InputError(
        f"environment '{calls.name_of(env)}' cannot begin episodes alike in several copies; set "
        "environment.vectorization to sync or async."
    )

"""Single environments side by side as one vector environment, exact where their simulator is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from paddock.environments.snapshots import can_snapshot, get_state, set_state

Maker = Callable[[], gymnasium.Env]


def vectorize(maker: Maker, num_envs: int, *, in_processes: bool) -> VectorEnv:
    """`num_envs` copies in this process, or each in one of its own; ended episodes begin anew within the same step."""
    probe = maker()
    is_exact = can_snapshot(probe)
    probe.close()
    if in_processes:
        kind = ExactAsyncVectorEnv if is_exact else AsyncVectorEnv
        return kind([lambda: Exact(maker())] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    plain = ExactSyncVectorEnv if is_exact else SyncVectorEnv
    return plain([maker] * num_envs, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)


class ExactSyncVectorEnv(SyncVectorEnv):
    """Copies in one process whose whole state can be taken and put back."""

    def get_state(self) -> dict[str, Any]:
        return {"copies": [get_state(env) for env in self.envs]}

    def set_state(self, state: dict[str, Any]) -> None:
        for env, copy in zip(self.envs, state["copies"], strict=True):
            set_state(env, copy)


class ExactAsyncVectorEnv(AsyncVectorEnv):
    """Copies in processes of their own, whose state travels through Gymnasium's channel for attributes."""

    def get_state(self) -> dict[str, Any]:
        return {"copies": list(self.get_attr("snapshot"))}

    def set_state(self, state: dict[str, Any]) -> None:
        self.reset(seed=0)
        self.set_attr("snapshot", list(state["copies"]))


class Exact(gymnasium.Wrapper):
    """The state of everything inside as one attribute."""

    @property
    def snapshot(self) -> list[Any]:
        return get_state(self.env)

    @snapshot.setter
    def snapshot(self, state: list[Any]) -> None:
        set_state(self.env, state)

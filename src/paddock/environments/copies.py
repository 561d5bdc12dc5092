"""Single environments side by side as one vector environment, exact where their simulator is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.async_vector_env import AsyncState

from paddock.environments.calls import WorkerError
from paddock.environments.snapshots import can_snapshot, get_state, set_state

Maker = Callable[[], gymnasium.Env]


def vectorize(maker: Maker, num_envs: int, *, in_processes: bool) -> VectorEnv:
    """`num_envs` copies in this process, or each in one of its own; ended episodes begin anew within the same step."""
    probe = maker()
    is_exact = can_snapshot(probe)
    probe.close()
    if in_processes:
        kind = ExactAsyncVectorEnv if is_exact else ProcessVectorEnv
        return kind([deaf_to_interrupts(maker)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    plain = ExactSyncVectorEnv if is_exact else SyncVectorEnv
    return plain([maker] * num_envs, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)


class ExactSyncVectorEnv(SyncVectorEnv):
    """Copies in one process whose whole state can be taken and put back."""

    def get_state(self) -> dict[str, Any]:
        return {"copies": [get_state(env) for env in self.envs]}

    def set_state(self, state: dict[str, Any]) -> None:
        for env, copy in zip(self.envs, state["copies"], strict=True):
            set_state(env, copy)


def deaf_to_interrupts(maker: Maker) -> Maker:
    """Makes the copy of a process of its own, which leaves Ctrl-C to the process that it works for."""
    owner = os.getpid()

    def make() -> gymnasium.Env:
        if os.getpid() != owner:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return Exact(maker())

    return make


class ProcessVectorEnv(AsyncVectorEnv):
    """Copies in processes of their own. Where one hangs or has died, closing waits for none of them."""

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        """What a copy raised is raised here, with its traceback as a note in place of many lines on the terminal."""
        failed = [self.error_queue.get() for is_success in successes if not is_success]
        if not failed:
            return
        for index, *_ in failed:
            self.parent_pipes[index].close()
            self.parent_pipes[index] = None  # type: ignore[call-overload]
        self._state = AsyncState.DEFAULT
        index, kind, value, trace = min(failed, key=lambda one: one[0])
        error = WorkerError(f"{kind.__name__}: {value}")
        error.add_note(f"In the process of copy {index}:\n{trace}")
        raise error

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        is_well = self._state == AsyncState.DEFAULT and all(process.is_alive() for process in self.processes)
        if is_well and not terminate and all(pipe is not None for pipe in self.parent_pipes):
            super().close_extras(timeout, terminate)
            return
        for process in self.processes:
            process.kill()
            process.join()
        for pipe in self.parent_pipes:
            if pipe is not None:
                pipe.close()


class ExactAsyncVectorEnv(ProcessVectorEnv):
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

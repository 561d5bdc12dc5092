"""One thread in which everything of an interface runs, so that a slow or a dead sensor never blocks the agent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from paddock.environments.realtime.clock import Clock, nanoseconds

Job = Callable[[], Any]


class InterfaceThread:
    """Does one job at a time. What a job raises is raised where its end is waited for."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._job: Job | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_closing = self._has_ended = False
        clock.enter()
        # A daemon: an interface that never comes back must not keep the process.
        self._thread = threading.Thread(target=self._serve, name=f"realtime {name}", daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        return self._job is None

    def start(self, job: Job) -> None:
        """Begin a job; the one before has ended."""
        with self._clock.condition:
            assert self._job is None, "the interface's thread is busy"
            if self._has_ended or self._is_closing:
                raise RuntimeError("the environment is closed")
            self._job, self._result, self._error = job, None, None
            self._clock.condition.notify_all()

    def join(self, until: int | None = None) -> bool:
        """Wait for the job's end, at most until the clock says `until` (ns); whether it has ended."""
        if not self._clock.wait_for(lambda: self._job is None, until):
            return False
        error, self._error = self._error, None
        if error is not None:
            raise error
        return True

    def take(self) -> Any:
        """What the job that ended gave."""
        result, self._result = self._result, None
        return result

    def sleep_until(self, when: int) -> bool:
        """In a job: wait for a time, ns. False if the thread is to end instead."""
        return not self._clock.wait_for(lambda: self._is_closing, when)

    def close(self, patience: float) -> bool:
        """End the thread, after the call into the interface that it is in; False if that takes longer, s."""
        with self._clock.condition:
            self._is_closing = True
            self._clock.condition.notify_all()
        if not self._clock.wait_for(lambda: self._has_ended, self._clock.now() + nanoseconds(patience)):
            return False
        self._thread.join()
        return True

    def _serve(self) -> None:
        try:
            while self._clock.wait_for(lambda: self._is_closing or self._job is not None) and self._job is not None:
                self._work(self._job)
        finally:
            with self._clock.condition:
                self._has_ended = True
                self._clock.condition.notify_all()
                self._clock.leave()

    def _work(self, job: Job) -> None:
        result, error = None, None
        try:
            result = job()
        except BaseException as raised:  # Whatever it is, the agent's thread has to see it.
            error = raised
        with self._clock.condition:
            self._job, self._result, self._error = None, result, error
            self._clock.condition.notify_all()

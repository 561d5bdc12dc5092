"""Time for real-time environments: the machine's own, and a virtual one that only goes on while everything waits.

Times are whole nanoseconds, so that sums and comparisons are exact.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

SECOND = 1_000_000_000  # ns

Predicate = Callable[[], bool]


def nanoseconds(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * SECOND)


class Clock(Protocol):
    """Tells the time, and wakes those who wait. What predicates read is changed under `condition`, then notified."""

    condition: threading.Condition

    def now(self) -> int:
        """ns since an arbitrary start."""

    def sleep(self, seconds: float) -> None:
        """Come back after so many seconds."""

    def wait_for(self, predicate: Predicate, until: int | None = None) -> bool:
        """Wait until `predicate` holds, or the time is `until` (ns); whether it holds."""

    def enter(self) -> None:
        """A further thread lives by this clock, until it leaves."""

    def leave(self) -> None:
        """A thread that entered lives by this clock no more. Called under `condition`."""


class WallClock:
    """The machine's monotonic clock."""

    def __init__(self) -> None:
        self.condition = threading.Condition()

    def now(self) -> int:
        return time.perf_counter_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait_for(self, predicate: Predicate, until: int | None = None) -> bool:
        with self.condition:
            while not predicate():
                left = None if until is None else (until - self.now()) / SECOND
                if left is not None and left <= 0:
                    return False
                self.condition.wait(left)
            return True

    def enter(self) -> None:
        """The machine's time passes whatever threads do."""

    def leave(self) -> None:
        """The machine's time passes whatever threads do."""


class VirtualClock:
    """Time that stands still while any thread works, and jumps to the next wake-up once all of them wait.

    The thread that made the clock lives by it; others enter and leave. Work takes no time but what is slept.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._now = 0
        self._threads = 1
        self._waiting: dict[int, tuple[Predicate, int | None]] = {}

    def now(self) -> int:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.wait_for(lambda: False, self._now + nanoseconds(seconds))

    def wait_for(self, predicate: Predicate, until: int | None = None) -> bool:
        key = threading.get_ident()
        with self.condition:
            while not predicate():
                if until is not None and self._now >= until:
                    return False
                self._waiting[key] = (predicate, until)
                try:
                    if not self._advance():
                        self.condition.wait()
                finally:
                    del self._waiting[key]
            return True

    def enter(self) -> None:
        with self.condition:
            self._threads += 1

    def leave(self) -> None:
        self._threads -= 1
        if self._waiting:
            self._advance()

    def _advance(self) -> bool:
        """Jump to the next wake-up if nothing can happen before it; whether time went on."""
        if len(self._waiting) < self._threads:
            return False
        if any(
            predicate() or (until is not None and self._now >= until) for predicate, until in self._waiting.values()
        ):
            return False  # That one has been notified, and is about to work.
        wake_ups = [until for _, until in self._waiting.values() if until is not None]
        if not wake_ups:
            raise RuntimeError("virtual time cannot go on: every thread waits for another one")
        self._now = min(wake_ups)
        self.condition.notify_all()
        return True

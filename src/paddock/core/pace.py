"""Steps and the wall clock: how fast they go by, and how a loop is held to a pace."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

PACE_WINDOW = 5.0  # s over which steps per second are counted
LATE = 0.25  # s behind its schedule from which on a loop does not catch up
SLICE = 0.05  # s of sleep at a time, so that an interruption is soon noticed
EARLY = 0.02  # share of a period by which something may be due early, so that jitter does not skip it
Clock = Callable[[], float]


class Pace:
    """Agent steps per second of wall clock, whatever the time went to, over the last few seconds."""

    def __init__(self, window: float = PACE_WINDOW) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, steps: int) -> float:
        """The pace now that so many steps are done."""
        now = time.monotonic()
        self._seen.append((now, steps))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window:
            self._seen.popleft()
        began, before = self._seen[0]
        return (steps - before) / (now - began) if now > began else 0.0


class Pacer:
    """Holds a loop to a wall-clock period for each step. Small delays are made up for, those of `LATE` s are not."""

    def __init__(self, clock: Clock = time.perf_counter, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self.restart()

    def restart(self) -> None:
        """Schedule the next step from now on, as after a pause."""
        self._due = self._clock()

    def wait(self, period: float, is_interrupted: Callable[[], bool] = lambda: False) -> None:
        """Sleep until the step that was just taken has lasted `period` s, or until interrupted."""
        due, now = self._due + period, self._clock()
        self._due = due if now - due < LATE else now
        while (left := self._due - self._clock()) > 0.0 and not is_interrupted():
            self._sleep(min(left, SLICE))


class RateLimit:
    """Says when the next of at most so many events a second is due, on a schedule of its own: a call that comes a
    little late does not lower the rate."""

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._due = clock()

    @property
    def wait(self) -> float:
        """Seconds until the next one is due; not positive once it is."""
        return self._due - self._clock()

    def took(self, rate: float) -> None:
        """One has just happened, and at most `rate` a second are wanted."""
        period = 1.0 / rate
        self._due = max(self._due + (1.0 - EARLY) * period, self._clock() + 0.5 * period)

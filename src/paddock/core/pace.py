"""How fast steps go by on the wall clock."""

from __future__ import annotations

import time
from collections import deque

PACE_WINDOW = 5.0  # s over which steps per second are counted


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

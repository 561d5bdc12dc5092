"""Where a run's time goes, by kind of work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds spent on each of some kinds of work."""

    def __init__(self, *kinds: str) -> None:
        self._spent = dict.fromkeys(kinds, 0.0)
        self.current: str | None = None  # the kind that is being timed

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        started, around = time.perf_counter(), self.current
        self.current = kind
        try:
            yield
        finally:
            self.current = around
            self._spent[kind] += time.perf_counter() - started

    def shares(self, total: float) -> dict[str, float]:
        """Part of `total` s by kind of work; `loop` is what is left, the orchestrator's own."""
        shares = {name: spent / total for name, spent in self._spent.items()}
        return {**shares, "loop": 1 - sum(shares.values())}

"""Averaging metrics between log lines, and remembering the latest of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Metrics:
    """Sums stay on the device; numbers leave it once per `flush`."""

    def __init__(self) -> None:
        self.latest: dict[str, float] = {}
        self._sums: dict[str, Any] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: Mapping[str, Any]) -> None:
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._counts[name] = self._counts.get(name, 0) + 1

    def flush(self) -> dict[str, float]:
        """The mean of each metric since the last flush."""
        means = {name: float(total) / self._counts[name] for name, total in self._sums.items()}
        self._sums.clear()
        self._counts.clear()
        self.latest.update(means)
        return means

    def get_state(self) -> dict[str, Any]:
        return {
            "latest": dict(self.latest),
            "sums": {name: float(total) for name, total in self._sums.items()},
            "counts": dict(self._counts),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.latest.clear()
        self.latest.update(state["latest"])
        self._sums, self._counts = dict(state["sums"]), dict(state["counts"])

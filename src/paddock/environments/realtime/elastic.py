"""The grid of elastic time-steps: a late step is paid back by the next one, until it is too late for that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ElasticGrid:
    """When the current time-step begins, captures and ends, ns.

    duration: of a time-step, ns. capture_after: when the capture begins in it, ns. tolerance: lateness from which the
    grid begins anew, ns.
    """

    duration: int
    capture_after: int
    tolerance: int
    start: int = 0
    capture: int = 0
    end: int | None = None

    def begin(self, now: int) -> tuple[int, bool]:
        """A time-step begins whose control has been sent: how late that is, ns, and whether the grid begins anew."""
        previous = now if self.end is None else self.end
        late_by = max(0, now - previous)
        is_anew = now >= previous + self.tolerance and self.end is not None
        self.start = now if is_anew else previous
        self.capture = self.start + self.capture_after
        self.end = self.start + self.duration
        return late_by, is_anew

"""Timing as data: one record for each time-step, and what an episode's records come to."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

STALL = "stall"
DURATIONS = ("late_by", "inference", "capture", "send", "observation_age")


@dataclass
class StepTiming:
    """The time-step whose observation a step gives, s.

    late_by: how long after the end of the time-step before the control had been sent. timed_out: that was too late, and
    the grid began anew. inference: from the step before to this one's action. send, capture: durations of
    `send_control` and `get_obs_rew_terminated_info`. observation_age: since the capture began, as the agent gets the
    observation. reason: why the episode was cut short ("stall"), else empty.
    """

    late_by: float = 0.0
    timed_out: bool = False
    inference: float = 0.0
    capture: float = 0.0
    send: float = 0.0
    observation_age: float = 0.0
    reason: str = ""

    def as_info(self) -> dict[str, NDArray]:
        """Arrays [1], as a vector environment's `info` has them."""
        values = asdict(self)
        reason = np.array([values.pop("reason")], object)
        return {**{name: np.array([value]) for name, value in values.items()}, "reason": reason}


class EpisodeTiming:
    """Sums an episode up. The time-step that a reset begins is no decision of the agent's, and is left out."""

    def __init__(self) -> None:
        self.steps = 0
        self._counts: Counter[str] = Counter(timed_out=0, stalls=0)
        self._values: dict[str, list[float]] = {name: [] for name in DURATIONS}

    def add(self, timing: StepTiming) -> None:
        self.steps += 1
        if timing.reason == STALL:
            self._counts["stalls"] += 1
        elif self.steps > 1:
            self._counts["timed_out"] += timing.timed_out
            for name, values in self._values.items():
                values.append(getattr(timing, name))

    def as_final_info(self) -> dict[str, NDArray]:
        """Counts, and mean and worst of every duration, s; arrays [1]. Not a number where there was no decision."""
        found: dict[str, float] = {name: float(count) for name, count in self._counts.items()}
        for name, values in self._values.items():
            found[name] = float(np.mean(values)) if values else np.nan
            found[f"{name}_max"] = max(values, default=np.nan)
        return {name: np.array([value]) for name, value in found.items()}

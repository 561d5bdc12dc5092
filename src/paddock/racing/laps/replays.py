"""Laps as a replay plays them: columns at even steps of time, small enough for a page and for the folder of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.racing.laps.records import RecordedLap, check_lap_time

Floats = NDArray[np.float64]
FINEST_STEP = 0.05  # s
MOST_POINTS = 24_000  # of all laps of a page together: about 0.5 MB


@dataclass(frozen=True)
class Drive:
    """What a car drove. samples: as of a `RecordedLap`, `time` s since its beginning. lap_time: None where no lap was
    completed; duration: s until the line, or until it stopped."""

    driver: str
    kind: str
    lap_time: float | None
    duration: float
    samples: Mapping[str, Floats]
    sectors: tuple[float, ...] = ()

    @classmethod
    def of_lap(cls, lap: RecordedLap, kind: str, driver: str | None = None) -> Drive:
        """A completed lap."""
        return cls(driver or lap.driver, kind, lap.lap_time, lap.lap_time, lap.samples, lap.sectors)


def replay_step(drives: Sequence[Drive]) -> float:
    """s between two points, so that all drives together have at most `MOST_POINTS`."""
    return max(FINEST_STEP, sum(drive.duration for drive in drives) / MOST_POINTS)


def as_replay(drive: Drive, step: float) -> dict[str, Any]:
    """The drive for the page's `Replay`: `x`, `y` m and `heading` rad every `dt` s since its beginning."""
    check_lap_time(drive.duration)
    time = np.asarray(drive.samples["time"], np.float64)
    at = np.arange(0.0, drive.duration, step)
    x, y = (np.interp(at, time, np.asarray(drive.samples[name], np.float64)) for name in ("x", "y"))
    if "heading" in drive.samples:
        heading = np.interp(at, time, np.unwrap(np.asarray(drive.samples["heading"], np.float64)))
    else:
        heading = np.unwrap(np.arctan2(np.gradient(y), np.gradient(x))) if len(at) > 1 else np.zeros(len(at))
    # A road of a tenth of the size needs a digit more.
    digits = 2 if max(np.ptp(x), np.ptp(y)) > 100.0 else 3
    return {
        "driver": drive.driver,
        "kind": drive.kind,
        "lap_time": drive.lap_time,
        "duration": round(drive.duration, 4),
        "sectors": [round(sector, 4) for sector in drive.sectors],
        "dt": step,
        "x": np.round(x, digits).tolist(),
        "y": np.round(y, digits).tolist(),
        "heading": np.round(heading, 3).tolist(),
    }

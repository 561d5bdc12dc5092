"""A lap as something to keep: where a car was and how fast, by whoever drove it; and the file that holds one.

A lap file is JSON: `{"format": "paddock-lap", "version": 1, "driver", "track", "car", "lap_time", "sectors",
"samples": {"time": [...], "x": [...], ...}}`, SI units, times since the line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.core.files import write_synced
from paddock.core.paths import paddock_home
from paddock.core.reading import DamagedError, read_json

if TYPE_CHECKING:
    from paddock.sim.world import World

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]
FORMAT, VERSION = "paddock-lap", 1
COLUMNS = ("time", "s", "x", "y", "heading", "speed", "steer", "gear", "rpm")
REQUIRED = ("time", "s", "x", "y", "speed")
LARGEST_FILE = 64 * 2**20  # bytes; an hour at 100 samples a second takes half of it
LONGEST_LAP = 7200.0  # s
MOST_SAMPLES = 400_000


@dataclass(frozen=True)
class RecordedLap:
    """One counted lap. samples: arrays [P] by name: `time` s since the line, `s` m along the lap, `x`, `y` m,
    `heading` rad, `speed` m/s, `steer` rad, `gear`, `rpm`; at least those of `REQUIRED`. sectors: s."""

    driver: str
    track: str
    car: str
    lap_time: float
    sectors: tuple[float, ...]
    samples: Mapping[str, Floats]

    def along(self, name: str, places: Floats, length: float) -> Floats:
        """A sampled quantity at places (m along a lap of `length` m); `time` runs from 0 to the lap time."""
        s, values = self.samples["s"], self.samples[name]
        order = np.argsort(s, kind="stable")
        s, values = s[order], values[order]
        if name == "time":
            return np.interp(places, np.concatenate([[0.0], s, [length]]), [0.0, *values, self.lap_time])
        return np.interp(places, s, values)  # Held at the ends: a lap need not end as fast as it began.

    def at(self, name: str, time: float) -> float:
        """A sampled quantity at a moment of the lap, held at its ends."""
        return float(np.interp(time, self.samples["time"], self.samples[name]))


class Recorder:
    """Watches cars drive (see `drive_laps`) and gives the laps that they completed."""

    def __init__(self, rows: slice) -> None:
        self._rows = rows
        self._seen: list[NDArray[np.float64]] = []
        self._finish: dict[int, tuple[float, float, tuple[float, ...]]] = {}
        self._driven: NDArray[np.intp] | None = None  # [N] steps until each car stopped

    def __call__(self, world: World, driving: NDArray[np.bool_]) -> None:
        rows = self._rows
        speed = np.hypot(world.vx[rows], world.vy[rows])
        columns = (world.time, world.s, world.x, world.y, world.heading, None, world.steer, world.gear, world.rpm)
        self._seen.append(np.stack([speed if column is None else column[rows] for column in columns]))
        self._driven = driving.astype(np.intp) if self._driven is None else self._driven + driving
        for car in np.flatnonzero(driving & world.lap_completed[rows]):
            sectors = tuple(float(time) for time in world.last_sector_times[rows][car])
            lap_time = float(world.last_lap_time[rows][car])
            self._finish[int(car)] = (float(world.lap_start[rows][car]) - lap_time, lap_time, sectors)

    def lap(self, car: int, *, driver: str, track: str, car_name: str) -> RecordedLap:
        """The completed lap of one of the watched cars."""
        began, lap_time, sectors = self._finish[car]
        seen = np.stack([step[:, car] for step in self._seen], axis=1)
        during = (seen[0] > began) & (seen[0] <= began + lap_time)
        return RecordedLap(driver, track, car_name, lap_time, sectors, _named(seen[:, during], began))

    def way(self, car: int, *, longest: float) -> dict[str, Floats]:
        """All that one of the watched cars drove, whether or not it completed a lap, up to `longest` s."""
        assert self._driven is not None, "nothing was watched"
        seen = np.stack([step[:, car] for step in self._seen[: int(self._driven[car])]], axis=1)
        samples = _named(seen, float(seen[0, 0]))
        kept = samples["time"] <= longest
        return {name: column[kept] for name, column in samples.items()}


def _named(seen: Floats, began: float) -> dict[str, Floats]:
    samples = dict(zip(COLUMNS, seen, strict=True))
    return samples | {"time": samples["time"] - began, "heading": np.unwrap(samples["heading"])}


GHOST_STEP = 0.05  # s


def as_ghost(kind: str, driver: str, lap_time: float, samples: Mapping[str, Any]) -> dict[str, Any]:
    """A lap as a page draws it, at even steps of time: `x`, `y` m, `heading` rad, every `dt` s since the line."""
    check_lap_time(lap_time)
    time = np.asarray(samples["time"], np.float64)
    at = np.arange(0.0, lap_time, GHOST_STEP)
    x, y = (np.interp(at, time, np.asarray(samples[name], np.float64)) for name in ("x", "y"))
    if "heading" in samples:
        heading = np.interp(at, time, np.asarray(samples["heading"], np.float64))
    else:
        heading = np.arctan2(np.gradient(y), np.gradient(x))
    columns = {name: np.round(values, 3).tolist() for name, values in (("x", x), ("y", y), ("heading", heading))}
    return {"type": "ghost", "kind": kind, "driver": driver, "dt": GHOST_STEP, **columns, "lap_time": lap_time}


def check_lap_time(lap_time: float) -> None:
    """A lap time decides how many points a ghost has, so it has a limit."""
    if not 0.0 < lap_time <= LONGEST_LAP:
        raise InputError(f"lap_time is {lap_time:g}; it must be more than 0 and at most {LONGEST_LAP:,.0f} s")


def write_lap(file: Path, lap: RecordedLap) -> None:
    """Write a lap file; the folder is made if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "format": FORMAT,
        "version": VERSION,
        "driver": lap.driver,
        "track": lap.track,
        "car": lap.car,
        "lap_time": lap.lap_time,
        "sectors": list(lap.sectors),
        "samples": {name: np.round(column, 4).tolist() for name, column in lap.samples.items()},
    }
    write_synced(file, json.dumps(values).encode())


def read_lap(file: Path) -> RecordedLap:
    """Read a lap file; anything that does not fit is told with the file's name."""
    try:
        values = read_json(file, limit=LARGEST_FILE)
    except DamagedError as error:
        raise InputError(f"the lap in '{file}' cannot be read: {error.reason}.") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f'\'{file}\' is not a lap: it has no "format": "{FORMAT}".')
    if values.get("version") != VERSION:
        raise InputError(f"the lap in '{file}' is of version {values.get('version')}; this Paddock reads {VERSION}.")
    try:
        return _checked(values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"the lap in '{file}' is incomplete or damaged: {error}") from error


def classical_laps_folder() -> Path:
    """Where laps of the classical driver are kept, one for each road and car."""
    return paddock_home() / "classical_laps"


def read_laps(folder: Path, *, track: str, car: str) -> list[RecordedLap]:
    """All laps of a folder that were driven with this car on this track, quickest first; none if it is not there.

    A file that is no lap is passed over, with a warning.
    """
    laps = []
    for file in sorted(folder.glob("*.json")):
        try:
            laps.append(read_lap(file))
        except InputError as error:
            log.warning("%s The file is passed over.", error)
    return sorted((lap for lap in laps if lap.track == track and lap.car == car), key=lambda lap: lap.lap_time)


def _checked(values: dict[str, Any]) -> RecordedLap:
    if any(len(column) > MOST_SAMPLES for column in values["samples"].values()):
        raise ValueError(f"more than {MOST_SAMPLES:,} samples")
    samples = {str(name): np.asarray(column, dtype=np.float64) for name, column in values["samples"].items()}
    if missing := [name for name in REQUIRED if name not in samples]:
        raise ValueError(f"no samples of {', '.join(missing)}")
    count = len(samples["time"])
    if count < 2 or any(column.shape != (count,) or not np.isfinite(column).all() for column in samples.values()):
        raise ValueError("samples are not lists of at least two finite numbers, all of one length")
    if (np.diff(samples["time"]) <= 0).any():
        raise ValueError("the times of the samples do not increase")
    lap_time = float(values["lap_time"])
    check_lap_time(lap_time)
    sectors = tuple(float(time) for time in values.get("sectors", []))
    return RecordedLap(str(values["driver"]), str(values["track"]), str(values["car"]), lap_time, sectors, samples)

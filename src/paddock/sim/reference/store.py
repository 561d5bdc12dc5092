"""Reference lines kept on disk between runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paddock.core.array_cache import ArrayCache
from paddock.sim.cars.car import CarParameters
from paddock.sim.tracks.track import Array, Track

SOURCES = ("../cars/car.py", "lap.py", "line.py", "polish.py", "speed_profile.py")
_cache = ArrayCache("reference", [Path(__file__).parent / name for name in SOURCES])


def kept_line(track: Track, car: CarParameters) -> tuple[Array, float] | None:
    """The line's offsets [M] m and the centreline's time in s, if they were kept and are whole."""
    values = _cache.recall(_key(track, car), (len(track) + 1,))
    return None if values is None else (values[:-1], float(values[-1]))


def keep_line(track: Track, car: CarParameters, offset: Array, centreline_time: float) -> None:
    """Keep a line, unless the disk refuses."""
    _cache.keep(_key(track, car), np.append(offset, centreline_time))


def _key(track: Track, car: CarParameters) -> str:
    return track.fingerprint + repr(car)

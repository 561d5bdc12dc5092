"""Reference lines kept on disk between runs. Losing the folder costs a second a track, nothing else."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from paddock.core.paths import paddock_home
from paddock.sim.cars.car import CarParameters
from paddock.sim.tracks.track import Array, Track

MOST_KEPT = 2_000  # lines, some 50 MB; beyond them the oldest go
# What a line depends on besides track and car: a change in any of these makes the kept ones stale.
SOURCES = ("../cars/car.py", "lap.py", "line.py", "polish.py", "speed_profile.py")


@lru_cache(maxsize=1)
def _code_version() -> bytes:
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.digest()


def _path(track: Track, car: CarParameters) -> Path:
    key = hashlib.sha256(_code_version() + track.fingerprint.encode() + repr(car).encode()).hexdigest()[:24]
    return paddock_home() / "cache" / "reference" / f"{key}.npy"


def kept_line(track: Track, car: CarParameters) -> tuple[Array, float] | None:
    """The line's offsets [M] m and the centreline's time in s, if they were kept and are whole."""
    try:
        values = np.load(_path(track, car), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if values.shape != (len(track) + 1,) or values.dtype != np.float64 or not np.isfinite(values).all():
        return None
    return values[:-1], float(values[-1])


def keep_line(track: Track, car: CarParameters, offset: Array, centreline_time: float) -> None:
    """Keep a line, unless the disk refuses."""
    path = _path(track, car)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            np.save(file, np.append(offset, centreline_time), allow_pickle=False)
        os.replace(temporary, path)
        _forget_oldest(path.parent)
    except OSError:
        return


def _forget_oldest(folder: Path) -> None:
    """There is no end of generated tracks, but one of disks."""
    with os.scandir(folder) as entries:
        files = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
    for _, path in files[:-MOST_KEPT]:
        os.unlink(path)

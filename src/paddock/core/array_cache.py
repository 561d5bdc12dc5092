"""Arrays that are costly to compute, kept on disk between runs. Losing the folder costs time, nothing else."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paddock.core.paths import paddock_home

MOST_KEPT = 2_000  # files of a kind; beyond them the oldest go


class ArrayCache:
    """Arrays float64 of one kind, in a folder of Paddock's home.

    What an array depends on is its key, and the text of the source files that compute it: a change in any of these
    makes the kept ones stale.
    """

    def __init__(self, kind: str, sources: Iterable[Path]) -> None:
        self._kind, self._sources = kind, tuple(sources)
        self._version: bytes | None = None

    def recall(self, key: str, shape: tuple[int | None, ...]) -> NDArray[np.float64] | None:
        """The array, if it was kept, is whole and has this shape; None stands for any length."""
        try:
            values = np.load(self._path(key), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        fits = values.ndim == len(shape) and all(
            expected in (None, size) for size, expected in zip(values.shape, shape, strict=True)
        )
        return values if fits and values.dtype == np.float64 and np.isfinite(values).all() else None

    def keep(self, key: str, values: NDArray[np.float64]) -> None:
        """Keep an array, unless the disk refuses."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
            with os.fdopen(handle, "wb") as file:
                np.save(file, values, allow_pickle=False)
            os.replace(temporary, path)
            _forget_oldest(path.parent)
        except OSError:
            return

    def _path(self, key: str) -> Path:
        if self._version is None:
            self._version = hashlib.sha256(b"".join(source.read_bytes() for source in self._sources)).digest()
        name = hashlib.sha256(self._version + key.encode()).hexdigest()[:24]
        return paddock_home() / "cache" / self._kind / f"{name}.npy"


def _forget_oldest(folder: Path) -> None:
    """There is no end of generated tracks, but one of disks."""
    with os.scandir(folder) as entries:
        files = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
    for _, path in files[:-MOST_KEPT]:
        os.unlink(path)

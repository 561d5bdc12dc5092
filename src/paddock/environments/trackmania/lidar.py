"""Distances to the road's black borders, read from a picture along 19 beams: numbers in pixels, not metres."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

BEAMS = 19
FIRST_PIXEL = 20  # of a beam, from its origin
DARK = 55  # all three channels of a border are below it
DARK_ON_NARROW_ROADS = 88


class PixelLidar:
    """Beams from a point near the picture's lower edge, from right over straight ahead to left, 10 degrees apart.

    A beam's value is the number of its first dark sample, counted from 0, or the number of its last sample if none is
    dark. `samples` int [19] counts the samples of each beam.
    """

    def __init__(self, height: int, width: int, threshold: int = DARK) -> None:
        self.shape, self.threshold = (height, width), threshold
        beams = _beams(height, width)
        self.samples = np.array([len(beam) for beam in beams])
        self._pixels = np.full((BEAMS, max(1, self.samples.max())), -1, np.int64)
        for beam, pixels in enumerate(beams):
            self._pixels[beam, : len(pixels)] = [row * width + column for row, column in pixels]
        self._is_sample = self._pixels >= 0

    def read(self, picture: NDArray[np.uint8]) -> NDArray[np.float32]:
        """float32 [19] of a picture uint8 [height, width, 3]."""
        assert picture.shape == (*self.shape, 3), f"a picture has shape {picture.shape}, expected {self.shape}"
        brightest = picture.reshape(-1, 3)[self._pixels].max(axis=2)
        is_dark = (brightest < self.threshold) & self._is_sample
        first = is_dark.argmax(axis=1)
        return np.where(is_dark.any(axis=1), first, self.samples - 1).astype(np.float32)


@lru_cache(maxsize=8)
def _beams(height: int, width: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """(row, column) of every sample, per beam."""
    row, column = 44 * height // 49, width // 2
    return tuple(_beam(row, column, math.radians(90 + 10 * beam), width) for beam in range(BEAMS))


def _beam(row: int, column: int, angle: float, width: int) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    distance = FIRST_PIXEL
    while True:
        y, x = int(row + distance * math.cos(angle)), int(column + distance * math.sin(angle))
        if y <= 0 or x <= 0 or x >= width - 1:
            return tuple(found)
        found.append((y, x))
        distance += 1

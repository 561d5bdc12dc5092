"""A picture as TMRL's agents see it: resized without antialiasing, blue first, grey by brightness or in colour."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paddock.environments.trackmania.screen import Picture

GREY = np.array([0.114, 0.587, 0.299], np.float32)  # blue, green, red


class Resizer:
    """Bilinear resizing by pixel centres, [h, w, 3] to [height, width, 3], whatever the aspect."""

    def __init__(self, height: int, width: int) -> None:
        self.size = (height, width)
        self._source: tuple[int, int] = (0, 0)

    def __call__(self, picture: Picture) -> Picture:
        if picture.shape[:2] == self.size:
            return picture
        if picture.shape[:2] != self._source:
            self._source = (picture.shape[0], picture.shape[1])
            self._rows = _neighbours(self._source[0], self.size[0])
            self._columns = _neighbours(self._source[1], self.size[1])
        (top, bottom, low), (left, right, aside) = self._rows, self._columns
        low, aside = low[:, None, None], aside[None, :, None]
        upper, lower = picture[top].astype(np.float32), picture[bottom].astype(np.float32)
        lines = upper + low * (lower - upper)
        mixed = lines[:, left] + aside * (lines[:, right] - lines[:, left])
        return np.rint(mixed).astype(np.uint8)


def _neighbours(size: int, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """For each wanted pixel the two source pixels around its centre, and the share of the second one."""
    place = np.clip((np.arange(wanted) + 0.5) * (size / wanted) - 0.5, 0, size - 1)
    first = np.floor(place).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), (place - first).astype(np.float32)


def seen(picture: Picture, resize: Resizer | None, grayscale: bool) -> Picture:
    """uint8 [height, width] of brightness, or [height, width, 3] with red first."""
    picture = picture if resize is None else resize(picture)
    if not grayscale:
        return np.ascontiguousarray(picture[:, :, ::-1])
    return np.rint(picture.astype(np.float32) @ GREY).astype(np.uint8)

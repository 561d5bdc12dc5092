"""Where a road has kerbs: inside each corner, and outside its exit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
BEND = 130.0  # m, the radius of a corner of a full-size road from which on it has a kerb
AROUND = 6.0  # m over which the curvature is averaged, to either side
AFTER = 18.0  # m from a corner to the kerb at its exit


def smooth_curvature(curvature: Floats, window: int) -> Floats:
    """[M] 1/m, averaged over `window` points to either side."""
    padded = np.pad(curvature, window, mode="wrap")
    return np.convolve(padded, np.ones(2 * window + 1) / (2 * window + 1), mode="valid")


def around(step: float, unit: float) -> int:
    """Points `step` m apart that curvature is averaged over. unit: 1 for a full-size road, 0.1 for a tenth of it."""
    return max(1, round(AROUND * unit / step))


def kerb_masks(smooth: Floats, step: float, unit: float) -> tuple[Mask, Mask]:
    """[M] whether there is a kerb on the left and on the right of points `step` m apart, from smoothed curvature."""
    turns_left, turns_right = smooth > 1 / (BEND * unit), smooth < -1 / (BEND * unit)
    after = max(1, round(AFTER * unit / step))
    left = turns_left | (np.roll(turns_right, after) & ~turns_right)
    right = turns_right | (np.roll(turns_left, after) & ~turns_left)
    return left, right

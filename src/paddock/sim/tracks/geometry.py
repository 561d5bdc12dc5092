"""Geometry of closed lines and polygons that tracks, their generators and racing lines share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def neighbour_curvature(in_x: Any, in_y: Any, out_x: Any, out_y: Any) -> Any:
    """1/m, left positive, of the circle through three points: the steps [m] into the middle one and out of it.

    A plain function of scalars or arrays, which numba compiles as well.
    """
    cross = in_x * out_y - in_y * out_x
    return 2.0 * cross / (np.hypot(in_x, in_y) * np.hypot(out_x, out_y) * np.hypot(in_x + out_x, in_y + out_y))


def loop_curvature(points: Array) -> Array:
    """[Q] 1/m, left positive, at each point [Q, 2] of a closed line, from the point and its two neighbours."""
    into, out = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    curvature: Array = neighbour_curvature(into[:, 0], into[:, 1], out[:, 0], out[:, 1])
    return curvature


def polygon_corners(vertices: Array) -> tuple[Array, Array, Array, Array]:
    """What rounding the corners of a polygon [V, 2] needs, at each vertex.

    (direction into it [V, 2], direction out of it [V, 2], length of the side before it [V] m, turn [V] rad, left
    positive).
    """
    into = vertices - np.roll(vertices, 1, axis=0)
    lengths = np.hypot(*into.T)
    into = into / lengths[:, None]
    out = np.roll(into, -1, axis=0)
    turn = np.arctan2(into[:, 0] * out[:, 1] - into[:, 1] * out[:, 0], np.sum(into * out, axis=1))
    return into, out, lengths, turn

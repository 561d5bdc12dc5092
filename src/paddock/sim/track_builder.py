"""From points and widths to a checked `Track`: a periodic spline, sampled uniformly in arc length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from paddock.core.errors import InputError
from paddock.sim.track import Array, Track, wrap_angle
from paddock.sim.track_checks import check_geometry, check_points

DEFAULT_SPACING = 1.0  # m between the points of a full-size track
SAMPLES_PER_SPACING = 4  # arc length is measured on a grid this much finer than the track's own


def name_point(index: int) -> str:
    """How an error names a source point when the source has no better name for it."""
    return f"point {index}"


def build_track(
    name: str,
    points: Array,
    left_width: Array | float,
    right_width: Array | float,
    *,
    spacing: float = DEFAULT_SPACING,
    bridge: bool = False,
    label: Callable[[int], str] = name_point,
) -> Track:
    """A closed track through `points`.

    points: [P, 2] m, in driving order, the first one on the start line; a repeated closing point is dropped.
    left_width, right_width: [P] or one number, m. `label(i)` is how errors name the i-th point.
    """
    points = np.asarray(points, dtype=np.float64)
    widths = np.stack(
        [
            np.broadcast_to(np.asarray(left_width, dtype=np.float64), len(points)),
            np.broadcast_to(np.asarray(right_width, dtype=np.float64), len(points)),
        ],
        axis=1,
    )
    check_points(name, points, widths, label)
    if np.hypot(*(points[-1] - points[0])) < 1e-3:
        points, widths = points[:-1], widths[:-1]
    if len(points) < 4:
        raise InputError(f"track '{name}' has {len(points)} points; a closed road needs at least 4.")

    track, source = _sample_uniformly(name, points, widths, spacing, bridge)
    check_geometry(track, lambda index: label(int(source[index])))
    return track


def _sample_uniformly(
    name: str, points: Array, widths: Array, spacing: float, bridge: bool
) -> tuple[Track, np.ndarray]:
    """The track, and for each of its points the index of the source point before it."""
    closed = np.vstack([points, points[:1]])
    knots = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    curve = CubicSpline(knots, closed, bc_type="periodic")

    fine_count = int(np.ceil(knots[-1] / spacing * SAMPLES_PER_SPACING)) + 1
    fine = np.linspace(0.0, knots[-1], fine_count)
    speed = np.hypot(*curve(fine, 1).T)
    # Simpson's rule over each fine interval: the middle speed is sampled too.
    middle = np.hypot(*curve(0.5 * (fine[1:] + fine[:-1]), 1).T)
    pieces = np.diff(fine) / 6.0 * (speed[:-1] + 4.0 * middle + speed[1:])
    distance = np.concatenate([[0.0], np.cumsum(pieces)])
    length = float(distance[-1])

    count = max(round(length / spacing), 8)
    parameter = CubicSpline(distance, fine)(np.arange(count) * (length / count))
    position, velocity, acceleration = curve(parameter), curve(parameter, 1), curve(parameter, 2)
    squared_speed = np.sum(velocity**2, axis=1)
    curvature = (velocity[:, 0] * acceleration[:, 1] - velocity[:, 1] * acceleration[:, 0]) / squared_speed**1.5
    closed_widths = np.vstack([widths, widths[:1]])
    track = Track(
        name=name,
        x=position[:, 0],
        y=position[:, 1],
        heading=wrap_angle(np.arctan2(velocity[:, 1], velocity[:, 0])),
        curvature=curvature,
        left_width=np.interp(parameter, knots, closed_widths[:, 0]),
        right_width=np.interp(parameter, knots, closed_widths[:, 1]),
        length=length,
        bridge=bridge,
    )
    source = np.clip(np.searchsorted(knots, parameter, side="right") - 1, 0, len(points) - 1).astype(np.intp)
    return track, source

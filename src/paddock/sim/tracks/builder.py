"""From points and widths to a checked `Track`: a periodic spline, sampled uniformly in arc length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from paddock.core.errors import InputError
from paddock.sim.tracks.checks import check_geometry, check_points, check_size
from paddock.sim.tracks.track import Array, Track, wrap_angle

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

    track, place = sample_uniformly(name, points, widths, spacing, bridge)
    check_geometry(track, lambda index: label(int(place[index])))
    return track


def sample_uniformly(name: str, points: Array, widths: Array, spacing: float, bridge: bool) -> tuple[Track, Array]:
    """The track, not yet checked, and where its points lie among the source points.

    points: [P, 2] m; widths: [P, 2] m as (left, right). The second result is [M]: 7.25 is a quarter of the way from
    source point 7 to the next one.
    """
    knots = _knots(points)
    check_size(name, float(knots[-1]), spacing)
    curve = _spline(points, knots)
    fine_count = int(np.ceil(knots[-1] / spacing * SAMPLES_PER_SPACING)) + 1
    fine = np.linspace(0.0, knots[-1], fine_count)
    speed = np.hypot(*curve(fine, 1).T)
    # Simpson's rule over each fine interval: the middle speed is sampled too.
    middle = np.hypot(*curve(0.5 * (fine[1:] + fine[:-1]), 1).T)
    pieces = np.diff(fine) / 6.0 * (speed[:-1] + 4.0 * middle + speed[1:])
    distance = np.concatenate([[0.0], np.cumsum(pieces)])
    length = float(distance[-1])

    check_size(name, length, spacing)
    count = max(round(length / spacing), 8)
    parameter = scipy.interpolate.CubicSpline(distance, fine)(np.arange(count) * (length / count))
    position, velocity = curve(parameter), curve(parameter, 1)
    closed_widths = np.vstack([widths, widths[:1]])
    track = Track(
        name=name,
        x=position[:, 0],
        y=position[:, 1],
        heading=wrap_angle(np.arctan2(velocity[:, 1], velocity[:, 0])),
        curvature=_curvature(curve, parameter),
        left_width=np.interp(parameter, knots, closed_widths[:, 0]),
        right_width=np.interp(parameter, knots, closed_widths[:, 1]),
        length=length,
        bridge=bridge,
    )
    before = np.clip(np.searchsorted(knots, parameter, side="right") - 1, 0, len(points) - 1)
    share = (parameter - knots[before]) / np.diff(knots)[before]
    return track, np.asarray(before + np.clip(share, 0.0, np.nextafter(1.0, 0.0)), dtype=np.float64)


def curvature_at_points(points: Array) -> Array:
    """[P] 1/m, left positive: how the road through `points` [P, 2] bends at each of them."""
    knots = _knots(points)
    return _curvature(_spline(points, knots), knots[:-1])


def _knots(points: Array) -> Array:
    """[P + 1] m from the first point to each, and around to the first again, along straight lines."""
    return np.concatenate([[0.0], np.cumsum(np.hypot(*(np.roll(points, -1, axis=0) - points).T))])


def _spline(points: Array, knots: Array) -> scipy.interpolate.CubicSpline:
    return scipy.interpolate.CubicSpline(knots, np.vstack([points, points[:1]]), bc_type="periodic")


def _curvature(curve: scipy.interpolate.CubicSpline, parameter: Array) -> Array:
    velocity, acceleration = curve(parameter, 1), curve(parameter, 2)
    squared_speed = np.sum(velocity**2, axis=1)
    return (velocity[:, 0] * acceleration[:, 1] - velocity[:, 1] * acceleration[:, 0]) / squared_speed**1.5

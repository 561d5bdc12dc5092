"""The reference lap of a track and a car: a smooth line through the road, driven at the limit of the car's grip.

It is a yardstick (lap time / reference), not a proof of optimality.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from paddock.sim.cars.car import CarParameters, load_car
from paddock.sim.kernels.compiling import REFERENCE_LAPS, announced
from paddock.sim.reference.line import racing_line
from paddock.sim.reference.polish import polished_line
from paddock.sim.reference.speed_profile import (
    SLIDING,
    GripEnvelope,
    grip_envelope,
    slip_angle,
    speed_profile,
    times_along,
)
from paddock.sim.reference.store import keep_line, kept_line
from paddock.sim.tracks.checks import check_fits
from paddock.sim.tracks.geometry import loop_curvature
from paddock.sim.tracks.track import Array, Track, wrap_angle

MARGIN = 0.07  # of the car's width, between the edge of the road and the nearest corner of a car at its limit
SHORTNESS = (0.0, 16.0, 128.0)  # shares of shortest path that are tried; the quickest line is kept
SECTORS = 3
SHARPEST = 1.5  # track points: a car is longer than that and does not feel what is shorter
CACHE_SIZE = 64
_cache: OrderedDict[tuple[str, CarParameters], ReferenceLap] = OrderedDict()


@dataclass(frozen=True, eq=False)
class ReferenceLap:
    """A line and a speed for each of the track's M points; the i-th lies beside the i-th centreline point.

    offset: [M] m from the centreline, left positive. x, y: [M] m. heading: [M] rad. curvature: [M] 1/m, of the line.
    steps: [M] m to the next point along the line. speed: [M] m/s. time_at: [M] s since the start line.
    lap_time: s. centreline_time: s, for the centreline followed at the limit (see `centre_follower`); not a number
    where not asked for.
    """

    track: Track
    offset: Array
    x: Array
    y: Array
    heading: Array
    curvature: Array
    steps: Array
    speed: Array
    time_at: Array
    lap_time: float
    centreline_time: float

    @property
    def length(self) -> float:
        """Metres along the line."""
        return float(self.steps.sum())

    @property
    def top_speed(self) -> float:
        """m/s, the fastest point of the lap."""
        return float(self.speed.max())

    @cached_property
    def sector_times(self) -> Array:
        """[3] s, of the three equal thirds of the track's length."""
        marks = np.arange(SECTORS + 1) * (len(self.time_at) / SECTORS)
        times = np.interp(marks, np.arange(len(self.time_at) + 1), np.append(self.time_at, self.lap_time))
        return np.diff(times)


@announced(REFERENCE_LAPS)
def reference_lap(track: Track, car: str | CarParameters) -> ReferenceLap:
    """The reference lap of a car on a track: computed once, then kept in memory and on disk."""
    name = car if isinstance(car, str) else "custom"
    car = load_car(car)
    key = (track.fingerprint, car)
    if key not in _cache:
        check_fits(track, name, car.width)
        _cache[key] = _recall(track, car) or _compute(track, car)
        if len(_cache) > CACHE_SIZE:
            _cache.popitem(last=False)
    lap = _cache[key]
    # Roads that differ in obstacles alone share a line, but each keeps its own obstacles.
    return lap if np.array_equal(lap.track.obstacles, track.obstacles) else replace(lap, track=track)


def _recall(track: Track, car: CarParameters) -> ReferenceLap | None:
    kept = kept_line(track, car)
    if kept is None:
        return None
    offset, centreline_time = kept
    return replace(lap_along(track, offset, grip_envelope(car)), centreline_time=centreline_time)


def line_margin(car: CarParameters) -> float:
    """m from the line to the edge of the road: half the car, turned by its slip at the limit, and a little room."""
    slip = 0.0 if car.kinematic else float(slip_angle(car, SLIDING, car.rear_stiffness))
    return 0.5 * (car.width + car.length * float(np.sin(slip))) + MARGIN * car.width


def _compute(track: Track, car: CarParameters) -> ReferenceLap:
    envelope, margin = grip_envelope(car), line_margin(car)
    best: ReferenceLap | None = None
    offset: Array | None = None
    for shortness in SHORTNESS:
        offset = racing_line(track, margin, shortness, start=offset)
        lap = lap_along(track, polished_line(track, offset, margin, envelope), envelope)
        if best is None or lap.lap_time < best.lap_time:
            best = lap
    assert best is not None
    centreline_time = lap_along(track, centre_follower(track, car), envelope).lap_time
    keep_line(track, car, best.offset, centreline_time)
    return replace(best, centreline_time=centreline_time)


def centre_follower(track: Track, car: CarParameters) -> Array:
    """[M] m: offsets of the smoothest line on which the centreline never leaves the ground beneath the car.

    Surveyed centrelines have kinks a few metres long that nobody steers through; a car that has the line beneath it
    follows it. Where the road is narrow it keeps as far from the edges as the reference does.
    """
    margin = line_margin(car)
    left, right = (np.clip(width - margin, 0.0, 0.5 * car.width) for width in (track.left_width, track.right_width))
    return racing_line(replace(track, left_width=left, right_width=right), 0.0)


def lap_along(track: Track, offset: Array, envelope: GripEnvelope) -> ReferenceLap:
    """The quickest lap along one line. offset: [M] m from the centreline, left positive."""
    points = track.offset_points(offset)
    out = np.roll(points, -1, axis=0) - points
    across = np.roll(out, 1, axis=0) + out
    steps = np.hypot(out[:, 0], out[:, 1])
    curvature = scipy.ndimage.gaussian_filter1d(loop_curvature(points), SHARPEST, mode="wrap")
    speed = speed_profile(envelope, curvature, steps)
    times = times_along(speed, steps)
    return ReferenceLap(
        track=track,
        offset=offset,
        x=points[:, 0],
        y=points[:, 1],
        heading=wrap_angle(np.arctan2(across[:, 1], across[:, 0])),
        curvature=curvature,
        steps=steps,
        speed=speed,
        time_at=times[:-1],
        lap_time=float(times[-1]),
        centreline_time=float("nan"),
    )

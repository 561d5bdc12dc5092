"""Shortens a lap by pushing its line sideways, bump by bump, wherever that saves time.

A line of least curvature is a good lap, not the quickest: it knows nothing of engines and brakes. This search does.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from paddock.sim.reference.line import around, beside_track
from paddock.sim.reference.speed_profile import GripEnvelope, cornering_speed, look_up
from paddock.sim.tracks.geometry import neighbour_curvature
from paddock.sim.tracks.track import Array, Track

GRID = 3  # track points to a grid point of the search
# Sweeps around the lap: half length of a bump and its height, in road widths.
SWEEPS = (
    (8.0, 0.06), (6.0, 0.05), (5.0, 0.04), (8.0, 0.03), (6.0, 0.025), (4.0, 0.02),
    (8.0, 0.015), (6.0, 0.012), (4.0, 0.01), (6.0, 0.01), (4.0, 0.005),
)  # fmt: skip
BENDS = 512  # entries of the table from curvature to speed


def polished_line(track: Track, offset: Array, margin: float, envelope: GripEnvelope) -> Array:
    """[M] m: lateral offsets of a line that is no slower than `offset` [M], as far from the edges as `margin` m."""
    count = len(track) // GRID
    s = np.arange(count, dtype=np.float64) * (track.length / count)

    def on_grid(values: Array) -> Array:
        return around(track.s, values, track.length)(s)

    centre, normal = on_grid(np.stack([track.x, track.y], axis=1)), on_grid(track.normal)
    normal /= np.hypot(normal[:, 0], normal[:, 1])[:, None]
    upper = np.interp(s, track.s, track.left_width) - margin
    lower = margin - np.interp(s, track.s, track.right_width)
    line = on_grid(offset)

    road = track.mean_width
    halves = [max(int(half * road * count / track.length), 2) for half, _ in SWEEPS]
    # Evenly spaced in the root of the curvature, which is near linear in speed.
    steepest = np.sqrt(2.0 / road)
    limits = cornering_speed(envelope, np.linspace(0.0, steepest, BENDS) ** 2)
    tables = (
        steepest, limits, envelope.speed[0], envelope.speed[1] - envelope.speed[0],
        envelope.lateral, envelope.accelerate, envelope.brake,
    )  # fmt: skip
    lap = np.zeros((11, count))
    lap[0:2] = (centre + normal * line[:, None]).T
    _start(lap, tables)
    for half, (_, height) in zip(halves, SWEEPS, strict=True):
        shape = 0.5 + 0.5 * np.cos(np.pi * np.arange(-half, half + 1) / half)
        _sweep(line, centre, normal, lower, upper, shape, height * road, lap, tables)
    return beside_track(track, centre + normal * line[:, None])


# Rows of the working memory of a search, [11, G]: the line and what follows from it, then the committed speeds
# after the backward pass, after both, and the seconds of each step; then the same three of a trial.
X, Y, BEND, LIMIT, STEP, BRAKED, SPEED, SECONDS, NEW_BRAKED, NEW_SPEED, NEW_SECONDS = range(11)


@numba.njit(cache=True)
def _start(lap: Array, tables: Any) -> None:
    count = lap.shape[1]
    _measure(lap, 0, count, tables)
    for i in range(count):
        lap[BRAKED, i] = lap[SPEED, i] = lap[NEW_BRAKED, i] = lap[LIMIT, i]
    for _ in range(2):  # twice around, so that the seam has settled
        _, first, number = _retime(lap, 0, count, tables)
        _commit(lap, first, number)


@numba.njit(cache=True)
def _sweep(
    line: Array, centre: Array, normal: Array, lower: Array, upper: Array, shape: Array, height: float, lap: Array,
    tables: Any,
) -> None:  # fmt: skip
    """Changes `line` in place: a bump of this shape is tried to both sides and kept where the lap gets shorter."""
    count, half = len(line), len(shape) // 2
    for middle in range(0, count, max(half // 2, 1)):
        begin, size = (middle - half - 1) % count, 2 * half + 3
        for side in (1.0, -1.0):
            push = height
            for k in range(1, 2 * half):
                i = (middle - half + k) % count
                room = upper[i] - line[i] if side > 0.0 else line[i] - lower[i]
                push = min(push, max(room, 0.0) / shape[k])
            if push < 0.1 * height:
                continue
            _push(line, lap, centre, normal, shape, middle - half, side * push)
            _measure(lap, begin, size, tables)
            saved, first, number = _retime(lap, begin, size, tables)
            if saved > 1e-9:
                _commit(lap, first, number)
                break
            _push(line, lap, centre, normal, shape, middle - half, -side * push)
            _measure(lap, begin, size, tables)


@numba.njit(cache=True)
def _retime(lap: Array, begin: int, size: int, tables: Any) -> tuple[float, int, int]:
    """(seconds saved, first point, number of points): the lap after `size` points from `begin` on have changed.

    Backward from the last of them until the braked speed is what it was, then forward likewise: the rest of the lap
    does not notice. The new values are in the trial's rows for the points named.
    """
    _, _, first_speed, speed_step, lateral, accelerate, brake = tables
    count = lap.shape[1]
    i = (begin + size - 1) % count
    j = (i + 1) % count
    value = lap[BRAKED, j]
    upstream = 0
    while upstream < count:
        slowing = look_up(brake, lateral, first_speed, speed_step, value, value**2 * lap[BEND, j])
        value = min(lap[LIMIT, i], math.sqrt(value**2 + 2.0 * max(slowing, 0.0) * lap[STEP, i]))
        lap[NEW_BRAKED, i] = value
        upstream += 1
        if upstream > size and value == lap[BRAKED, i]:
            break
        j = i
        i = i - 1 if i > 0 else count - 1
    first = j
    i = (first - 1) % count
    value = lap[SPEED, i]
    saved = 0.0
    downstream = 0
    while downstream < count:
        j = i + 1 if i < count - 1 else 0
        gaining = look_up(accelerate, lateral, first_speed, speed_step, value, value**2 * lap[BEND, i])
        reachable = math.sqrt(max(value**2 + 2.0 * gaining * lap[STEP, i], first_speed**2))
        if downstream >= upstream:
            lap[NEW_BRAKED, j] = lap[BRAKED, j]
        following = min(lap[NEW_BRAKED, j], reachable)
        lap[NEW_SPEED, j] = following
        lap[NEW_SECONDS, i] = 2.0 * lap[STEP, i] / (value + following)
        saved += lap[SECONDS, i] - lap[NEW_SECONDS, i]
        downstream += 1
        if downstream > upstream and following == lap[SPEED, j]:
            break
        value = following
        i = j
    return saved, first, downstream


@numba.njit(cache=True)
def _commit(lap: Array, first: int, number: int) -> None:
    count = lap.shape[1]
    for k in range(number):
        i = (first + k) % count
        lap[BRAKED, i] = lap[NEW_BRAKED, i]
        lap[SPEED, i] = lap[NEW_SPEED, i]
        lap[SECONDS, i - 1] = lap[NEW_SECONDS, i - 1]


@numba.njit(cache=True)
def _push(line: Array, lap: Array, centre: Array, normal: Array, shape: Array, first: int, height: float) -> None:
    for k in range(len(shape)):
        i = (first + k) % len(line)
        line[i] += height * shape[k]
        lap[X, i] = centre[i, 0] + normal[i, 0] * line[i]
        lap[Y, i] = centre[i, 1] + normal[i, 1] * line[i]


_curvature = numba.njit(neighbour_curvature)


@numba.njit(cache=True)
def _measure(lap: Array, first: int, number: int, tables: Any) -> None:
    """Curvature, cornering speed and step length of `number` points from `first` on."""
    steepest, limits = tables[0], tables[1]
    count = lap.shape[1]
    for k in range(number):
        i = (first + k) % count
        h, j = (i - 1) % count, (i + 1) % count
        in_x, in_y = lap[X, i] - lap[X, h], lap[Y, i] - lap[Y, h]
        out_x, out_y = lap[X, j] - lap[X, i], lap[Y, j] - lap[Y, i]
        lap[BEND, i] = abs(_curvature(in_x, in_y, out_x, out_y))
        lap[STEP, i] = math.hypot(out_x, out_y)
        place = min(math.sqrt(lap[BEND, i]) / steepest, 1.0) * (len(limits) - 1)
        cell = min(int(place), len(limits) - 2)
        lap[LIMIT, i] = limits[cell] + (place - cell) * (limits[cell + 1] - limits[cell])

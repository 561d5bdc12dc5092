"""What a car perceives: rays, the course ahead and telemetry, with noise, loss and delay on the way.

Readings are kept newest first, [N, depth, size]; what a driver sees is a window of them that begins at the latency.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import inline, part
from paddock.sim.kernels.math import arctangent, cosine, random_normal, random_uniform, sine
from paddock.sim.kernels.rays import cut_body, cut_circle, cut_ribbon
from paddock.sim.kernels.road import between, curvature_at, frame_at, locate, place_at
from paddock.sim.layout import (
    APPLIED_STEER,
    APPLIED_THROTTLE,
    COURSE_CURVATURE,
    DRAW_COURSE,
    DRAW_RAYS,
    DRAW_TELEMETRY,
    EPISODE,
    GEAR,
    GHOST,
    HEADING,
    INDEX,
    ITEM_0,
    LATERAL,
    LATERAL_ACCELERATION,
    LEFT_WIDTH,
    LONGITUDINAL_ACCELERATION,
    NUMBER_COURSE_DROPOUT,
    NUMBER_COURSE_HORIZON,
    NUMBER_COURSE_SPEED,
    NUMBER_RAY_DROPOUT,
    NUMBER_RAY_MOUNT,
    NUMBER_RAY_NOISE,
    NUMBER_RAY_RANGE,
    NUMBER_TELEMETRY_DROPOUT,
    OBSTACLES_GHOST,
    OPTION_COURSE,
    OPTION_COURSE_KIND,
    OPTION_GROUP,
    OPTION_OBSTACLES,
    OPTION_RAYS,
    OPTION_SEED,
    OPTION_TELEMETRY,
    RIGHT_WIDTH,
    ROAD_LEFT,
    ROAD_RIGHT,
    RPM,
    STEER,
    STEPS,
    TRACK,
    TRACK_FIRST_NODE,
    TRACK_FIRST_OBSTACLE,
    TRACK_FIRST_POINT,
    TRACK_LENGTH,
    TRACK_NODES,
    TRACK_OBSTACLES,
    TRACK_POINTS,
    TRACK_SPACING,
    VX,
    VY,
    YAW_RATE,
    S,
    X,
    Y,
)

LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]
F32 = np.float32


@inline
def along_lap(difference: float, length: float) -> float:
    """A difference of two distances brought into half a lap either way, m."""
    if difference > 0.5 * length:
        return difference - length
    if difference < -0.5 * length:
        return difference + length
    return difference


@inline
def trace_rays(
    n: int, group: int, reach: float, mount: float, obstacles_seen: bool,
    parameters: Any, doubles: Any, singles: Any, integers: Any, flags: Any,
    tracks: Any, road: Any, ribbon: Any, node_of_point: Any, obstacles: Any, rays: NDArray[np.float32], count: int,
) -> None:  # fmt: skip
    """Fill the distances [m] of `rays` (flat: direction x, direction y, distance) for car `n`."""
    for k in range(count):
        rays[2 * count + k] = reach
    track = tracks[integers[TRACK, n]]
    first, points = int(track[TRACK_FIRST_POINT]), int(track[TRACK_POINTS])
    heading = singles[HEADING, n]
    cos, sin = cosine(heading), sine(heading)
    x, y = doubles[X, n] + mount * cos, doubles[Y, n] + mount * sin
    index, lateral = np.int64(integers[INDEX, n]), np.float64(singles[LATERAL, n])
    left, right = np.float64(singles[LEFT_WIDTH, n]), np.float64(singles[RIGHT_WIDTH, n])
    if mount != 0.0:
        reach_points = 3 + int(abs(mount) / track[TRACK_SPACING])
        index, fraction, lateral = locate(road, first, points, index, x, y, reach_points)
        left = between(road, first, points, index, fraction, ROAD_LEFT)
        right = between(road, first, points, index, fraction, ROAD_RIGHT)
    inside = -right < lateral < left
    nodes = int(track[TRACK_NODES])
    pieces = nodes if inside else min(nodes, int(1.5 * reach / track[TRACK_LENGTH] * nodes) + 8)
    node = node_of_point[first + index]
    cut_ribbon(rays, count, ribbon, int(track[TRACK_FIRST_NODE]), nodes, node, x, y, cos, sin, inside, pieces)

    if obstacles_seen:
        start = int(track[TRACK_FIRST_OBSTACLE])
        for row in range(start, start + int(track[TRACK_OBSTACLES])):
            dx, dy = F32(obstacles[row, 0] - x), F32(obstacles[row, 1] - y)
            radius = obstacles[row, 2]
            apart = abs(along_lap(obstacles[row, 3] - doubles[S, n], track[TRACK_LENGTH]))
            if dx * dx + dy * dy < (reach + radius) ** 2 and apart < 1.5 * reach + 50.0:
                cut_circle(rays, count, dx * cos + dy * sin, dy * cos - dx * sin, radius)
    if group > 1:
        start = n - n % group
        for other in range(start, min(start + group, parameters.shape[0])):
            if other == n or flags[GHOST, other] or flags[GHOST, n]:
                continue
            dx, dy = F32(doubles[X, other] - x), F32(doubles[Y, other] - y)
            apart = abs(along_lap(doubles[S, other] - doubles[S, n], track[TRACK_LENGTH]))
            if dx * dx + dy * dy < (reach + parameters[other, LENGTH]) ** 2 and apart < 1.5 * reach + 50.0:
                turn = singles[HEADING, other] - heading
                cut_body(
                    rays, count, dx * cos + dy * sin, dy * cos - dx * sin, F32(math.cos(turn)), F32(math.sin(turn)),
                    F32(0.5) * parameters[other, LENGTH], F32(0.5) * parameters[other, WIDTH],
                )  # fmt: skip


@inline
def shift(readings: Any, n: int) -> None:
    """Make room for a new reading at [n, 0]."""
    for age in range(readings.shape[1] - 1, 0, -1):
        for k in range(readings.shape[2]):
            readings[n, age, k] = readings[n, age - 1, k]


@inline
def repeat(readings: Any, n: int) -> None:
    """At the start of an episode the first reading is the whole past."""
    for age in range(1, readings.shape[1]):
        for k in range(readings.shape[2]):
            readings[n, age, k] = readings[n, 0, k]


@inline
def file_rays(
    n: int, fresh: bool, reach: Any, noise: float, dropout: float, seed: int, episode: int, step: int,
    rays: Any, count: int, readings: Any,
) -> None:  # fmt: skip
    """Disturb and file the distances just traced for car `n`."""
    if not fresh:
        shift(readings, n)
    for k in range(readings.shape[2]):
        distance = rays[2 * count + k]
        if noise > 0.0:
            spread = F32(noise * random_normal(seed, n, episode, step, DRAW_RAYS, 2 * k))
            distance = min(max(distance + spread, F32(0.0)), reach)
        if dropout > 0.0 and random_uniform(seed, n, episode, step, DRAW_RAYS, 2 * k + 1) < dropout:
            distance = reach
        readings[n, 0, k] = distance
    if fresh:
        repeat(readings, n)


@part
def disturb(
    readings: Any, n: int, fresh: bool, values: Any, spreads: Any, dropout: float, purpose: int,
    seed: int, episode: int, step: int,
) -> None:  # fmt: skip
    """File one reading; a lost one repeats the last.

    `spreads` [2, size] is the standard deviation of the noise: a constant, and a share of the value itself.
    """
    lost = dropout > 0.0 and not fresh and random_uniform(seed, n, episode, step, purpose, ITEM_0) < dropout
    if not fresh:
        shift(readings, n)
    if lost:
        return
    for k in range(readings.shape[2]):
        value = values[k]
        spread = spreads[0, k] + spreads[1, k] * abs(value)
        if spread > 0.0:
            value += F32(spread * random_normal(seed, n, episode, step, purpose, k + 1))
        readings[n, 0, k] = value
    if fresh:
        repeat(readings, n)


@part
def sense_course(
    n: int, points_ahead: int, kind: int, horizon: float, least_speed: float,
    doubles: Any, singles: Any, integers: Any, tracks: Any, road: Any, values: Any,
) -> None:  # fmt: skip
    """Fill `values` (flat) with the road ahead of car `n`, see `CourseSettings`."""
    track = tracks[integers[TRACK, n]]
    first, count = int(track[TRACK_FIRST_POINT]), int(track[TRACK_POINTS])
    heading = singles[HEADING, n]
    cos, sin = cosine(heading), sine(heading)
    pace = max(float(singles[VX, n]), least_speed) * horizon / points_ahead
    at = 0
    for point in range(points_ahead):
        ahead = doubles[S, n] + pace * (point + 1)
        index, fraction = place_at(ahead, track[TRACK_LENGTH], track[TRACK_SPACING], count)
        if kind == COURSE_CURVATURE:
            values[at] = curvature_at(road, first, count, index, fraction)
            at += 1
        else:
            px, py, _, _ = frame_at(road, first, count, index, fraction)
            dx, dy = px - doubles[X, n], py - doubles[Y, n]
            values[at], values[at + 1] = dx * cos + dy * sin, dy * cos - dx * sin
            at += 2
        values[at] = between(road, first, count, index, fraction, ROAD_LEFT)
        values[at + 1] = between(road, first, count, index, fraction, ROAD_RIGHT)
        at += 2


@part
def read_instruments(n: int, singles: Any, integers: Any, values: Any) -> None:
    """Fill `values` with the telemetry of car `n`, in the order of `settings.TELEMETRY`."""
    vx, vy = singles[VX, n], singles[VY, n]
    values[0] = math.sqrt(vx * vx + vy * vy)
    values[1] = integers[GEAR, n]
    values[2] = singles[RPM, n]
    values[3] = singles[YAW_RATE, n]
    values[4] = arctangent(vy / max(abs(vx), F32(0.5)))
    values[5] = singles[STEER, n]
    values[6] = singles[LONGITUDINAL_ACCELERATION, n]
    values[7] = singles[LATERAL_ACCELERATION, n]
    values[8] = singles[APPLIED_STEER, n]
    values[9] = singles[APPLIED_THROTTLE, n]


@inline
def sense(
    n: int, fresh: bool, options: Any, numbers: Any, course_spreads: Any, telemetry_spreads: Any,
    parameters: Any, doubles: Any, singles: Any, integers: Any, flags: Any,
    tracks: Any, road: Any, ribbon: Any, node_of_point: Any, obstacles: Any,
    rays: Any, values: Any, ray_readings: Any, course_readings: Any, telemetry_readings: Any,
) -> None:  # fmt: skip
    """One reading of every sensor of car `n`; `fresh` at the start of an episode."""
    seed, episode, step = options[OPTION_SEED], np.int64(integers[EPISODE, n]), np.int64(integers[STEPS, n])
    if options[OPTION_RAYS] > 0:
        reach, count = F32(numbers[NUMBER_RAY_RANGE]), rays.shape[0] // 3
        trace_rays(
            n, options[OPTION_GROUP], reach, numbers[NUMBER_RAY_MOUNT], options[OPTION_OBSTACLES] != OBSTACLES_GHOST,
            parameters, doubles, singles, integers, flags, tracks, road, ribbon, node_of_point, obstacles, rays, count,
        )  # fmt: skip
        file_rays(
            n, fresh, reach, numbers[NUMBER_RAY_NOISE], numbers[NUMBER_RAY_DROPOUT], seed, episode, step,
            rays, count, ray_readings,
        )  # fmt: skip
    if options[OPTION_COURSE] > 0:
        sense_course(
            n, options[OPTION_COURSE], options[OPTION_COURSE_KIND], numbers[NUMBER_COURSE_HORIZON],
            numbers[NUMBER_COURSE_SPEED], doubles, singles, integers, tracks, road, values,
        )  # fmt: skip
        disturb(
            course_readings, n, fresh, values, course_spreads, numbers[NUMBER_COURSE_DROPOUT], DRAW_COURSE,
            seed, episode, step,
        )  # fmt: skip
    if options[OPTION_TELEMETRY] > 0:
        read_instruments(n, singles, integers, values)
        disturb(
            telemetry_readings, n, fresh, values, telemetry_spreads, numbers[NUMBER_TELEMETRY_DROPOUT],
            DRAW_TELEMETRY, seed, episode, step,
        )  # fmt: skip

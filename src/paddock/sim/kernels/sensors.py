"""What a car perceives: rays, the course ahead and telemetry, with noise, loss and delay on the way.

Readings are kept newest first, [N, depth, size]; what a driver sees is a window of them that begins at the latency.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.sim import layout as L
from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import inline, part
from paddock.sim.kernels.math import arctangent, cosine, random_normal, random_uniform, sine
from paddock.sim.kernels.rays import cut_body, cut_circle, cut_ribbon
from paddock.sim.kernels.records import Cars, Doubles, Roads, Rules, Sensors, Singles
from paddock.sim.kernels.road import between, curvature_at, frame_at, locate, place_at

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
def trace_rays(n: int, reach: float, rules: Rules, cars: Cars, roads: Roads, rays: Singles, count: int) -> None:
    """Fill the distances [m] of `rays` (flat: direction x, direction y, distance) for car `n`."""
    parameters, doubles, singles, integers = cars.parameters, cars.doubles, cars.singles, cars.integers
    flags, road, obstacles = cars.flags, roads.points, roads.obstacles
    group, mount = rules.options[L.OPTION_GROUP], rules.numbers[L.NUMBER_RAY_MOUNT]
    for k in range(count):
        rays[2 * count + k] = reach
    track = roads.tracks[integers[L.TRACK, n]]
    first, points = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS])
    heading = singles[L.HEADING, n]
    cos, sin = cosine(heading), sine(heading)
    x, y = doubles[L.X, n] + mount * cos, doubles[L.Y, n] + mount * sin
    index, lateral = np.int64(integers[L.INDEX, n]), np.float64(singles[L.LATERAL, n])
    left, right = np.float64(singles[L.LEFT_WIDTH, n]), np.float64(singles[L.RIGHT_WIDTH, n])
    if mount != 0.0:
        reach_points = 3 + int(abs(mount) / track[L.TRACK_SPACING])
        index, fraction, lateral = locate(road, first, points, index, x, y, reach_points)
        left = between(road, first, points, index, fraction, L.ROAD_LEFT)
        right = between(road, first, points, index, fraction, L.ROAD_RIGHT)
    inside = -right < lateral < left
    nodes = int(track[L.TRACK_NODES])
    pieces = nodes if inside else min(nodes, int(1.5 * reach / track[L.TRACK_LENGTH] * nodes) + 8)
    node = roads.node_of_point[first + index]
    cut_ribbon(rays, count, roads.ribbon, int(track[L.TRACK_FIRST_NODE]), nodes, node, x, y, cos, sin, inside, pieces)

    if rules.options[L.OPTION_OBSTACLES] != L.OBSTACLES_GHOST:
        start = int(track[L.TRACK_FIRST_OBSTACLE])
        for row in range(start, start + int(track[L.TRACK_OBSTACLES])):
            dx, dy = F32(obstacles[row, 0] - x), F32(obstacles[row, 1] - y)
            radius = obstacles[row, 2]
            apart = abs(along_lap(obstacles[row, 3] - doubles[L.S, n], track[L.TRACK_LENGTH]))
            if dx * dx + dy * dy < (reach + radius) ** 2 and apart < 1.5 * reach + 50.0:
                cut_circle(rays, count, dx * cos + dy * sin, dy * cos - dx * sin, radius)
    if group > 1:
        start = n - n % group
        for other in range(start, min(start + group, parameters.shape[0])):
            if other == n or flags[L.GHOST, other] or flags[L.GHOST, n]:
                continue
            dx, dy = F32(doubles[L.X, other] - x), F32(doubles[L.Y, other] - y)
            apart = abs(along_lap(doubles[L.S, other] - doubles[L.S, n], track[L.TRACK_LENGTH]))
            if dx * dx + dy * dy < (reach + parameters[other, LENGTH]) ** 2 and apart < 1.5 * reach + 50.0:
                turn = singles[L.HEADING, other] - heading
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
    n: int, fresh: bool, reach: Any, rules: Rules, episode: int, step: int, rays: Singles, count: int, readings: Singles
) -> None:
    """Disturb and file the distances just traced for car `n`."""
    seed = rules.options[L.OPTION_SEED]
    noise, dropout = rules.numbers[L.NUMBER_RAY_NOISE], rules.numbers[L.NUMBER_RAY_DROPOUT]
    if not fresh:
        shift(readings, n)
    for k in range(readings.shape[2]):
        distance = rays[2 * count + k]
        if noise > 0.0:
            spread = F32(noise * random_normal(seed, n, episode, step, L.DRAW_RAYS, 2 * k))
            distance = min(max(distance + spread, F32(0.0)), reach)
        if dropout > 0.0 and random_uniform(seed, n, episode, step, L.DRAW_RAYS, 2 * k + 1) < dropout:
            distance = reach
        readings[n, 0, k] = distance
    if fresh:
        repeat(readings, n)


@part
def disturb(
    readings: Singles, n: int, fresh: bool, values: Singles, noise: Doubles, dropout: float, purpose: int,
    seed: int, episode: int, step: int,
) -> None:  # fmt: skip
    """File one reading; a lost one repeats the last.

    `noise` [2, size] is its standard deviation: a constant, and a share of the value itself.
    """
    lost = dropout > 0.0 and not fresh and random_uniform(seed, n, episode, step, purpose, L.ITEM_0) < dropout
    if not fresh:
        shift(readings, n)
    if lost:
        return
    size, spreads = readings.shape[2], 0.0
    for k in range(size):
        spreads += noise[0, k] + noise[1, k]
    if spreads == 0.0:  # A loop of its own: beside a condition the compiler would draw the noise and throw it away.
        for k in range(size):
            readings[n, 0, k] = values[k]
    for k in range(size if spreads > 0.0 else 0):
        value = values[k]
        spread = noise[0, k] + noise[1, k] * abs(value)
        if spread > 0.0:
            value += F32(spread * random_normal(seed, n, episode, step, purpose, k + 1))
        readings[n, 0, k] = value
    if fresh:
        repeat(readings, n)


@part
def sense_course(n: int, rules: Rules, cars: Cars, roads: Roads, values: Singles) -> None:
    """Fill `values` (flat) with the road ahead of car `n`, see `CourseSettings`."""
    doubles, singles, integers, road = cars.doubles, cars.singles, cars.integers, roads.points
    points_ahead, kind = rules.options[L.OPTION_COURSE], rules.options[L.OPTION_COURSE_KIND]
    horizon, least_speed = rules.numbers[L.NUMBER_COURSE_HORIZON], rules.numbers[L.NUMBER_COURSE_SPEED]
    track = roads.tracks[integers[L.TRACK, n]]
    first, count = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS])
    heading = singles[L.HEADING, n]
    cos, sin = cosine(heading), sine(heading)
    pace = max(float(singles[L.VX, n]), least_speed) * horizon / points_ahead
    at = 0
    for point in range(points_ahead):
        ahead = doubles[L.S, n] + pace * (point + 1)
        index, fraction = place_at(ahead, track[L.TRACK_LENGTH], track[L.TRACK_SPACING], count)
        if kind == L.COURSE_CURVATURE:
            values[at] = curvature_at(road, first, count, index, fraction)
            at += 1
        else:
            px, py, _, _ = frame_at(road, first, count, index, fraction)
            dx, dy = px - doubles[L.X, n], py - doubles[L.Y, n]
            values[at], values[at + 1] = dx * cos + dy * sin, dy * cos - dx * sin
            at += 2
        values[at] = between(road, first, count, index, fraction, L.ROAD_LEFT)
        values[at + 1] = between(road, first, count, index, fraction, L.ROAD_RIGHT)
        at += 2


@part
def read_instruments(n: int, cars: Cars, values: Singles) -> None:
    """Fill `values` with the telemetry of car `n`, in the order of `settings.TELEMETRY`."""
    singles, integers = cars.singles, cars.integers
    vx, vy = singles[L.VX, n], singles[L.VY, n]
    values[0] = math.sqrt(vx * vx + vy * vy)
    values[1] = integers[L.GEAR, n]
    values[2] = singles[L.RPM, n]
    values[3] = singles[L.YAW_RATE, n]
    values[4] = arctangent(vy / max(abs(vx), F32(0.5)))
    values[5] = singles[L.STEER, n]
    values[6] = singles[L.LONGITUDINAL_ACCELERATION, n]
    values[7] = singles[L.LATERAL_ACCELERATION, n]
    values[8] = singles[L.APPLIED_STEER, n]
    values[9] = singles[L.APPLIED_THROTTLE, n]


@inline
def sense(
    n: int, fresh: bool, rules: Rules, cars: Cars, roads: Roads, sensors: Sensors, rays: Singles, values: Singles
) -> None:
    """One reading of every sensor of car `n`; `fresh` at the start of an episode."""
    options, numbers = rules.options, rules.numbers
    seed, episode = options[L.OPTION_SEED], np.int64(cars.integers[L.EPISODE, n])
    step = np.int64(cars.integers[L.STEPS, n])
    if options[L.OPTION_RAYS] > 0:
        reach, count = F32(numbers[L.NUMBER_RAY_RANGE]), rays.shape[0] // 3
        trace_rays(n, reach, rules, cars, roads, rays, count)
        file_rays(n, fresh, reach, rules, episode, step, rays, count, sensors.rays)
    if options[L.OPTION_COURSE] > 0:
        sense_course(n, rules, cars, roads, values)
        disturb(
            sensors.course, n, fresh, values, sensors.course_noise, numbers[L.NUMBER_COURSE_DROPOUT], L.DRAW_COURSE,
            seed, episode, step,
        )  # fmt: skip
    if options[L.OPTION_TELEMETRY] > 0:
        read_instruments(n, cars, values)
        disturb(
            sensors.telemetry, n, fresh, values, sensors.telemetry_noise, numbers[L.NUMBER_TELEMETRY_DROPOUT],
            L.DRAW_TELEMETRY, seed, episode, step,
        )  # fmt: skip

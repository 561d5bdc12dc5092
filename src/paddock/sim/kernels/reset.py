"""The start of an episode for one car: which road, where on it, how fast, with which parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import part
from paddock.sim.kernels.math import random_uniform
from paddock.sim.kernels.road import between, curvature_at, frame_at, place_at
from paddock.sim.kernels.sensors import along_lap
from paddock.sim.layout import (
    BEST_LAP_TIME,
    CURVATURE,
    DRAW_CAR,
    DRAW_START,
    DRAW_TRACK,
    EPISODE,
    FLYING_LAP,
    GEAR,
    GHOST,
    HEADING,
    HEADING_ERROR,
    INDEX,
    ITEM_0,
    ITEM_1,
    LAP_DISTANCE,
    LAP_KIND,
    LAP_ORIGIN,
    LAP_START,
    LAP_VALID,
    LAST_LAP_TIME,
    LATERAL,
    LEFT_WIDTH,
    NEXT_GATE,
    NO_STEP,
    NUMBER_SPEED_HIGH,
    NUMBER_SPEED_LOW,
    NUMBER_START_AT,
    NUMBER_START_HEADING,
    NUMBER_START_LATERAL,
    OPTION_GATES,
    OPTION_GROUP,
    OPTION_LAPS_FROM_START,
    OPTION_RANDOM_TRACK,
    OPTION_SEED,
    OPTION_START,
    OUT_LAP,
    RIGHT_WIDTH,
    ROAD_LEFT,
    ROAD_RIGHT,
    SECTOR_START,
    STANDING_LAP,
    START_GRID,
    START_RANDOM,
    TRACK,
    TRACK_FIRST_OBSTACLE,
    TRACK_FIRST_POINT,
    TRACK_LENGTH,
    TRACK_OBSTACLES,
    TRACK_POINTS,
    TRACK_SPACING,
    VX,
    S,
    X,
    Y,
)

LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]
TRIES = 24  # random places to try before taking one that is not free
ROW_GAP = 1.7  # car lengths from one place on the grid to the next
GRID_LENGTHS = 20.0  # a standing start less than this many car lengths behind the line is a start from the grid


@part
def is_free(
    n: int, group: int, x: float, y: float, s: float, track: Any, obstacles: Any, parameters: Any, doubles: Any
) -> bool:
    """Whether car `n` could stand at (x, y) without touching an obstacle or another car of its group."""
    size = parameters[n, LENGTH]
    start = int(track[TRACK_FIRST_OBSTACLE])
    for row in range(start, start + int(track[TRACK_OBSTACLES])):
        dx, dy = obstacles[row, 0] - x, obstacles[row, 1] - y
        clearance = size + obstacles[row, 2]
        if (
            dx * dx + dy * dy < clearance * clearance
            and abs(along_lap(obstacles[row, 3] - s, track[TRACK_LENGTH])) < 4.0 * clearance
        ):
            return False
    if group > 1:
        start = n - n % group
        for other in range(start, min(start + group, parameters.shape[0])):
            dx, dy = doubles[X, other] - x, doubles[Y, other] - y
            if other != n and dx * dx + dy * dy < (1.5 * size) ** 2:
                return False
    return True


@part
def choose_place(
    n: int, options: Any, numbers: Any, starts: Any, track: Any, road: Any, obstacles: Any,
    parameters: Any, doubles: Any, episode: int,
) -> tuple[float, float]:  # fmt: skip
    """(s m, lateral m) at which car `n` begins. `starts` [N, 4] overrides where it is not NaN."""
    seed, group = options[OPTION_SEED], options[OPTION_GROUP]
    length, count = track[TRACK_LENGTH], int(track[TRACK_POINTS])
    first, place = int(track[TRACK_FIRST_POINT]), n % group
    s, lateral = 0.0, 0.0
    for attempt in range(TRIES):
        if not math.isnan(starts[n, 0]):
            s = starts[n, 0]
        elif options[OPTION_START] == START_RANDOM:
            s = random_uniform(seed, n, episode, NO_STEP, DRAW_START, 8 + 2 * attempt) * length
        elif options[OPTION_START] == START_GRID:
            s = -(1.0 + place * ROW_GAP) * parameters[n, LENGTH]
        else:
            s = numbers[NUMBER_START_AT] - place * 2.0 * ROW_GAP * parameters[n, LENGTH]
        s -= math.floor(s / length) * length
        index, fraction = place_at(s, length, track[TRACK_SPACING], count)
        left = between(road, first, count, index, fraction, ROAD_LEFT)
        right = between(road, first, count, index, fraction, ROAD_RIGHT)
        middle, half = 0.5 * (left - right), max(0.5 * (left + right) - 0.5 * parameters[n, WIDTH], 0.0)
        if not math.isnan(starts[n, 1]):
            lateral = starts[n, 1]
        elif options[OPTION_START] == START_GRID:
            lateral = middle + (0.0 if group == 1 else 0.5 * half if place % 2 == 0 else -0.5 * half)
        else:
            spread = 2.0 * random_uniform(seed, n, episode, NO_STEP, DRAW_START, 9 + 2 * attempt) - 1.0
            share = numbers[NUMBER_START_LATERAL]
            lateral = share * (middle + half * spread)
        if options[OPTION_START] != START_RANDOM or not math.isnan(starts[n, 0]):
            break
        x, y, tx, ty = frame_at(road, first, count, index, fraction)
        if is_free(n, group, x - lateral * ty, y + lateral * tx, s, track, obstacles, parameters, doubles):
            break
    return s, lateral


@part
def begin_laps(
    n: int, s: float, standing: bool, options: Any, length: float, size: float,
    doubles: Any, integers: Any, flags: Any, lap_times: Any, lap_kinds: Any, sector_times: Any,
) -> None:  # fmt: skip
    """Set the lap clock for a start at `s` m.

    From the line or the grid the first lap counts; from anywhere else the way to the line is an untimed out lap,
    unless laps are measured from the start.
    """
    gates = options[OPTION_GATES]
    kind = STANDING_LAP if standing else FLYING_LAP
    if options[OPTION_LAPS_FROM_START] > 0:
        doubles[LAP_ORIGIN, n], distance = s, 0.0
    else:
        doubles[LAP_ORIGIN, n], distance = 0.0, s
        if standing and length - s < GRID_LENGTHS * size:
            distance = s - length
        elif s > 1e-3:
            kind = OUT_LAP
    doubles[LAP_DISTANCE, n] = distance
    doubles[LAP_START, n] = 0.0
    doubles[SECTOR_START, n] = 0.0
    doubles[LAST_LAP_TIME, n] = math.nan
    doubles[BEST_LAP_TIME, n] = math.nan
    integers[LAP_KIND, n] = kind
    integers[NEXT_GATE, n] = max(math.floor(distance * gates / length + 1e-9) + 1, 1)
    flags[LAP_VALID, n] = True
    lap_times[n, :] = math.nan
    lap_kinds[n, :] = 0
    sector_times[n, :, :] = math.nan


@part
def begin(
    n: int, options: Any, numbers: Any, starts: Any,
    random_fields: Any, random_bounds: Any, base_parameters: Any, parameters: Any,
    tracks: Any, road: Any, obstacles: Any, doubles: Any, singles: Any, integers: Any, flags: Any,
    queue: Any, lap_times: Any, lap_kinds: Any, sector_times: Any,
) -> None:  # fmt: skip
    """Put car `n` at the start of its next episode."""
    seed, episode, track_index = options[OPTION_SEED], integers[EPISODE, n] + 1, integers[TRACK, n]
    ghost = flags[GHOST, n]
    if options[OPTION_RANDOM_TRACK] > 0:
        track_index = int(random_uniform(seed, n, episode, NO_STEP, DRAW_TRACK, ITEM_0) * tracks.shape[0])
    for row in range(doubles.shape[0]):
        doubles[row, n] = 0.0
    for row in range(singles.shape[0]):
        singles[row, n] = 0.0
    for row in range(integers.shape[0]):
        integers[row, n] = 0
    for row in range(flags.shape[0]):
        flags[row, n] = False
    queue[n, :, :] = 0.0
    flags[GHOST, n] = ghost
    integers[EPISODE, n], integers[TRACK, n], integers[GEAR, n] = episode, track_index, 1
    for k in range(random_fields.shape[0]):
        low, high = random_bounds[k, 0], random_bounds[k, 1]
        factor = low + (high - low) * random_uniform(seed, n, episode, NO_STEP, DRAW_CAR, k)
        parameters[n, random_fields[k]] = base_parameters[n, random_fields[k]] * np.float32(factor)

    track = tracks[track_index]
    first, count = int(track[TRACK_FIRST_POINT]), int(track[TRACK_POINTS])
    doubles[X, n] = math.inf  # not in its own way, nor in anybody's, while places are tried
    s, lateral = choose_place(n, options, numbers, starts, track, road, obstacles, parameters, doubles, episode)
    index, fraction = place_at(s, track[TRACK_LENGTH], track[TRACK_SPACING], count)
    x, y, tx, ty = frame_at(road, first, count, index, fraction)
    turn, speed = starts[n, 2], starts[n, 3]
    if math.isnan(turn):
        turn = numbers[NUMBER_START_HEADING] * (
            2.0 * random_uniform(seed, n, episode, NO_STEP, DRAW_START, ITEM_0) - 1.0
        )
    if math.isnan(speed):
        low, high = numbers[NUMBER_SPEED_LOW], numbers[NUMBER_SPEED_HIGH]
        speed = low + (high - low) * random_uniform(seed, n, episode, NO_STEP, DRAW_START, ITEM_1)
        speed = 0.0 if options[OPTION_START] == START_GRID else speed
    doubles[X, n], doubles[Y, n], doubles[S, n] = x - lateral * ty, y + lateral * tx, s
    heading = math.atan2(ty, tx) + turn
    heading -= 2.0 * math.pi * math.floor((heading + math.pi) / (2.0 * math.pi))
    singles[HEADING, n], singles[HEADING_ERROR, n], singles[VX, n] = heading, turn, speed
    singles[LATERAL, n] = lateral
    singles[LEFT_WIDTH, n] = between(road, first, count, index, fraction, ROAD_LEFT)
    singles[RIGHT_WIDTH, n] = between(road, first, count, index, fraction, ROAD_RIGHT)
    singles[CURVATURE, n] = curvature_at(road, first, count, index, fraction)
    integers[INDEX, n] = index
    begin_laps(
        n, s, speed < 0.1, options, track[TRACK_LENGTH], parameters[n, LENGTH],
        doubles, integers, flags, lap_times, lap_kinds, sector_times,
    )  # fmt: skip

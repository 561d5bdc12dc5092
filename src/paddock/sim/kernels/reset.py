"""The start of an episode for one car: which road, where on it, how fast, with which parameters."""

from __future__ import annotations

import math

import numpy as np

from paddock.sim import layout as L
from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import inline, part
from paddock.sim.kernels.math import random_uniform
from paddock.sim.kernels.records import Cars, Doubles, Laps, Orders, Roads, Rules
from paddock.sim.kernels.road import between, curvature_at, frame_at, place_at
from paddock.sim.kernels.sensors import along_lap

LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]
TRIES = 24  # random places to try before taking one that is not free
ROW_GAP = 1.7  # car lengths from one place on the grid to the next
GRID_LENGTHS = 20.0  # a standing start less than this many car lengths behind the line is a start from the grid


@part
def is_free(n: int, group: int, x: float, y: float, s: float, track: Doubles, roads: Roads, cars: Cars) -> bool:
    """Whether car `n` could stand at (x, y) without touching an obstacle or another car of its group."""
    parameters, doubles, obstacles = cars.parameters, cars.doubles, roads.obstacles
    size = parameters[n, LENGTH]
    start = int(track[L.TRACK_FIRST_OBSTACLE])
    for row in range(start, start + int(track[L.TRACK_OBSTACLES])):
        dx, dy = obstacles[row, 0] - x, obstacles[row, 1] - y
        clearance = size + obstacles[row, 2]
        if (
            dx * dx + dy * dy < clearance * clearance
            and abs(along_lap(obstacles[row, 3] - s, track[L.TRACK_LENGTH])) < 4.0 * clearance
        ):
            return False
    if group > 1:
        start = n - n % group
        for other in range(start, min(start + group, parameters.shape[0])):
            dx, dy = doubles[L.X, other] - x, doubles[L.Y, other] - y
            if other != n and dx * dx + dy * dy < (1.5 * size) ** 2:
                return False
    return True


@part
def choose_place(
    n: int, episode: int, starts: Doubles, track: Doubles, rules: Rules, roads: Roads, cars: Cars
) -> tuple[float, float]:
    """(s m, lateral m) at which car `n` begins. `starts` [N, 4] overrides where it is not NaN."""
    options, numbers, parameters, road = rules.options, rules.numbers, cars.parameters, roads.points
    seed, group = options[L.OPTION_SEED], options[L.OPTION_GROUP]
    length, count = track[L.TRACK_LENGTH], int(track[L.TRACK_POINTS])
    first, place = int(track[L.TRACK_FIRST_POINT]), n % group
    s, lateral = 0.0, 0.0
    for attempt in range(TRIES):
        if not math.isnan(starts[n, 0]):
            s = starts[n, 0]
        elif options[L.OPTION_START] == L.START_RANDOM:
            s = random_uniform(seed, n, episode, L.NO_STEP, L.DRAW_START, 8 + 2 * attempt) * length
        elif options[L.OPTION_START] == L.START_GRID:
            s = -(1.0 + place * ROW_GAP) * parameters[n, LENGTH]
        else:
            s = numbers[L.NUMBER_START_AT] - place * 2.0 * ROW_GAP * parameters[n, LENGTH]
        s -= math.floor(s / length) * length
        index, fraction = place_at(s, length, track[L.TRACK_SPACING], count)
        left = between(road, first, count, index, fraction, L.ROAD_LEFT)
        right = between(road, first, count, index, fraction, L.ROAD_RIGHT)
        middle, half = 0.5 * (left - right), max(0.5 * (left + right) - 0.5 * parameters[n, WIDTH], 0.0)
        if not math.isnan(starts[n, 1]):
            lateral = starts[n, 1]
        elif options[L.OPTION_START] == L.START_GRID:
            lateral = middle + (0.0 if group == 1 else 0.5 * half if place % 2 == 0 else -0.5 * half)
        else:
            spread = 2.0 * random_uniform(seed, n, episode, L.NO_STEP, L.DRAW_START, 9 + 2 * attempt) - 1.0
            share = numbers[L.NUMBER_START_LATERAL]
            lateral = share * (middle + half * spread)
        if options[L.OPTION_START] != L.START_RANDOM or not math.isnan(starts[n, 0]):
            break
        x, y, tx, ty = frame_at(road, first, count, index, fraction)
        if is_free(n, group, x - lateral * ty, y + lateral * tx, s, track, roads, cars):
            break
    return s, lateral


@part
def begin_laps(n: int, s: float, standing: bool, length: float, rules: Rules, cars: Cars, laps: Laps) -> None:
    """Set the lap clock for a start at `s` m.

    From the line or the grid the first lap counts; from anywhere else the way to the line is an untimed out lap,
    unless laps are measured from the start.
    """
    doubles, integers, gates = cars.doubles, cars.integers, rules.options[L.OPTION_GATES]
    kind = L.STANDING_LAP if standing else L.FLYING_LAP
    if rules.options[L.OPTION_LAPS_FROM_START] > 0:
        doubles[L.LAP_ORIGIN, n], distance = s, 0.0
    else:
        doubles[L.LAP_ORIGIN, n], distance = 0.0, s
        if standing and length - s < GRID_LENGTHS * cars.parameters[n, LENGTH]:
            distance = s - length
        elif s > 1e-3:
            kind = L.OUT_LAP
    doubles[L.LAP_DISTANCE, n] = distance
    doubles[L.LAP_START, n] = 0.0
    doubles[L.SECTOR_START, n] = 0.0
    doubles[L.LAST_LAP_TIME, n] = math.nan
    doubles[L.BEST_LAP_TIME, n] = math.nan
    integers[L.LAP_KIND, n] = kind
    integers[L.NEXT_GATE, n] = max(math.floor(distance * gates / length + 1e-9) + 1, 1)
    cars.flags[L.LAP_VALID, n] = True
    laps.times[n, :] = math.nan
    laps.kinds[n, :] = 0
    laps.sectors[n, :, :] = math.nan


@inline
def clear_state(n: int, cars: Cars) -> None:
    """Zero the state of car `n`, except whether it is a ghost."""
    ghost = cars.flags[L.GHOST, n]
    for row in range(cars.doubles.shape[0]):
        cars.doubles[row, n] = 0.0
    for row in range(cars.singles.shape[0]):
        cars.singles[row, n] = 0.0
    for row in range(cars.integers.shape[0]):
        cars.integers[row, n] = 0
    for row in range(cars.flags.shape[0]):
        cars.flags[row, n] = False
    cars.queue[n, :, :] = 0.0
    cars.flags[L.GHOST, n] = ghost


@part
def begin(n: int, orders: Orders, rules: Rules, cars: Cars, roads: Roads, laps: Laps) -> None:
    """Put car `n` at the start of its next episode."""
    options, numbers, starts, road = rules.options, rules.numbers, orders.starts, roads.points
    doubles, singles, integers = cars.doubles, cars.singles, cars.integers
    seed, episode, track_index = options[L.OPTION_SEED], integers[L.EPISODE, n] + 1, integers[L.TRACK, n]
    if options[L.OPTION_RANDOM_TRACK] > 0:
        track_index = int(random_uniform(seed, n, episode, L.NO_STEP, L.DRAW_TRACK, L.ITEM_0) * roads.tracks.shape[0])
    clear_state(n, cars)
    integers[L.EPISODE, n], integers[L.TRACK, n], integers[L.GEAR, n] = episode, track_index, 1
    for k in range(rules.random_fields.shape[0]):
        field, low, high = rules.random_fields[k], rules.random_bounds[k, 0], rules.random_bounds[k, 1]
        factor = low + (high - low) * random_uniform(seed, n, episode, L.NO_STEP, L.DRAW_CAR, k)
        cars.parameters[n, field] = cars.base_parameters[n, field] * np.float32(factor)

    track = roads.tracks[track_index]
    first, count = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS])
    doubles[L.X, n] = math.inf  # in no car's way, its own included, while places are tried
    s, lateral = choose_place(n, episode, starts, track, rules, roads, cars)
    index, fraction = place_at(s, track[L.TRACK_LENGTH], track[L.TRACK_SPACING], count)
    x, y, tx, ty = frame_at(road, first, count, index, fraction)
    turn, speed = starts[n, 2], starts[n, 3]
    if math.isnan(turn):
        turn = numbers[L.NUMBER_START_HEADING] * (
            2.0 * random_uniform(seed, n, episode, L.NO_STEP, L.DRAW_START, L.ITEM_0) - 1.0
        )
    if math.isnan(speed):
        low, high = numbers[L.NUMBER_SPEED_LOW], numbers[L.NUMBER_SPEED_HIGH]
        speed = low + (high - low) * random_uniform(seed, n, episode, L.NO_STEP, L.DRAW_START, L.ITEM_1)
        speed = 0.0 if options[L.OPTION_START] == L.START_GRID else speed
    doubles[L.X, n], doubles[L.Y, n], doubles[L.S, n] = x - lateral * ty, y + lateral * tx, s
    heading = math.atan2(ty, tx) + turn
    heading -= 2.0 * math.pi * math.floor((heading + math.pi) / (2.0 * math.pi))
    singles[L.HEADING, n], singles[L.HEADING_ERROR, n], singles[L.VX, n] = heading, turn, speed
    singles[L.LATERAL, n] = lateral
    singles[L.LEFT_WIDTH, n] = between(road, first, count, index, fraction, L.ROAD_LEFT)
    singles[L.RIGHT_WIDTH, n] = between(road, first, count, index, fraction, L.ROAD_RIGHT)
    singles[L.CURVATURE, n] = curvature_at(road, first, count, index, fraction)
    integers[L.INDEX, n] = index
    begin_laps(n, s, speed < 0.1, track[L.TRACK_LENGTH], rules, cars, laps)

"""One control step of the whole world in one launch: blocks of cars, each from action to reading.

Whole groups lie in one block, so cars that can meet are handled by one thread in a fixed order; results depend
neither on the number of threads nor on the other blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.sim import layout as L
from paddock.sim.cars.car import (
    GEAR_RATIOS,
    PARAMETER_COUNT,
    PARAMETER_INDEX,
    SHIFT_DOWN_RPM,
    SHIFT_UP_RPM,
    TYRE_CIRCUMFERENCE,
)
from paddock.sim.kernels import dynamics as D
from paddock.sim.kernels.compile import inline, kernel, part
from paddock.sim.kernels.contact import hit_fixed, hit_obstacle, touch_group
from paddock.sim.kernels.episodes import follow_episodes
from paddock.sim.kernels.launch import DONE, TAKEN, add_atomically
from paddock.sim.kernels.math import ONE, ZERO, clip, cosine, direction_angle, random_uniform, sine, wrapped
from paddock.sim.kernels.records import (
    Bytes,
    Cars,
    Doubles,
    Episodes,
    Laps,
    Orders,
    Results,
    Roads,
    Rules,
    Scratch,
    Sensors,
    Singles,
)
from paddock.sim.kernels.reset import begin
from paddock.sim.kernels.road import between, corners_beyond, curvature_at, frame_at, locate
from paddock.sim.kernels.sensors import along_lap, sense
from paddock.sim.kernels.timing import time_gates

LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]
GEAR_SCALE = PARAMETER_INDEX["gear_scale"]
RATIOS = np.array(GEAR_RATIOS)
WRONG_WAY_SPEED = 0.5  # m/s against the lap's direction
F32 = np.float32


@inline
def pedals(steer: Any, throttle: Any) -> tuple[Any, Any]:
    """(steer, throttle) within [-1, 1]; a NaN does nothing."""
    steer = clip(steer, -ONE, ONE) if steer == steer else ZERO
    throttle = clip(throttle, -ONE, ONE) if throttle == throttle else ZERO
    return steer, throttle


@inline
def accept_action(n: int, actions: Singles, rules: Rules, cars: Cars) -> tuple[Any, Any]:
    """The (steer, throttle) that reaches car `n` now: the newest action, or an older one through delay and jitter."""
    steer, throttle = pedals(actions[n, 0], actions[n, 1])
    queue, options = cars.queue, rules.options
    depth = queue.shape[1]
    if depth == 0:
        return steer, throttle
    age = options[L.OPTION_DELAY]
    if options[L.OPTION_JITTER] > 0:
        episode, step = np.int64(cars.integers[L.EPISODE, n]), np.int64(cars.integers[L.STEPS, n])
        draw = random_uniform(options[L.OPTION_SEED], n, episode, step, L.DRAW_JITTER, L.ITEM_0)
        age += int(draw * (options[L.OPTION_JITTER] + 1))
    for k in range(depth - 1, 0, -1):
        queue[n, k, 0], queue[n, k, 1] = queue[n, k - 1, 0], queue[n, k - 1, 1]
    queue[n, 0, 0], queue[n, 0, 1] = steer, throttle
    return queue[n, age, 0], queue[n, age, 1]


@inline
def load_lanes(start: int, stop: int, orders: Orders, rules: Rules, cars: Cars, lanes: Singles) -> None:
    """Copy cars `start` to `stop` (at most LANES) into the lanes, with the actions that reach them."""
    parameters, singles, numbers = cars.parameters, cars.singles, rules.numbers
    grass_grip, grass_drag = F32(numbers[L.NUMBER_GRASS_GRIP]), F32(numbers[L.NUMBER_GRASS_DRAG])
    for j in range(L.LANES):
        n = min(start + j, stop - 1)
        for k in range(PARAMETER_COUNT):
            lanes[k * L.LANES + j] = parameters[n, k]
        steer, throttle = ZERO, ZERO
        if start + j < stop and orders.modes[n] == L.STEP_CAR:
            steer, throttle = accept_action(n, orders.actions, rules, cars)
        surface = singles[L.SURFACE, n]
        lanes[D.LANE_STEER_COMMAND + j] = steer
        lanes[D.LANE_THROTTLE + j] = throttle
        lanes[D.LANE_GRIP + j] = ONE - surface * (ONE - grass_grip)
        lanes[D.LANE_RESISTANCE + j] = surface * grass_drag
        lanes[D.LANE_VX + j] = singles[L.VX, n]
        lanes[D.LANE_VY + j] = singles[L.VY, n]
        lanes[D.LANE_YAW_RATE + j] = singles[L.YAW_RATE, n]
        lanes[D.LANE_STEER + j] = singles[L.STEER, n]
        lanes[D.LANE_AX + j] = singles[L.LONGITUDINAL_ACCELERATION, n]
        lanes[D.LANE_AY + j] = ZERO
        lanes[D.LANE_TURNED + j] = ZERO
        lanes[D.LANE_MOVED_X + j] = ZERO
        lanes[D.LANE_MOVED_Y + j] = ZERO
        lanes[D.LANE_COS + j] = cosine(singles[L.HEADING, n])
        lanes[D.LANE_SIN + j] = sine(singles[L.HEADING, n])


@inline
def follow_plan(k: int, start: int, stop: int, orders: Orders, lanes: Singles) -> None:
    """Put the actions of substep `k` into the lanes of cars `start` to `stop`."""
    for n in range(start, stop):
        if orders.modes[n] == L.STEP_CAR:
            steer, throttle = pedals(orders.plan[n, k, 0], orders.plan[n, k, 1])
            lanes[D.LANE_STEER_COMMAND + n - start] = steer
            lanes[D.LANE_THROTTLE + n - start] = throttle


@inline
def store_lane(n: int, j: int, cars: Cars, lanes: Singles) -> None:
    """Copy lane `j` back to car `n`."""
    doubles, singles = cars.doubles, cars.singles
    doubles[L.X, n] += lanes[D.LANE_MOVED_X + j]
    doubles[L.Y, n] += lanes[D.LANE_MOVED_Y + j]
    singles[L.HEADING, n] = wrapped(singles[L.HEADING, n] + lanes[D.LANE_TURNED + j])
    singles[L.VX, n] = lanes[D.LANE_VX + j]
    singles[L.VY, n] = lanes[D.LANE_VY + j]
    singles[L.YAW_RATE, n] = lanes[D.LANE_YAW_RATE + j]
    singles[L.STEER, n] = lanes[D.LANE_STEER + j]
    singles[L.LONGITUDINAL_ACCELERATION, n] = lanes[D.LANE_AX + j]
    singles[L.LATERAL_ACCELERATION, n] = lanes[D.LANE_AY + j]


@inline
def drive(start: int, stop: int, orders: Orders, rules: Rules, cars: Cars, lanes: Singles, path: Singles) -> None:
    """The dynamics of cars `start` to `stop` (at most LANES); `path` gets the metres moved after each substep."""
    substeps = rules.options[L.OPTION_SUBSTEPS]
    h = F32(rules.numbers[L.NUMBER_TIME_STEP] / substeps)
    load_lanes(start, stop, orders, rules, cars, lanes)
    for j in range(L.LANES):
        path[0, 0, j] = ZERO
        path[1, 0, j] = ZERO
    reverse = F32(rules.options[L.OPTION_REVERSE])
    is_planned = orders.plan.shape[0] > 0
    for k in range(substeps):
        if is_planned:
            follow_plan(k, start, stop, orders, lanes)
        D.substep(lanes, h, reverse)
        for j in range(L.LANES):
            path[0, k + 1, j] = lanes[D.LANE_MOVED_X + j]
            path[1, k + 1, j] = lanes[D.LANE_MOVED_Y + j]
    for n in range(start, stop):
        j = n - start
        if orders.modes[n] != L.STEP_CAR:
            continue
        for flag in (L.LAP_COMPLETED, L.LAP_REJECTED, L.COLLIDED, L.TOUCHED_CAR, L.CUT):
            cars.flags[flag, n] = False
        cars.singles[L.IMPACT, n] = ZERO
        cars.singles[L.APPLIED_STEER, n] = lanes[D.LANE_STEER_COMMAND + j]
        cars.singles[L.APPLIED_THROTTLE, n] = lanes[D.LANE_THROTTLE + j]
        cars.integers[L.STEPS, n] += 1
        if cars.flags[L.CRASHED, n]:
            for k in range(substeps + 1):
                path[0, k, j] = path[1, k, j] = ZERO
        else:
            store_lane(n, j, cars, lanes)


@part
def meet_obstacles(n: int, solid: bool, track: Doubles, obstacles: Singles, cars: Cars) -> bool:
    """Whether car `n` touches any obstacle of its track."""
    touched = False
    doubles = cars.doubles
    start = int(track[L.TRACK_FIRST_OBSTACLE])
    size = cars.parameters[n, LENGTH]
    for row in range(start, start + int(track[L.TRACK_OBSTACLES])):
        radius = obstacles[row, 2]
        dx, dy = obstacles[row, 0] - doubles[L.X, n], obstacles[row, 1] - doubles[L.Y, n]
        apart = abs(along_lap(obstacles[row, 3] - doubles[L.S, n], track[L.TRACK_LENGTH]))
        if dx * dx + dy * dy < (size + radius) ** 2 and apart < 10.0 * (size + radius):
            hit = hit_obstacle(n, obstacles[row, 0], obstacles[row, 1], radius, solid, cars)
            touched = touched or hit
    return touched


@inline
def shift_gears(n: int, cars: Cars) -> None:
    """Gear and engine speed that go with the road speed; telemetry only."""
    speed = cars.singles[L.VX, n] * cars.parameters[n, GEAR_SCALE]
    gear = max(cars.integers[L.GEAR, n], 1)
    rate = 60.0 * abs(speed) / TYRE_CIRCUMFERENCE
    while gear < RATIOS.shape[0] and rate / RATIOS[gear - 1] > SHIFT_UP_RPM:
        gear += 1
    while gear > 1 and rate / RATIOS[gear - 2] < SHIFT_DOWN_RPM:
        gear -= 1
    cars.singles[L.RPM, n] = rate / RATIOS[gear - 1]
    cars.integers[L.GEAR, n] = gear if speed > -0.1 else 0


@inline
def find_place(
    n: int, moved: float, track: Doubles, rules: Rules, cars: Cars, road: Singles, worst: Doubles
) -> tuple[int, float, float, float, float, int]:
    """(road index, fraction, lateral m, left and right width m, corners beyond the edge) of car `n` after a step.

    A wall pushes the car back first. The widths are those where the car was before that.
    """
    doubles, singles, options = cars.doubles, cars.singles, rules.options
    first, count, spacing = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS]), track[L.TRACK_SPACING]
    half_length, half_width = 0.5 * cars.parameters[n, LENGTH], 0.5 * cars.parameters[n, WIDTH]
    reach = 2 + int(3.0 * moved / spacing)
    index, fraction, lateral = locate(
        road, first, count, np.int64(cars.integers[L.INDEX, n]), doubles[L.X, n], doubles[L.Y, n], reach
    )
    left = between(road, first, count, index, fraction, L.ROAD_LEFT)
    right = between(road, first, count, index, fraction, L.ROAD_RIGHT)
    corners = 0
    if max(lateral - left, -lateral - right) > -1.1 * (half_length + half_width):
        corners = corners_beyond(
            road, first, count, index, spacing, doubles[L.X, n], doubles[L.Y, n], singles[L.HEADING, n],
            half_length, half_width, worst,
        )  # fmt: skip
        if corners > 0 and options[L.OPTION_EDGE] == L.EDGE_WALL:
            hit_fixed(n, worst[3], worst[4], worst[1], worst[2], worst[0], cars)
            cars.flags[L.COLLIDED, n] = True
            index, fraction, lateral = locate(road, first, count, index, doubles[L.X, n], doubles[L.Y, n], reach)
            corners = 0
    return index, fraction, lateral, left, right, corners


@inline
def settle(
    n: int,
    lane: int,
    rules: Rules,
    cars: Cars,
    roads: Roads,
    laps: Laps,
    before: Doubles,
    path: Singles,
    worst: Doubles,
) -> None:
    """After the dynamics of car `n`: place on the road, edges, obstacles, laps, gears."""
    options, road, track = rules.options, roads.points, roads.tracks[cars.integers[L.TRACK, n]]
    doubles, singles, integers, flags = cars.doubles, cars.singles, cars.integers, cars.flags
    first, count = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS])
    spacing, length = track[L.TRACK_SPACING], track[L.TRACK_LENGTH]
    if options[L.OPTION_OBSTACLES] != L.OBSTACLES_GHOST and track[L.TRACK_OBSTACLES] > 0.0:
        solid = not flags[L.CRASHED, n]
        if meet_obstacles(n, solid, track, roads.obstacles, cars):
            flags[L.COLLIDED, n] = True
            if options[L.OPTION_OBSTACLES] == L.OBSTACLES_CRASH:
                flags[L.CRASHED, n] = True

    moved = abs(doubles[L.X, n] - before[0, lane]) + abs(doubles[L.Y, n] - before[1, lane])
    index, fraction, lateral, left, right, corners = find_place(n, moved, track, rules, cars, road, worst)
    if options[L.OPTION_EDGE] == L.EDGE_CRASH and corners >= options[L.OPTION_CRASH_CORNERS]:
        flags[L.CRASHED, n] = True
        flags[L.COLLIDED, n] = True
    if flags[L.CRASHED, n]:
        singles[L.VX, n], singles[L.VY, n], singles[L.YAW_RATE, n] = ZERO, ZERO, ZERO

    integers[L.WHEELS_OFF, n] = corners
    flags[L.OFF_TRACK, n] = corners == 4
    singles[L.SURFACE, n] = F32(0.25) * corners if options[L.OPTION_EDGE] == L.EDGE_GRASS else ZERO
    s = (index + fraction) * spacing
    gain = along_lap(s - doubles[L.S, n], length)
    doubles[L.S, n] = s
    integers[L.INDEX, n] = index
    singles[L.LATERAL, n] = lateral
    singles[L.LEFT_WIDTH, n], singles[L.RIGHT_WIDTH, n] = left, right
    singles[L.CURVATURE, n] = curvature_at(road, first, count, index, fraction)
    _, _, tx, ty = frame_at(road, first, count, index, fraction)
    cos, sin = cosine(singles[L.HEADING, n]), sine(singles[L.HEADING, n])
    straight, askew = cos * tx + sin * ty, sin * tx - cos * ty
    singles[L.HEADING_ERROR, n] = direction_angle(F32(straight), F32(askew))
    along = singles[L.VX, n] * straight - singles[L.VY, n] * askew
    flags[L.WRONG_WAY, n] = along < -WRONG_WAY_SPEED
    singles[L.PROGRESS_GAIN, n] = 0.0 if flags[L.OFF_TRACK, n] and gain > 0.0 else gain

    next_gate = integers[L.NEXT_GATE, n] * length / options[L.OPTION_GATES]
    if doubles[L.LAP_DISTANCE, n] + gain >= next_gate and gain > 0.0:
        half_length, half_width = 0.5 * cars.parameters[n, LENGTH], 0.5 * cars.parameters[n, WIDTH]
        reach_aside = abs(straight) * half_width + abs(askew) * half_length
        time_gates(n, gain, reach_aside, before[0, lane], before[1, lane], path, lane, road, track, rules, cars, laps)
    else:
        doubles[L.LAP_DISTANCE, n] += gain
    doubles[L.DISTANCE, n] += gain
    doubles[L.TIME, n] += rules.numbers[L.NUMBER_TIME_STEP]
    shift_gears(n, cars)


@inline
def block_size(group: int) -> int:
    """Cars in a block: as many whole groups as fill the lanes."""
    return L.LANES // group * group


@inline
def count_modes(start: int, stop: int, modes: Bytes) -> tuple[int, int]:
    """(cars to step, cars to reset) of the cars `start` to `stop`."""
    steps = resets = 0
    for n in range(start, stop):
        steps += 1 if modes[n] == L.STEP_CAR else 0
        resets += 1 if modes[n] == L.RESET_CAR else 0
    return steps, resets


@inline
def step_block(
    start: int, stop: int, orders: Orders, rules: Rules, cars: Cars, roads: Roads, laps: Laps, scratch: Scratch
) -> None:
    """Dynamics, contact and lap timing of the cars `start` to `stop` that are to be stepped."""
    before, group = scratch.before, rules.options[L.OPTION_GROUP]
    for n in range(start, stop):
        before[0, n - start], before[1, n - start] = cars.doubles[L.X, n], cars.doubles[L.Y, n]
    drive(start, stop, orders, rules, cars, scratch.lanes, scratch.path)
    if group > 1 and rules.options[L.OPTION_CONTACT] > 0:
        for leader in range(start, stop, group):
            touch_group(leader, leader + group, orders.modes, cars)
    for n in range(start, stop):
        if orders.modes[n] == L.STEP_CAR:
            settle(n, n - start, rules, cars, roads, laps, before, scratch.path, scratch.worst)


@kernel()
def advance(
    progress: Any, chunk: int, count: int,
    orders: Orders, rules: Rules, cars: Cars, roads: Roads, laps: Laps, sensors: Sensors,
    episodes: Episodes, results: Results,
) -> None:  # fmt: skip
    """Step, reset or skip cars, `chunk` at a time until all `count` are taken, as `orders.modes` says.

    A block whose `episodes` restart goes round twice: cars whose episodes ended in it begin anew.
    """
    modes, block = orders.modes, block_size(rules.options[L.OPTION_GROUP])
    scratch = Scratch(
        lanes=np.empty(D.LANE_ROWS * L.LANES, np.float32),
        path=np.empty((2, rules.options[L.OPTION_SUBSTEPS] + 1, L.LANES), np.float32),
        before=np.empty((2, L.LANES)),
        worst=np.empty(5),
        rays=sensors.directions.copy(),
        values=np.empty(max(sensors.course.shape[2], 16), np.float32),
    )
    first = add_atomically(progress, TAKEN, chunk)
    while first < count:
        last = min(first + chunk, count)
        for start in range(first, last, block):
            stop = min(start + block, last)
            is_unfinished = True
            while is_unfinished:
                steps, resets = count_modes(start, stop, modes)
                if steps > 0:
                    step_block(start, stop, orders, rules, cars, roads, laps, scratch)
                if resets > 0:
                    for n in range(start, stop):
                        if modes[n] == L.RESET_CAR:
                            begin(n, orders, rules, cars, roads, laps)
                for n in range(start, stop):
                    if modes[n] != L.SKIP_CAR:
                        fresh = modes[n] == L.RESET_CAR
                        sense(n, fresh, rules, cars, roads, sensors, scratch.rays, scratch.values)
                is_unfinished = follow_episodes(start, stop, modes, rules, cars, roads, sensors, episodes, results)
        add_atomically(progress, DONE, last - first)
        first = add_atomically(progress, TAKEN, chunk)

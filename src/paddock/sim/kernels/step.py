"""One control step of the whole world in one launch: blocks of cars, each from action to reading.

Whole groups lie in one block, so cars that can meet are handled by one thread in a fixed order; results depend
neither on the number of threads nor on the other blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.sim.cars.car import (
    GEAR_RATIOS,
    PARAMETER_COUNT,
    PARAMETER_INDEX,
    SHIFT_DOWN_RPM,
    SHIFT_UP_RPM,
    TYRE_CIRCUMFERENCE,
)
from paddock.sim.kernels.compile import inline, kernel, part
from paddock.sim.kernels.contact import hit_fixed, hit_obstacle, touch_group
from paddock.sim.kernels.dynamics import (
    LANE_AX,
    LANE_AY,
    LANE_COS,
    LANE_GRIP,
    LANE_MOVED_X,
    LANE_MOVED_Y,
    LANE_RESISTANCE,
    LANE_ROWS,
    LANE_SIN,
    LANE_STEER,
    LANE_STEER_COMMAND,
    LANE_THROTTLE,
    LANE_TURNED,
    LANE_VX,
    LANE_VY,
    LANE_YAW_RATE,
    substep,
)
from paddock.sim.kernels.launch import DONE, TAKEN, add_atomically
from paddock.sim.kernels.math import ONE, ZERO, clip, cosine, direction_angle, random_uniform, sine, wrapped
from paddock.sim.kernels.reset import begin
from paddock.sim.kernels.road import between, corners_beyond, curvature_at, frame_at, locate
from paddock.sim.kernels.sensors import along_lap, sense
from paddock.sim.kernels.timing import judge
from paddock.sim.layout import (
    APPLIED_STEER,
    APPLIED_THROTTLE,
    COLLIDED,
    CRASHED,
    CURVATURE,
    CUT,
    DISTANCE,
    DRAW_JITTER,
    EDGE_CRASH,
    EDGE_GRASS,
    EDGE_WALL,
    EPISODE,
    GEAR,
    HEADING,
    HEADING_ERROR,
    IMPACT,
    INDEX,
    ITEM_0,
    LANES,
    LAP_COMPLETED,
    LAP_DISTANCE,
    LAP_REJECTED,
    LATERAL,
    LATERAL_ACCELERATION,
    LEFT_WIDTH,
    LONGITUDINAL_ACCELERATION,
    NEXT_GATE,
    NUMBER_GRASS_DRAG,
    NUMBER_GRASS_GRIP,
    NUMBER_TIME_STEP,
    OBSTACLES_CRASH,
    OBSTACLES_GHOST,
    OFF_TRACK,
    OPTION_CONTACT,
    OPTION_CRASH_CORNERS,
    OPTION_DELAY,
    OPTION_EDGE,
    OPTION_GATES,
    OPTION_GROUP,
    OPTION_JITTER,
    OPTION_OBSTACLES,
    OPTION_REVERSE,
    OPTION_SECTORS,
    OPTION_SEED,
    OPTION_SUBSTEPS,
    PROGRESS_GAIN,
    RESET_CAR,
    RIGHT_WIDTH,
    ROAD_LEFT,
    ROAD_RIGHT,
    RPM,
    SKIP_CAR,
    STEER,
    STEP_CAR,
    STEPS,
    SURFACE,
    TIME,
    TOUCHED_CAR,
    TRACK,
    TRACK_FIRST_OBSTACLE,
    TRACK_FIRST_POINT,
    TRACK_LENGTH,
    TRACK_OBSTACLES,
    TRACK_POINTS,
    TRACK_SPACING,
    VX,
    VY,
    WHEELS_OFF,
    WRONG_WAY,
    YAW_RATE,
    S,
    X,
    Y,
)

LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]
GEAR_SCALE = PARAMETER_INDEX["gear_scale"]
RATIOS = np.array(GEAR_RATIOS)
WRONG_WAY_SPEED = 0.5  # m/s against the lap's direction
F32 = np.float32


@inline
def accept_action(n: int, actions: Any, queue: Any, options: Any, integers: Any) -> tuple[Any, Any]:
    """The (steer, throttle) that reaches car `n` now: the newest action, or an older one through delay and jitter."""
    steer, throttle = actions[n, 0], actions[n, 1]
    steer = clip(steer, -ONE, ONE) if steer == steer else ZERO  # a NaN does nothing
    throttle = clip(throttle, -ONE, ONE) if throttle == throttle else ZERO
    depth = queue.shape[1]
    if depth == 0:
        return steer, throttle
    age = options[OPTION_DELAY]
    if options[OPTION_JITTER] > 0:
        draw = random_uniform(
            options[OPTION_SEED], n, np.int64(integers[EPISODE, n]), np.int64(integers[STEPS, n]), DRAW_JITTER, ITEM_0
        )
        age += int(draw * (options[OPTION_JITTER] + 1))
    for k in range(depth - 1, 0, -1):
        queue[n, k, 0], queue[n, k, 1] = queue[n, k - 1, 0], queue[n, k - 1, 1]
    queue[n, 0, 0], queue[n, 0, 1] = steer, throttle
    return queue[n, age, 0], queue[n, age, 1]


@inline
def drive(
    start: int, stop: int, modes: Any, actions: Any, queue: Any, options: Any, numbers: Any,
    parameters: Any, doubles: Any, singles: Any, integers: Any, flags: Any, lanes: Any, path: Any,
) -> None:  # fmt: skip
    """The dynamics of cars `start` to `stop` (at most LANES); `path` gets the metres moved after each substep."""
    substeps = options[OPTION_SUBSTEPS]
    h = F32(numbers[NUMBER_TIME_STEP] / substeps)
    grass_grip, grass_drag = F32(numbers[NUMBER_GRASS_GRIP]), F32(numbers[NUMBER_GRASS_DRAG])
    for j in range(LANES):
        n = min(start + j, stop - 1)
        for k in range(PARAMETER_COUNT):
            lanes[k * LANES + j] = parameters[n, k]
        steer, throttle = ZERO, ZERO
        if start + j < stop and modes[n] == STEP_CAR:
            steer, throttle = accept_action(n, actions, queue, options, integers)
        surface = singles[SURFACE, n]
        lanes[LANE_STEER_COMMAND + j] = steer
        lanes[LANE_THROTTLE + j] = throttle
        lanes[LANE_GRIP + j] = ONE - surface * (ONE - grass_grip)
        lanes[LANE_RESISTANCE + j] = surface * grass_drag
        lanes[LANE_VX + j] = singles[VX, n]
        lanes[LANE_VY + j] = singles[VY, n]
        lanes[LANE_YAW_RATE + j] = singles[YAW_RATE, n]
        lanes[LANE_STEER + j] = singles[STEER, n]
        lanes[LANE_AX + j] = singles[LONGITUDINAL_ACCELERATION, n]
        lanes[LANE_AY + j] = ZERO
        lanes[LANE_TURNED + j] = ZERO
        lanes[LANE_MOVED_X + j] = ZERO
        lanes[LANE_MOVED_Y + j] = ZERO
        lanes[LANE_COS + j] = cosine(singles[HEADING, n])
        lanes[LANE_SIN + j] = sine(singles[HEADING, n])
        path[0, 0, j] = ZERO
        path[1, 0, j] = ZERO
    reverse = F32(options[OPTION_REVERSE])
    for k in range(substeps):
        substep(lanes, h, reverse)
        for j in range(LANES):
            path[0, k + 1, j] = lanes[LANE_MOVED_X + j]
            path[1, k + 1, j] = lanes[LANE_MOVED_Y + j]
    for n in range(start, stop):
        j = n - start
        if modes[n] != STEP_CAR:
            continue
        for flag in (LAP_COMPLETED, LAP_REJECTED, COLLIDED, TOUCHED_CAR, CUT):
            flags[flag, n] = False
        singles[IMPACT, n] = ZERO
        singles[APPLIED_STEER, n] = lanes[LANE_STEER_COMMAND + j]
        singles[APPLIED_THROTTLE, n] = lanes[LANE_THROTTLE + j]
        integers[STEPS, n] += 1
        if flags[CRASHED, n]:
            for k in range(substeps + 1):
                path[0, k, j] = path[1, k, j] = ZERO
            continue
        doubles[X, n] += lanes[LANE_MOVED_X + j]
        doubles[Y, n] += lanes[LANE_MOVED_Y + j]
        singles[HEADING, n] = wrapped(singles[HEADING, n] + lanes[LANE_TURNED + j])
        singles[VX, n] = lanes[LANE_VX + j]
        singles[VY, n] = lanes[LANE_VY + j]
        singles[YAW_RATE, n] = lanes[LANE_YAW_RATE + j]
        singles[STEER, n] = lanes[LANE_STEER + j]
        singles[LONGITUDINAL_ACCELERATION, n] = lanes[LANE_AX + j]
        singles[LATERAL_ACCELERATION, n] = lanes[LANE_AY + j]


@part
def meet_obstacles(
    n: int, solid: bool, track: Any, obstacles: Any, parameters: Any, doubles: Any, singles: Any
) -> bool:
    """Whether car `n` touches any obstacle of its track."""
    touched = False
    start = int(track[TRACK_FIRST_OBSTACLE])
    size = parameters[n, LENGTH]
    for row in range(start, start + int(track[TRACK_OBSTACLES])):
        radius = obstacles[row, 2]
        dx, dy = obstacles[row, 0] - doubles[X, n], obstacles[row, 1] - doubles[Y, n]
        apart = abs(along_lap(obstacles[row, 3] - doubles[S, n], track[TRACK_LENGTH]))
        if dx * dx + dy * dy < (size + radius) ** 2 and apart < 10.0 * (size + radius):
            hit = hit_obstacle(n, obstacles[row, 0], obstacles[row, 1], radius, solid, parameters, doubles, singles)
            touched = touched or hit
    return touched


@inline
def shift_gears(n: int, parameters: Any, singles: Any, integers: Any) -> None:
    """Gear and engine speed that go with the road speed; telemetry only."""
    speed = singles[VX, n] * parameters[n, GEAR_SCALE]
    gear = max(integers[GEAR, n], 1)
    rate = 60.0 * abs(speed) / TYRE_CIRCUMFERENCE
    while gear < RATIOS.shape[0] and rate / RATIOS[gear - 1] > SHIFT_UP_RPM:
        gear += 1
    while gear > 1 and rate / RATIOS[gear - 2] < SHIFT_DOWN_RPM:
        gear -= 1
    singles[RPM, n] = rate / RATIOS[gear - 1]
    integers[GEAR, n] = gear if speed > -0.1 else 0


@inline
def settle(
    n: int, lane: int, before_x: float, before_y: float, options: Any, numbers: Any,
    parameters: Any, doubles: Any, singles: Any, integers: Any, flags: Any,
    tracks: Any, road: Any, obstacles: Any, path: Any, worst: Any,
    lap_times: Any, lap_kinds: Any, sector_times: Any,
) -> None:  # fmt: skip
    """After the dynamics of car `n`: place on the road, edges, obstacles, laps, gears."""
    track = tracks[integers[TRACK, n]]
    first, count = int(track[TRACK_FIRST_POINT]), int(track[TRACK_POINTS])
    spacing, length = track[TRACK_SPACING], track[TRACK_LENGTH]
    half_length, half_width = 0.5 * parameters[n, LENGTH], 0.5 * parameters[n, WIDTH]
    if options[OPTION_OBSTACLES] != OBSTACLES_GHOST and track[TRACK_OBSTACLES] > 0.0:
        solid = not flags[CRASHED, n]
        if meet_obstacles(n, solid, track, obstacles, parameters, doubles, singles):
            flags[COLLIDED, n] = True
            if options[OPTION_OBSTACLES] == OBSTACLES_CRASH:
                flags[CRASHED, n] = True

    moved = abs(doubles[X, n] - before_x) + abs(doubles[Y, n] - before_y)
    reach = 2 + int(3.0 * moved / spacing)
    index, fraction, lateral = locate(
        road, first, count, np.int64(integers[INDEX, n]), doubles[X, n], doubles[Y, n], reach
    )
    left = between(road, first, count, index, fraction, ROAD_LEFT)
    right = between(road, first, count, index, fraction, ROAD_RIGHT)
    corners = 0
    if max(lateral - left, -lateral - right) > -1.1 * (half_length + half_width):
        corners = corners_beyond(
            road, first, count, index, spacing, doubles[X, n], doubles[Y, n], singles[HEADING, n],
            half_length, half_width, worst,
        )  # fmt: skip
        if corners > 0 and options[OPTION_EDGE] == EDGE_WALL:
            hit_fixed(n, worst[3], worst[4], worst[1], worst[2], worst[0], parameters, doubles, singles)
            flags[COLLIDED, n] = True
            index, fraction, lateral = locate(road, first, count, index, doubles[X, n], doubles[Y, n], reach)
            corners = 0
    if options[OPTION_EDGE] == EDGE_CRASH and corners >= options[OPTION_CRASH_CORNERS]:
        flags[CRASHED, n] = True
        flags[COLLIDED, n] = True
    if flags[CRASHED, n]:
        singles[VX, n], singles[VY, n], singles[YAW_RATE, n] = ZERO, ZERO, ZERO

    integers[WHEELS_OFF, n] = corners
    flags[OFF_TRACK, n] = corners == 4
    singles[SURFACE, n] = F32(0.25) * corners if options[OPTION_EDGE] == EDGE_GRASS else ZERO
    s = (index + fraction) * spacing
    gain = along_lap(s - doubles[S, n], length)
    doubles[S, n] = s
    integers[INDEX, n] = index
    singles[LATERAL, n] = lateral
    singles[LEFT_WIDTH, n], singles[RIGHT_WIDTH, n] = left, right
    singles[CURVATURE, n] = curvature_at(road, first, count, index, fraction)
    _, _, tx, ty = frame_at(road, first, count, index, fraction)
    cos, sin = cosine(singles[HEADING, n]), sine(singles[HEADING, n])
    straight, askew = cos * tx + sin * ty, sin * tx - cos * ty
    singles[HEADING_ERROR, n] = direction_angle(F32(straight), F32(askew))
    along = singles[VX, n] * straight - singles[VY, n] * askew
    flags[WRONG_WAY, n] = along < -WRONG_WAY_SPEED
    singles[PROGRESS_GAIN, n] = 0.0 if flags[OFF_TRACK, n] and gain > 0.0 else gain
    next_gate = integers[NEXT_GATE, n] * length / options[OPTION_GATES]
    if doubles[LAP_DISTANCE, n] + gain >= next_gate and gain > 0.0:
        reach_aside = abs(straight) * half_width + abs(askew) * half_length
        judge(
            n, gain, numbers[NUMBER_TIME_STEP], options[OPTION_GATES], options[OPTION_SECTORS], reach_aside,
            before_x, before_y, path, lane, options[OPTION_SUBSTEPS], road, track,
            doubles, integers, flags, lap_times, lap_kinds, sector_times,
        )  # fmt: skip
    else:
        doubles[LAP_DISTANCE, n] += gain
    doubles[DISTANCE, n] += gain
    doubles[TIME, n] += numbers[NUMBER_TIME_STEP]
    shift_gears(n, parameters, singles, integers)


@inline
def block_size(group: int) -> int:
    """Cars in a block: as many whole groups as fill the lanes."""
    return LANES // group * group


@kernel()
def advance(
    progress: Any, chunk: int, count: int, modes: Any, actions: Any, starts: Any, options: Any, numbers: Any,
    ray_directions: Any, course_spreads: Any, telemetry_spreads: Any, random_fields: Any, random_bounds: Any,
    base_parameters: Any, parameters: Any, doubles: Any, singles: Any, integers: Any, flags: Any, queue: Any,
    tracks: Any, road: Any, ribbon: Any, node_of_point: Any, obstacles: Any,
    lap_times: Any, lap_kinds: Any, sector_times: Any,
    ray_readings: Any, course_readings: Any, telemetry_readings: Any,
) -> None:  # fmt: skip
    """Step, reset or skip cars, `chunk` at a time until all `count` are taken, as `modes` [N] says."""
    group = options[OPTION_GROUP]
    block = block_size(group)
    lanes = np.empty(LANE_ROWS * LANES, np.float32)
    path = np.empty((2, options[OPTION_SUBSTEPS] + 1, LANES), np.float32)
    before = np.empty((2, LANES))
    worst = np.empty(5)
    rays = ray_directions.copy()
    values = np.empty(max(course_readings.shape[2], 16), np.float32)
    first = add_atomically(progress, TAKEN, chunk)
    while first < count:
        last = min(first + chunk, count)
        for start in range(first, last, block):
            stop = min(start + block, last)
            steps = resets = 0
            for n in range(start, stop):
                steps += 1 if modes[n] == STEP_CAR else 0
                resets += 1 if modes[n] == RESET_CAR else 0
            if steps > 0:
                for n in range(start, stop):
                    before[0, n - start], before[1, n - start] = doubles[X, n], doubles[Y, n]
                drive(
                    start, stop, modes, actions, queue, options, numbers, parameters, doubles, singles, integers, flags,
                    lanes, path,
                )  # fmt: skip
                if group > 1 and options[OPTION_CONTACT] > 0:
                    for leader in range(start, stop, group):
                        touch_group(leader, leader + group, modes, parameters, doubles, singles, flags)
                for n in range(start, stop):
                    if modes[n] == STEP_CAR:
                        settle(
                            n, n - start, before[0, n - start], before[1, n - start], options, numbers,
                            parameters, doubles, singles, integers, flags, tracks, road, obstacles, path, worst,
                            lap_times, lap_kinds, sector_times,
                        )  # fmt: skip
            if resets > 0:
                for n in range(start, stop):
                    if modes[n] == RESET_CAR:
                        begin(
                            n, options, numbers, starts, random_fields, random_bounds, base_parameters, parameters,
                            tracks, road, obstacles, doubles, singles, integers, flags, queue,
                            lap_times, lap_kinds, sector_times,
                        )  # fmt: skip
            for n in range(start, stop):
                if modes[n] != SKIP_CAR:
                    sense(
                        n, modes[n] == RESET_CAR, options, numbers, course_spreads, telemetry_spreads,
                        parameters, doubles, singles, integers, flags, tracks, road, ribbon, node_of_point, obstacles,
                        rays, values, ray_readings, course_readings, telemetry_readings,
                    )  # fmt: skip
        add_atomically(progress, DONE, last - first)
        first = add_atomically(progress, TAKEN, chunk)

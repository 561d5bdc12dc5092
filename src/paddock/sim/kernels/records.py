"""What a launch is given, by name: NamedTuples of arrays, which numba compiles as if each array were an argument.

Rows and columns are named in `layout`. N is the number of cars.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int32]
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]


class Orders(NamedTuple):
    """What this launch does with each car."""

    modes: Bytes  # [N] SKIP_CAR, STEP_CAR or RESET_CAR
    actions: Singles  # [N, 2] steer, throttle
    starts: Doubles  # [N, 4] s m, lateral m, heading error rad, speed m/s of a reset; NaN: as the settings say
    plan: Singles  # [N, substeps, 2] actions of every substep in place of `actions`; [0, 0, 2] where there is none


class Rules(NamedTuple):
    """The settings of the world."""

    options: Longs  # [OPTION_COUNT]
    numbers: Doubles  # [NUMBER_COUNT]
    random_fields: Longs  # [F] columns of the parameters that a reset randomises
    random_bounds: Doubles  # [F, 2] the bounds of their factors


class Cars(NamedTuple):
    """Parameters and state of every car."""

    parameters: Singles  # [N, P]
    base_parameters: Singles  # [N, P] before randomisation
    doubles: Doubles  # [DOUBLE_ROWS, N]
    singles: Singles  # [SINGLE_ROWS, N]
    integers: Integers  # [INTEGER_ROWS, N]
    flags: Flags  # [FLAG_ROWS, N]
    queue: Singles  # [N, delay, 2] actions on their way, newest first


class Roads(NamedTuple):
    """All tracks of a world, one after the other."""

    tracks: Doubles  # [T, TRACK_COLUMNS]
    points: Singles  # [points, ROAD_COLUMNS]
    ribbon: Singles  # [nodes, RIBBON_COLUMNS]
    node_of_point: Integers  # [points] the node at or before a point, counted within its track
    obstacles: Singles  # [obstacles, 4] x m, y m, radius m, s m


class Laps(NamedTuple):
    """The lap times of every car: a ring in which lap k lies at k % lap_history."""

    times: Doubles  # [N, lap_history] s
    kinds: NDArray[np.int8]  # [N, lap_history]
    sectors: Doubles  # [N, 2, sectors] s, of this lap and of the last counted one


class Sensors(NamedTuple):
    """Rays, course and telemetry: how they are taken, and their readings [N, depth, size], newest first."""

    directions: Singles  # [3 * padded rays] direction x, direction y, room for distances
    course_noise: Doubles  # [2, size] standard deviations, and shares of the value added to them
    telemetry_noise: Doubles  # [2, size]
    rays: Singles
    course: Singles
    telemetry: Singles


class Camera(NamedTuple):
    """The camera and its pictures."""

    lens: Doubles  # [12]
    palette: Bytes  # [10, channels]
    backdrop: Bytes  # [pixels * channels] what every picture begins as
    noise: float  # grey levels
    dropout: float  # share of the pictures that are lost
    pictures: Bytes  # [N, depth, pixels * channels], newest first


class Episodes(NamedTuple):
    """The episodes of a launch: what is paid, what ends them, what agents see, and what is remembered of them.

    E environments, each the first of a group of cars; K reward terms; L last actions of A numbers.
    """

    options: Longs  # [EPISODE_COUNT]
    step_time: float  # s
    off_line: float  # m from the centreline at which an episode ends; infinity: none
    terms: Longs  # [K] TERM_...
    term_options: Doubles  # [K] full speed m/s of `speed`, floor of `apex`, margin m of `wheels_off`
    weights: Doubles  # [K]
    potential: Singles  # [K, N] of the last step
    potential_known: Flags  # [K, N]
    metres: Doubles  # [2, N] net, of the episode: now, and at most
    counts: Integers  # [3, N] steps, steps without progress, counted laps of the episode
    reference_rows: Longs  # [T] the first row of a track in `reference`
    reference: Singles  # [points, 3] offset m, speed m/s, curvature 1/m
    commands: Singles  # [2, N, 2] steer and throttle before and now
    actions: Singles  # [E, A] what is shown of this step's actions
    last_actions: Singles  # [E, L, A] newest first
    returns: Doubles  # [1 + K, E] of the episode: the reward, and what each term gave of it
    parts: Longs  # [parts, 4] PART_..., first reading, first column, size
    scale: Singles  # [size of an observation]
    low: Singles  # [size of an observation]


class Results(NamedTuple):
    """What became of the cars in a step, before any began anew. Rows are named in `layout`."""

    doubles: Doubles  # [RESULT_DOUBLES, N]
    singles: Singles  # [RESULT_TERMS + K, N]
    integers: Integers  # [RESULT_INTEGERS, N]
    flags: Flags  # [RESULT_FLAGS, N]
    observation: Singles  # [E, size]
    final_observation: Singles  # [E, size] rows of episodes that ended
    final_returns: Doubles  # [1 + K, E] columns of episodes that ended


class Scratch(NamedTuple):
    """Memory of one thread of a step; B is LANES."""

    lanes: Singles  # [LANE_ROWS * B]
    path: Singles  # [2, substeps + 1, B] m moved since the step began
    before: Doubles  # [2, B] x, y m at which the step began
    worst: Doubles  # [5] see `corners_beyond`
    rays: Singles  # a copy of `Sensors.directions`, the distances filled in
    values: Singles  # one reading of a sensor before its noise


class Canvas(NamedTuple):
    """One picture while it is drawn, and the polygon that is drawn next."""

    lens: Doubles  # [12]
    palette: Bytes  # [10, channels]
    image: Bytes  # [pixels * channels]
    points: Doubles  # [MOST_POINTS, 3] the polygon: m forward, left, up from the foot of the camera
    clipped: Doubles  # [MOST_POINTS, 3] its part in front of the lens
    screen: Doubles  # [MOST_POINTS, 2] pixels

"""Where each number of a car lives: the rows of the world's state arrays and the columns of its track tables.

State arrays are [rows, N], one row a quantity, so that a row is a contiguous array over the cars.
"""

from __future__ import annotations

import numpy as np


def _names(first: str, last: str) -> tuple[str, ...]:
    """The constants from `first` to `last`, in the order of their definition and in lower case: the rows' names."""
    constants = list(globals())
    return tuple(name.lower() for name in constants[constants.index(first) : constants.index(last) + 1])


# float64 rows
(
    X, Y, S, TIME, DISTANCE, LAP_DISTANCE, LAP_ORIGIN, LAP_START, SECTOR_START, LAST_LAP_TIME, BEST_LAP_TIME,
) = range(11)  # fmt: skip
DOUBLE_NAMES = _names("X", "BEST_LAP_TIME")
DOUBLE_ROWS = len(DOUBLE_NAMES)

# float32 rows
(
    HEADING, VX, VY, YAW_RATE, STEER, LONGITUDINAL_ACCELERATION, LATERAL_ACCELERATION,
    LATERAL, HEADING_ERROR, CURVATURE, LEFT_WIDTH, RIGHT_WIDTH, PROGRESS_GAIN, RPM, SURFACE,
    APPLIED_STEER, APPLIED_THROTTLE, IMPACT,
) = range(18)  # fmt: skip
SINGLE_NAMES = _names("HEADING", "IMPACT")
SINGLE_ROWS = len(SINGLE_NAMES)

# int32 rows
(
    TRACK, INDEX, GEAR, NEXT_GATE, LAP_COUNT, LAP_KIND, STEPS, EPISODE, WHEELS_OFF,
) = range(9)  # fmt: skip
INTEGER_NAMES = _names("TRACK", "WHEELS_OFF")
INTEGER_ROWS = len(INTEGER_NAMES)

# bool rows
(
    LAP_COMPLETED, LAP_REJECTED, LAP_VALID, OFF_TRACK, COLLIDED, TOUCHED_CAR, CRASHED, WRONG_WAY, CUT, GHOST,
) = range(10)  # fmt: skip
FLAG_NAMES = _names("LAP_COMPLETED", "GHOST")
FLAG_ROWS = len(FLAG_NAMES)

# Kinds of lap: an out lap is driven to the line and never timed.
OUT_LAP, STANDING_LAP, FLYING_LAP = 0, 1, 2

# What `advance` does with a car.
SKIP_CAR, STEP_CAR, RESET_CAR = 0, 1, 2

# Numbers that kernels pass as arguments are int64 rather than plain: numba would compile a callee anew for every plain
# number it is called with.

# Columns of the road table, float32 [points of all tracks, 8]: x m, y m, tangent x, tangent y, left width m,
# right width m, curvature 1/m, unused.
ROAD_X, ROAD_Y, ROAD_TX, ROAD_TY, ROAD_LEFT, ROAD_RIGHT, ROAD_CURVATURE = map(np.int64, range(7))
ROAD_COLUMNS = 8

# Columns of the ribbon table, float32 [nodes of all tracks, 4]: left edge x, y, right edge x, y, in m. A ribbon is
# the road's edges with the points left out that a straight line predicts within a tolerance.
RIBBON_LEFT, RIBBON_RIGHT = map(np.int64, (0, 2))
RIBBON_COLUMNS = 4

# Columns of the track table, float64 [tracks, 8].
TRACK_POINTS, TRACK_FIRST_POINT, TRACK_NODES, TRACK_FIRST_NODE, TRACK_LENGTH, TRACK_SPACING = range(6)
TRACK_OBSTACLES, TRACK_FIRST_OBSTACLE = 6, 7
TRACK_COLUMNS = 8

# Obstacle table, float32 [obstacles of all tracks, 4]: x m, y m, radius m, s m.

# Integer options of the kernels, int64 [OPTION_COUNT]. `_` is a place that no option uses: states saved by older
# versions have it.
(
    OPTION_SUBSTEPS, OPTION_EDGE, OPTION_CRASH_CORNERS, OPTION_OBSTACLES, OPTION_REVERSE, OPTION_GATES,
    OPTION_SECTORS, OPTION_LAPS_FROM_START, OPTION_DELAY, OPTION_JITTER, OPTION_GROUP, OPTION_CONTACT,
    OPTION_START, OPTION_RANDOM_TRACK, OPTION_SEED, OPTION_RAYS, _, OPTION_COURSE,
    OPTION_COURSE_KIND, OPTION_TELEMETRY,
) = range(20)  # fmt: skip
OPTION_COUNT = OPTION_TELEMETRY + 1

# Number options of the kernels, float64 [NUMBER_COUNT].
(
    NUMBER_TIME_STEP, NUMBER_GRASS_GRIP, NUMBER_GRASS_DRAG, NUMBER_START_AT, NUMBER_START_LATERAL,
    NUMBER_START_HEADING, NUMBER_SPEED_LOW, NUMBER_SPEED_HIGH, NUMBER_RAY_RANGE, NUMBER_RAY_MOUNT,
    NUMBER_RAY_NOISE, NUMBER_RAY_DROPOUT, NUMBER_COURSE_HORIZON, NUMBER_COURSE_SPEED, NUMBER_COURSE_DROPOUT,
    NUMBER_TELEMETRY_DROPOUT,
) = range(16)  # fmt: skip
NUMBER_COUNT = NUMBER_TELEMETRY_DROPOUT + 1

EDGE_GRASS, EDGE_WALL, EDGE_CRASH = 0, 1, 2
OBSTACLES_SOLID, OBSTACLES_CRASH, OBSTACLES_GHOST = 0, 1, 2
START_RANDOM, START_GRID, START_FLYING = 0, 1, 2
COURSE_POINTS, COURSE_CURVATURE = 0, 1

# Purposes of a random draw: part of the key, so that no two uses ever share a number.
(
    DRAW_JITTER, DRAW_START, DRAW_CAR, DRAW_TRACK, DRAW_RAYS, DRAW_COURSE, DRAW_TELEMETRY, DRAW_CAMERA,
) = map(np.int64, range(8))  # fmt: skip
NO_STEP = ITEM_0 = np.int64(0)
ITEM_1 = np.int64(1)

# What a launch does with the episodes of the cars it steps, int64 [EPISODE_COUNT]. SCORES: rewards and ends; OBSERVES:
# one vector of readings a car; RESTARTS: what ended begins anew, in groups of one car; SHIFTS: actions are remembered;
# LIMIT steps of an episode. Ends: IDLE steps without progress, counted LAPS, a COLLISION, OFF_TRACK. 0 is none.
(
    EPISODE_SCORES, EPISODE_OBSERVES, EPISODE_RESTARTS, EPISODE_SHIFTS, EPISODE_LIMIT, EPISODE_IDLE, EPISODE_LAPS,
    EPISODE_COLLISION, EPISODE_OFF_TRACK,
) = range(9)  # fmt: skip
EPISODE_COUNT = EPISODE_OFF_TRACK + 1

# Terms of a reward; OWN_TERM is a function of a person's own, which no kernel knows.
OWN_TERM = -1
(
    TERM_PROGRESS, TERM_FINISH, TERM_SPEED, TERM_COLLISION, TERM_OFF_TRACK, TERM_WHEELS_OFF, TERM_SMOOTHNESS,
    TERM_FAILURE, TERM_TIME_PRESSURE, TERM_APEX, TERM_SPEED_FOR_CURVATURE,
) = range(11)  # fmt: skip
TERM_NAMES = tuple(name.removeprefix("term_") for name in _names("TERM_PROGRESS", "TERM_SPEED_FOR_CURVATURE"))

# Where the parts of an observation come from.
PART_TELEMETRY, PART_RAYS, PART_COURSE, PART_ACTIONS, PART_PROGRESS = range(5)

# Rows of the results of a step [rows, N]: float64, float32 (the terms follow), int32, bool.
RESULT_LAP_TIME, RESULT_PROGRESS, RESULT_BEST_LAP_TIME = range(3)
RESULT_REWARD, RESULT_SPEED, RESULT_TERMS = range(3)
RESULT_STEPS, RESULT_LAPS = range(2)
(
    RESULT_TERMINATED, RESULT_TRUNCATED, RESULT_DONE, RESULT_LAP_COMPLETED, RESULT_OFF_TRACK, RESULT_COLLIDED,
) = range(6)  # fmt: skip
RESULT_DOUBLES, RESULT_INTEGERS, RESULT_FLAGS = 3, 2, 6

LANES = 32  # cars whose dynamics are computed together, in vector registers


def row_stride(count: int) -> int:
    """Elements per row for `count` cars. An odd number of 128-byte lines, so that rows do not share cache sets."""
    lines = -(-count // 32)
    return 32 * (lines | 1)


def rows(count: int, cars: int, dtype: type) -> np.ndarray:
    """A zeroed state array [count, cars], padded in memory as `row_stride` says."""
    return np.zeros((count, row_stride(cars)), dtype)

"""Tracks, settings and sensors as the flat tables that the kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.sim import layout
from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.road import ribbon_nodes
from paddock.sim.settings import (
    COURSE_KINDS,
    EDGES,
    OBSTACLE_EFFECTS,
    STARTS,
    TELEMETRY,
    RaySettings,
    WorldSettings,
)
from paddock.sim.tracks.track import Track

RIBBON_TOLERANCE = 0.002  # of the mean road width: how far the edges seen by sensors may lie from the track's


@dataclass(frozen=True)
class TrackTables:
    """All tracks of a world, one after the other; see `layout` for the columns."""

    tracks: NDArray[np.float64]  # [T, TRACK_COLUMNS]
    road: NDArray[np.float32]  # [points, ROAD_COLUMNS]
    ribbon: NDArray[np.float32]  # [nodes, RIBBON_COLUMNS]
    node_of_point: NDArray[np.int32]  # [points] the node at or before a point, counted within its track
    obstacles: NDArray[np.float32]  # [obstacles, 4]


def build_track_tables(tracks: Sequence[Track]) -> TrackTables:
    """Concatenate the tracks."""
    if not tracks:
        raise InputError("a world needs at least one track; none was given.")
    info = np.zeros((len(tracks), layout.TRACK_COLUMNS))
    roads, ribbons, nodes_of_points, obstacles = [], [], [], []
    points = nodes = blocks = 0
    for row, track in enumerate(tracks):
        ribbon, node_of_point = _ribbon(track)
        placed = _placed_obstacles(track)
        info[row] = (
            len(track.x), points, len(ribbon), nodes, track.length, track.length / len(track.x), len(placed), blocks,
        )  # fmt: skip
        roads.append(_road(track))
        ribbons.append(ribbon)
        nodes_of_points.append(node_of_point)
        obstacles.append(placed)
        points, nodes, blocks = points + len(track.x), nodes + len(ribbon), blocks + len(placed)
    return TrackTables(
        tracks=info,
        road=np.concatenate(roads),
        ribbon=np.concatenate(ribbons),
        node_of_point=np.concatenate(nodes_of_points),
        obstacles=np.concatenate(obstacles),
    )


def _road(track: Track) -> NDArray[np.float32]:
    table = np.zeros((len(track.x), layout.ROAD_COLUMNS), np.float32)
    table[:, layout.ROAD_X], table[:, layout.ROAD_Y] = track.x, track.y
    table[:, layout.ROAD_TX], table[:, layout.ROAD_TY] = np.cos(track.heading), np.sin(track.heading)
    table[:, layout.ROAD_LEFT], table[:, layout.ROAD_RIGHT] = track.left_width, track.right_width
    table[:, layout.ROAD_CURVATURE] = track.curvature
    return table


def _ribbon(track: Track) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    left, right = np.ascontiguousarray(track.left_edge), np.ascontiguousarray(track.right_edge)
    tolerance = RIBBON_TOLERANCE * float(np.mean(track.left_width + track.right_width))
    kept = ribbon_nodes(left, right, tolerance)
    ribbon = np.concatenate([left[kept], right[kept]], axis=1).astype(np.float32)
    node_of_point = np.searchsorted(kept, np.arange(len(track.x)), side="right") - 1
    return ribbon, node_of_point.astype(np.int32)


def _placed_obstacles(track: Track) -> NDArray[np.float32]:
    placed = np.zeros((len(track.obstacles), 4), np.float32)
    for row, (x, y, radius) in enumerate(track.obstacles):
        nearest = int(np.argmin((track.x - x) ** 2 + (track.y - y) ** 2))
        placed[row] = x, y, radius, nearest * track.length / len(track.x)
    return placed


def build_options(settings: WorldSettings, seed: int) -> NDArray[np.int64]:
    """The integer options, int64 [OPTION_COUNT]."""
    options = np.zeros(layout.OPTION_COUNT, np.int64)
    rays, course = settings.rays, settings.course
    values = {
        layout.OPTION_SUBSTEPS: settings.substeps,
        layout.OPTION_EDGE: EDGES.index(settings.edge),
        layout.OPTION_CRASH_CORNERS: settings.crash_corners,
        layout.OPTION_OBSTACLES: OBSTACLE_EFFECTS.index(settings.obstacles),
        layout.OPTION_REVERSE: settings.allow_reverse,
        layout.OPTION_GATES: settings.gates,
        layout.OPTION_SECTORS: settings.sectors,
        layout.OPTION_LAPS_FROM_START: settings.laps_from == "start",
        layout.OPTION_DELAY: settings.action_delay,
        layout.OPTION_JITTER: settings.action_jitter,
        layout.OPTION_GROUP: settings.group_size,
        layout.OPTION_CONTACT: settings.contact,
        layout.OPTION_START: STARTS.index(settings.start.place),
        layout.OPTION_RANDOM_TRACK: settings.random_track,
        layout.OPTION_SEED: seed,
        layout.OPTION_RAYS: rays.ray_count if rays else 0,
        layout.OPTION_COURSE: course.count if course else 0,
        layout.OPTION_COURSE_KIND: COURSE_KINDS.index(course.kind) if course else 0,
        layout.OPTION_TELEMETRY: settings.telemetry is not None,
    }
    for index, value in values.items():
        options[index] = value
    return options


def build_numbers(settings: WorldSettings) -> NDArray[np.float64]:
    """The number options, float64 [NUMBER_COUNT]."""
    numbers = np.zeros(layout.NUMBER_COUNT)
    start, rays, course, telemetry = settings.start, settings.rays, settings.course, settings.telemetry
    values: dict[int, float] = {
        layout.NUMBER_TIME_STEP: settings.time_step,
        layout.NUMBER_GRASS_GRIP: settings.grass_grip,
        layout.NUMBER_GRASS_DRAG: settings.grass_drag,
        layout.NUMBER_START_AT: start.at,
        layout.NUMBER_START_LATERAL: start.lateral,
        layout.NUMBER_START_HEADING: start.heading,
        layout.NUMBER_SPEED_LOW: start.speed[0],
        layout.NUMBER_SPEED_HIGH: start.speed[1],
    }
    if rays:
        values[layout.NUMBER_RAY_RANGE], values[layout.NUMBER_RAY_MOUNT] = rays.range, rays.mount
        values[layout.NUMBER_RAY_NOISE] = rays.imperfection.noise
    if course:
        values[layout.NUMBER_COURSE_HORIZON] = course.horizon
        values[layout.NUMBER_COURSE_SPEED] = course.least_speed
    for sensor, dropout in (
        (rays, layout.NUMBER_RAY_DROPOUT),
        (course, layout.NUMBER_COURSE_DROPOUT),
        (telemetry, layout.NUMBER_TELEMETRY_DROPOUT),
    ):
        values[dropout] = sensor.imperfection.dropout if sensor else 0.0
    for index, value in values.items():
        numbers[index] = value
    return numbers


def build_spreads(settings: WorldSettings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Noise of course and telemetry, each [2, size]: standard deviations, and shares of the value added to them."""
    course, telemetry = settings.course, settings.telemetry
    course_spreads = np.zeros((2, course.count * course.channels if course else 0))
    telemetry_spreads = np.zeros((2, len(TELEMETRY)))
    if course:
        course_spreads[0] = course.imperfection.noise
    if telemetry:
        for name, full in telemetry.full.items():
            column = TELEMETRY.index(name)
            telemetry_spreads[:, column] = telemetry.imperfection.noise * full, telemetry.relative_noise
    return course_spreads, telemetry_spreads


def build_ray_directions(rays: RaySettings | None) -> NDArray[np.float32]:
    """Flat [3 * padded]: direction x, direction y, room for distances. Padding rays repeat the first."""
    if rays is None:
        return np.zeros(0, np.float32)
    angles = rays.ray_angles()
    padded = -(-len(angles) // 8) * 8
    angles = np.concatenate([angles, np.full(padded - len(angles), angles[0])])
    return np.concatenate([np.cos(angles), np.sin(angles), np.zeros(padded)]).astype(np.float32)


def build_randomisation(settings: WorldSettings) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(parameter columns [F], factor bounds [F, 2]) of the domain randomisation."""
    columns = np.array([PARAMETER_INDEX[name] for name in settings.randomise], np.int64)
    bounds = np.array(list(settings.randomise.values()), np.float64).reshape(-1, 2)
    return columns, bounds


def empty_readings(sensor: Any, cars: int, size: int, dtype: type = np.float32) -> NDArray[Any]:
    """Room for the readings of a sensor, [cars, latency + history, size]; no size where there is no sensor."""
    if sensor is None:
        return np.zeros((cars, 1, 0), dtype)
    return np.zeros((cars, sensor.imperfection.latency + sensor.history, size), dtype)

"""Tracks, settings, cars and sensors as the flat tables of `kernels.records`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.sim import layout
from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.records import Camera, Cars, Episodes, Laps, Orders, Results, Roads, Rules, Sensors
from paddock.sim.kernels.road import ribbon_nodes
from paddock.sim.lens import build_backdrop, build_lens, build_palette
from paddock.sim.settings import (
    COURSE_KINDS,
    EDGES,
    OBSTACLE_EFFECTS,
    STARTS,
    TELEMETRY,
    CameraSettings,
    RaySettings,
    WorldSettings,
)
from paddock.sim.tracks.track import Track

RIBBON_TOLERANCE = 0.002  # of the mean road width: how far the edges seen by sensors may lie from the track's


def build_roads(tracks: Sequence[Track]) -> Roads:
    """The tables of all tracks."""
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
    return Roads(
        tracks=info,
        points=np.concatenate(roads),
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
    tolerance = RIBBON_TOLERANCE * track.mean_width
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


def build_rules(settings: WorldSettings, seed: int) -> Rules:
    """The settings as the kernels read them."""
    columns = np.array([PARAMETER_INDEX[name] for name in settings.randomise], np.int64)
    bounds = np.array(list(settings.randomise.values()), np.float64).reshape(-1, 2)
    return Rules(_options(settings, seed), _numbers(settings), random_fields=columns, random_bounds=bounds)


def _options(settings: WorldSettings, seed: int) -> NDArray[np.int64]:
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


def _numbers(settings: WorldSettings) -> NDArray[np.float64]:
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


def build_cars(settings: WorldSettings, parameters: NDArray[np.float32]) -> Cars:
    """Zeroed state for cars of these parameters [N, P], which the kernels may write to."""
    cars, delay = len(parameters), settings.action_delay + settings.action_jitter
    return Cars(
        parameters=parameters,
        base_parameters=parameters.copy(),
        doubles=layout.rows(layout.DOUBLE_ROWS, cars, np.float64),
        singles=layout.rows(layout.SINGLE_ROWS, cars, np.float32),
        integers=layout.rows(layout.INTEGER_ROWS, cars, np.int32),
        flags=layout.rows(layout.FLAG_ROWS, cars, np.bool_),
        queue=np.zeros((cars, delay + 1 if delay else 0, 2), np.float32),
    )


def build_orders(settings: WorldSettings, cars: int) -> Orders:
    """Room for the modes, actions and starts of a launch."""
    planned = (cars, settings.substeps, 2) if settings.substep_actions else (0, 0, 2)
    return Orders(
        modes=np.zeros(cars, np.uint8),
        actions=np.zeros((cars, 2), np.float32),
        starts=np.full((cars, 4), np.nan),
        plan=np.zeros(planned, np.float32),
    )


def build_laps(settings: WorldSettings, cars: int) -> Laps:
    """Room for lap and sector times, none driven yet."""
    return Laps(
        times=np.full((cars, settings.lap_history), np.nan),
        kinds=np.zeros((cars, settings.lap_history), np.int8),
        sectors=np.full((cars, 2, settings.sectors), np.nan),
    )


def build_sensors(settings: WorldSettings, cars: int) -> Sensors:
    """The sensors of the settings and room for their readings."""
    rays, course, telemetry = settings.rays, settings.course, settings.telemetry
    course_size = course.count * course.channels if course else 0
    course_noise, telemetry_noise = np.zeros((2, course_size)), np.zeros((2, len(TELEMETRY)))
    if course:
        course_noise[0] = course.imperfection.noise
    if telemetry:
        for name, full in telemetry.full.items():
            column = TELEMETRY.index(name)
            telemetry_noise[:, column] = telemetry.imperfection.noise * full, telemetry.relative_noise
    return Sensors(
        directions=_ray_directions(rays),
        course_noise=course_noise,
        telemetry_noise=telemetry_noise,
        rays=_empty_readings(rays, cars, rays.ray_count if rays else 0),
        course=_empty_readings(course, cars, course_size),
        telemetry=_empty_readings(telemetry, cars, len(TELEMETRY)),
    )


def no_episodes() -> tuple[Episodes, Results]:
    """For launches that drive cars and nothing else."""
    singles, doubles, longs = np.zeros((0, 0), np.float32), np.zeros((0, 0)), np.zeros(0, np.int64)
    flags, integers = np.zeros((0, 0), np.bool_), np.zeros((0, 0), np.int32)
    episodes = Episodes(
        options=np.zeros(layout.EPISODE_COUNT, np.int64),
        step_time=0.0,
        off_line=0.0,
        terms=longs,
        term_options=doubles.reshape(-1),
        weights=doubles.reshape(-1),
        potential=singles,
        potential_known=flags,
        metres=doubles,
        counts=integers,
        reference_rows=longs,
        reference=singles,
        commands=singles.reshape(0, 0, 2),
        actions=singles,
        last_actions=singles.reshape(0, 0, 0),
        returns=doubles,
        parts=np.zeros((0, 4), np.int64),
        scale=singles.reshape(-1),
        low=singles.reshape(-1),
    )
    results = Results(doubles, singles, integers, flags, singles, singles, doubles)
    return episodes, results


def build_camera(camera: CameraSettings | None, cars: int) -> Camera | None:
    """The camera and room for its pictures."""
    if camera is None:
        return None
    return Camera(
        lens=build_lens(camera),
        palette=build_palette(camera),
        backdrop=build_backdrop(camera),
        noise=float(camera.imperfection.noise),
        dropout=float(camera.imperfection.dropout),
        pictures=_empty_readings(camera, cars, camera.height * camera.width * camera.channels, np.uint8),
    )


def _ray_directions(rays: RaySettings | None) -> NDArray[np.float32]:
    """Flat [3 * padded]: direction x, direction y, room for distances. Padding rays repeat the first."""
    if rays is None:
        return np.zeros(0, np.float32)
    angles = rays.ray_angles()
    padded = -(-len(angles) // 8) * 8
    angles = np.concatenate([angles, np.full(padded - len(angles), angles[0])])
    return np.concatenate([np.cos(angles), np.sin(angles), np.zeros(padded)]).astype(np.float32)


def _empty_readings(sensor: Any, cars: int, size: int, dtype: type = np.float32) -> NDArray[Any]:
    """Room for the readings of a sensor, [cars, latency + history, size]; no size where there is no sensor."""
    if sensor is None:
        return np.zeros((cars, 1, 0), dtype)
    return np.zeros((cars, sensor.imperfection.latency + sensor.history, size), dtype)

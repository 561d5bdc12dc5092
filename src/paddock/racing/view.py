"""What people see of a running racing environment: the scene, which hardly changes, and snapshots of the cars.

Reading only: neither random numbers nor the world are touched. Shapes: C cars that are shown, R rays.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paddock.control.messages import CAR_COLUMNS, HUMAN, MOST_CARS, OFF_TRACK, RESTARTED
from paddock.sim.cars.car import SHIFT_UP_RPM, CarParameters
from paddock.sim.cars.outline import drawn_outline
from paddock.sim.reference.lap import ReferenceLap, reference_lap
from paddock.sim.reference.store import kept_line
from paddock.sim.tracks.scenery import KERB_WIDTH, LEAST_GRAVEL, LINE_WIDTH, VERGE_WIDTH, lay_scenery, start_patches
from paddock.sim.tracks.track import Track

if TYPE_CHECKING:
    from paddock.racing.env.vector import RacingVectorEnv

MOST_SCENES = 8  # that are kept; a run may have hundreds of tracks
POINTS = 800  # of a line that is drawn, at most
REVERSE = 255  # as a gear on the dials
REV_LIMIT = SHIFT_UP_RPM * 1.05  # rpm
FULL_SIZE_ROAD = 5.0  # m of width, from which on a road is for full-size cars


class RacingView:
    """Looks at one environment; the first `MOST_CARS` cars of its world are shown."""

    def __init__(self, env: RacingVectorEnv) -> None:
        self._env, self._world = env, env.world
        self.count = min(env.world.num_cars, MOST_CARS)
        self._episode = env.world.episode[: self.count].copy()
        self._scenes: dict[int, dict[str, Any]] = {}
        self.human: int | None = None  # the car that a person drives
        self.hidden: set[int] = set()

    def scene(self, track: int) -> dict[str, Any]:
        """Everything that stands still on one of the world's tracks."""
        index = min(max(track, 0), len(self._world.tracks) - 1)
        if index not in self._scenes:
            if len(self._scenes) >= MOST_SCENES:
                del self._scenes[next(iter(self._scenes))]
            self._scenes[index] = self._build(index)
        return self._scenes[index]

    def snapshot(self, watched: Sequence[int] = ()) -> dict[str, Any]:
        """The cars as they are now: `cars` float32 [C, 10] in the order of `CAR_COLUMNS`, `tracks` uint16 [C], and the
        `rays` float32 [R] m of the watched cars, all as bytes; `dials` of the watched cars."""
        world, count = self._world, self.count
        episode = world.episode[:count]
        state = OFF_TRACK * world.off_track[:count] + RESTARTED * (
            (episode != self._episode) | world.crashed[:count]
        ).astype(np.float32)
        self._episode[:] = episode
        cars = np.empty((count, len(CAR_COLUMNS)), dtype="<f4")
        for column, values in enumerate(
            (
                world.x[:count],
                world.y[:count],
                world.heading[:count],
                np.hypot(world.vx[:count], world.vy[:count]),
                world.applied_steer[:count],
                world.applied_throttle[:count],
                world.s[:count] / world.track_length[:count],
                world.time[:count] - world.lap_start[:count],
                world.last_lap_time[:count],
                state,
            )
        ):
            cars[:, column] = values
        if self.human is not None:
            cars[self.human, -1] += HUMAN
        for car in self.hidden:
            cars[car, :2] = np.nan
        return {
            "wall": time.time(),
            "cars": cars.tobytes(),
            "tracks": world.track_index[:count].astype("<u2").tobytes(),
            "rays": self._rays(watched),
            "dials": {car: self._dials(car) for car in watched if 0 <= car < self.count},
        }

    def _dials(self, car: int) -> int:
        """Gear (255: driven backwards; 1 where a car only rolls backwards) in the lowest byte, revs as 0 to 255 of the
        limit in the next, counted laps above."""
        world = self._world
        is_driven_back = world.gear[car] == 0 and world.applied_throttle[car] < 0.0
        gear = REVERSE if is_driven_back else max(int(world.gear[car]), 1)
        revs = min(max(float(world.rpm[car]) / REV_LIMIT, 0.0), 1.0)
        return gear | round(255 * revs) << 8 | min(int(world.lap_count[car]), 0xFFFF) << 16

    def _rays(self, watched: Sequence[int]) -> dict[int, bytes]:
        if self._world.settings.rays is None:
            return {}
        chosen = [car for car in watched if 0 <= car < self.count]
        return {car: self._world.rays[car, 0].astype("<f4").tobytes() for car in chosen}

    def _build(self, index: int) -> dict[str, Any]:
        world = self._world
        track, rays = world.tracks[index], world.settings.rays
        reach = None
        if rays is not None:
            angles = [round(float(angle), 5) for angle in rays.ray_angles()]
            reach = {"count": rays.ray_count, "angles": angles, "reach": rays.range, "mount": rays.mount}
        sectors = world.settings.sectors
        return {
            "kind": "racing",
            "dt": world.settings.time_step,
            "car": drawn_car(self._env.config.car, self._env._car),
            "cars": self.count,
            "group": world.settings.group_size,
            "track": drawn_track(track),
            "reference": drawn_reference(self._reference(track, index)),
            "rays": reach,
            "sectors": [round(track.length * (number + 1) / sectors, 3) for number in range(sectors)],
        }

    def _reference(self, track: Track, index: int) -> ReferenceLap | None:
        """The reference lap where it need not be computed: that takes seconds, which a viewer must not cost."""
        if "reference" in self._env.__dict__:
            return self._env.reference.laps[index]
        return reference_lap(track, self._env._car) if kept_line(track, self._env._car) is not None else None


def drawn_car(name: str, car: CarParameters) -> dict[str, Any]:
    """A car's size in m, and its outline from above."""
    return {
        "name": name,
        "length": car.length,
        "width": car.width,
        "top_speed": car.top_speed,
        "steer_limit": car.steer_limit,
        "outline": drawn_outline(),
    }


def drawn_road(track: Track, name: str, car: CarParameters, reference: ReferenceLap | None) -> dict[str, Any]:
    """What a replay needs beside the laps: the road, the car and the reference lap."""
    return {"track": drawn_track(track), "car": drawn_car(name, car), "reference": drawn_reference(reference)}


def drawn_track(track: Track) -> dict[str, Any]:
    """A road's outline as lists of points, m, and its scenery."""
    keep = _spread(len(track))
    digits = 2 if track.mean_width > FULL_SIZE_ROAD else 3
    centre = np.stack([track.x, track.y], axis=1)
    return {
        "name": track.name,
        "length": track.length,
        "left": np.round(track.left_edge[keep], digits).tolist(),
        "right": np.round(track.right_edge[keep], digits).tolist(),
        "centre": np.round(centre[keep], digits).tolist(),
        "obstacles": np.round(track.obstacles, digits).tolist(),
        "scenery": drawn_scenery(track, keep, digits),
    }


def drawn_scenery(track: Track, keep: NDArray[np.intp], digits: int) -> dict[str, Any]:
    """The scenery at the points `keep`, as numbers that a page can draw without a rule of its own.

    Widths in m. sides: left and right, each with `kerb` [S] (0 none, 1 white, 2 red, from a point to the next) and
    `gravel` [S], its depth in m. start: (is white, corners) of each patch.
    """
    scenery = lay_scenery(track, keep)
    sides = ((scenery.kerb_left, scenery.gravel_left), (scenery.kerb_right, scenery.gravel_right))
    return {
        "unit": scenery.unit,
        "line_width": LINE_WIDTH * scenery.unit,
        "kerb_width": KERB_WIDTH * scenery.unit,
        "verge_width": VERGE_WIDTH * scenery.unit,
        "sides": [
            {
                "kerb": np.where(kerb, 1 + scenery.red, 0).tolist(),
                "gravel": np.round(np.where(gravel > LEAST_GRAVEL * scenery.unit, gravel, 0.0), digits).tolist(),
            }
            for kerb, gravel in sides
        ],
        "trees": np.round(scenery.trees, digits).tolist(),
        "start": [[bool(is_white), np.round(corners, digits).tolist()] for is_white, corners in start_patches(track)],
    }


def drawn_reference(lap: ReferenceLap | None) -> dict[str, Any] | None:
    """A reference lap as columns: m, m/s, s since the line."""
    if lap is None:
        return None
    keep = _spread(len(lap.x))
    columns = {"x": lap.x, "y": lap.y, "heading": lap.heading, "speed": lap.speed, "time": lap.time_at}
    return {
        **{name: np.round(values[keep], 3).tolist() for name, values in columns.items()},
        "lap_time": lap.lap_time,
        "sectors": lap.sector_times.tolist(),
    }


def _spread(count: int) -> NDArray[np.intp]:
    """Every so many points, always as many: uneven steps would make uneven blocks of a kerb."""
    return np.arange(0, count, max(1, -(-count // POINTS)))

"""The racing world: N cars on T tracks, stepped together by one kernel launch, with no Python per car."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paddock.core.errors import InputError
from paddock.sim import layout
from paddock.sim.cars.car import PARAMETER_COUNT, CarParameters, load_car
from paddock.sim.kernels.camera import photograph
from paddock.sim.kernels.compiling import announced
from paddock.sim.kernels.edge import measure_near_edge
from paddock.sim.kernels.launch import compiled, launch
from paddock.sim.kernels.records import Doubles, Episodes, Flags, Integers, Results, Singles
from paddock.sim.kernels.step import advance
from paddock.sim.settings import WorldSettings
from paddock.sim.tables import (
    build_camera,
    build_cars,
    build_laps,
    build_orders,
    build_roads,
    build_rules,
    build_sensors,
    no_episodes,
)
from paddock.sim.tracks.track import Track

SEED_FACTOR = 0x9E3779B97F4A7C15  # A stream's key is seed * SEED_FACTOR + car: `kernels.math.random_bits`.


def seed_of_rows(seed: int, first_car: int) -> int:
    """The seed with which car 0 draws what car `first_car` draws with `seed`, car 1 what the next one draws, and so on;
    an int64. The factor is odd, so there is a number of seeds that is worth as much as one car."""
    shifted = (seed + first_car * pow(SEED_FACTOR, -1, 2**64)) % 2**64
    return shifted - 2**64 if shifted >= 2**63 else shifted


class World:
    """N cars, each with its own track, parameters and random stream.

    Public arrays hold the present; they are views into the world's memory, valid for its whole life, and change
    with every `step`, `reset` and `set_state`. Copy what you keep. Shapes are [N] unless said.

    float64: `x`, `y` m; `s` m along the lap, 0 at the line; `time` s since the start; `distance` net metres along the
    road since the start; `lap_distance` net metres of this lap; `lap_start` s; `last_lap_time`, `best_lap_time` s, NaN
    before the first.
    float32: `heading` rad; `vx`, `vy` m/s, forward and left; `yaw_rate` rad/s; `steer` rad at the wheels;
    `longitudinal_acceleration`, `lateral_acceleration` m/s2; `lateral` m from the centreline, left positive;
    `heading_error` rad against the road; `curvature` 1/m, `left_width`, `right_width` m of the road at the car;
    `progress_gain` net metres of this step, signed, where ground gained with all wheels off the road counts as zero;
    `rpm`; `impact` m/s, speed into whatever was hit in this step; `applied_steer`, `applied_throttle`.
    int32: `track_index`; `point_index` of the road; `gear` (0 is reverse); `next_gate`; `lap_count`, counted laps;
    `lap_kind` of the present lap (0 out lap, 1 standing start, 2 flying); `steps` of the episode; `episode`;
    `wheels_off`, corners beyond the edge.
    bool: `lap_completed`, a lap was counted in this step; `lap_rejected`, the line was crossed but a gate had been
    missed; `lap_valid`, the present lap can still count; `off_track`, all wheels are off; `collided`, touched
    anything; `touched_car`; `crashed`, stands until it is reset; `wrong_way`; `cut`, a gate was missed in this step;
    `ghost`, to be set by you: neither touches nor is seen by rays.
    `lap_times` float64 [N, lap_history] and `lap_kinds` int8, a ring where lap k lies at k % lap_history;
    `sector_times`, `last_sector_times` float64 [N, sectors] s, NaN where not driven.
    Sensors, newest reading first: `rays` [N, history, R] m; `course` [N, history, K, C]; `telemetry` [N, history, 10];
    `camera` uint8 [N, history, height, width, channels].
    `parameters` float32 [N, P] may be written to at any time.
    """

    x: Doubles
    y: Doubles
    s: Doubles
    time: Doubles
    distance: Doubles
    lap_distance: Doubles
    lap_start: Doubles
    last_lap_time: Doubles
    best_lap_time: Doubles
    heading: Singles
    vx: Singles
    vy: Singles
    yaw_rate: Singles
    steer: Singles
    longitudinal_acceleration: Singles
    lateral_acceleration: Singles
    lateral: Singles
    heading_error: Singles
    curvature: Singles
    left_width: Singles
    right_width: Singles
    progress_gain: Singles
    rpm: Singles
    impact: Singles
    applied_steer: Singles
    applied_throttle: Singles
    track_index: Integers
    point_index: Integers
    gear: Integers
    next_gate: Integers
    lap_count: Integers
    lap_kind: Integers
    steps: Integers
    episode: Integers
    wheels_off: Integers
    lap_completed: Flags
    lap_rejected: Flags
    lap_valid: Flags
    off_track: Flags
    collided: Flags
    touched_car: Flags
    crashed: Flags
    wrong_way: Flags
    cut: Flags
    ghost: Flags

    @announced()
    def __init__(
        self,
        tracks: Track | Sequence[Track],
        car: str | CarParameters | Singles = "gt",
        num_cars: int = 1,
        *,
        settings: WorldSettings | None = None,
        track_index: ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        """Build a world and put every car at the start of its first episode.

        car: a preset's name, a `CarParameters`, or float32 [N, P], one row a car.
        track_index: [N] which track each car drives; by default groups of cars take the tracks in turn.
        """
        settings = settings or WorldSettings()
        self.settings = settings
        self.tracks: tuple[Track, ...] = (tracks,) if isinstance(tracks, Track) else tuple(tracks)
        self.num_cars = num_cars
        if num_cars < 1 or num_cars % settings.group_size:
            raise InputError(
                f"num_cars is {num_cars}; it must be a positive multiple of the group size {settings.group_size}."
            )
        self._roads = build_roads(self.tracks)
        self._rules = build_rules(settings, seed)
        self.parameters = self._car_parameters(car)
        self._cars = build_cars(settings, self.parameters)
        self._orders = build_orders(settings, num_cars)
        self._laps = build_laps(settings, num_cars)
        self._sensors = build_sensors(settings, num_cars)
        self._camera = build_camera(settings.camera, num_cars)
        everything = (self._orders, self._rules, self._cars, self._roads)
        self._nothing_else = no_episodes()
        self._step_cars = compiled(advance, *everything, self._laps, self._sensors, *self._nothing_else)
        self._take_pictures = compiled(photograph, *everything, self._camera) if self._camera else None
        self._name_arrays()
        if track_index is None:
            self.take_tracks(0)
        else:
            self._set_tracks(track_index)
        self.reset()

    def reset(
        self,
        mask: Flags | None = None,
        *,
        seed: int | None = None,
        s: ArrayLike | None = None,
        lateral: ArrayLike | None = None,
        heading_error: ArrayLike | None = None,
        speed: ArrayLike | None = None,
        track_index: ArrayLike | None = None,
    ) -> None:
        """Begin a new episode for all cars, or those of `mask` [N].

        The settings' start decides where, except for what is given here, as a number or per car [N]: `s` m,
        `lateral` m, `heading_error` rad, `speed` m/s, `track_index`. A `seed` restarts the random streams.
        """
        chosen = np.ones(self.num_cars, np.bool_) if mask is None else np.asarray(mask, np.bool_)
        assert chosen.shape == (self.num_cars,), f"mask has shape {chosen.shape}, expected ({self.num_cars},)"
        if seed is not None:
            self._rules.options[layout.OPTION_SEED] = seed
            self.episode[chosen] = 0
        if track_index is not None:
            self._set_tracks(np.where(chosen, np.broadcast_to(track_index, (self.num_cars,)), self.track_index))
        given = [
            (column, value) for column, value in enumerate((s, lateral, heading_error, speed)) if value is not None
        ]
        for column, value in given:
            self._orders.starts[:, column] = value
        self._orders.modes[:] = np.where(chosen, layout.RESET_CAR, layout.SKIP_CAR)
        draws_track = self._rules.options[layout.OPTION_RANDOM_TRACK]
        if track_index is not None:  # What is given goes before what would be drawn.
            self._rules.options[layout.OPTION_RANDOM_TRACK] = 0
        self._advance()
        self._rules.options[layout.OPTION_RANDOM_TRACK] = draws_track
        if given:
            self._orders.starts[:] = np.nan

    def step(
        self,
        action: ArrayLike,
        reset_mask: Flags | None = None,
        *,
        episodes: Episodes | None = None,
        results: Results | None = None,
    ) -> None:
        """Drive one control step with `action` [N, 2]: steer (left positive) and throttle, both in [-1, 1]; with the
        setting `substep_actions` one for every substep, [N, substeps, 2].

        Cars of `reset_mask` [N] begin a new episode instead and ignore their action, in the same launch: this is
        Gymnasium's next-step autoreset. For same-step autoreset call `step`, keep what you need, then `reset(mask)`.
        With `episodes` the launch also does what they ask for (rewards, ends, observations, autoreset) and writes it
        into `results`.
        """
        if len(self._orders.plan):
            self._orders.plan[:] = action
            self._orders.actions[:] = self._orders.plan[:, 0]
        else:
            self._orders.actions[:] = action
        self._orders.modes[:] = layout.STEP_CAR
        if reset_mask is not None:
            assert reset_mask.shape == (self.num_cars,), f"reset_mask has shape {reset_mask.shape}"
            self._orders.modes[reset_mask] = layout.RESET_CAR
        assert (episodes is None) == (results is None), "episodes and results go together"
        self._advance(None if episodes is None or results is None else (episodes, results))

    def take_tracks(self, first_group: int) -> None:
        """Groups of cars take the tracks in turn, the first of them being number `first_group` of a larger world."""
        groups = first_group + np.arange(self.num_cars) // self.settings.group_size
        self._set_tracks(groups % len(self.tracks))

    def get_state(self) -> dict[str, Any]:
        """A copy of everything that changes: restored by `set_state`, the world goes on bit for bit."""
        return {name: array.copy() for name, array in self._memory().items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` gave; the world must have the same tracks, settings and number of cars."""
        memory = self._memory()
        if state.keys() != memory.keys():
            raise InputError(f"this is not a state of a World: it has {sorted(state)}, expected {sorted(memory)}.")
        for name, array in memory.items():
            if state[name].shape != array.shape:
                raise InputError(
                    f"the state's '{name}' has shape {state[name].shape}, this world needs {array.shape}: "
                    "use a world with the same settings and number of cars."
                )
            array[...] = state[name]

    @property
    def seed(self) -> int:
        """Of the random streams, as the last `reset` set it."""
        return int(self._rules.options[layout.OPTION_SEED])

    @property
    def track_length(self) -> Doubles:
        """[N] m, of the track each car drives."""
        return self._roads.tracks[self.track_index, layout.TRACK_LENGTH]

    def near_edge(self, margin: float) -> Singles:
        """[N] how far a car's farthest corner is through the last `margin` m of road: 0 before, 1 from the edge on."""
        near = np.zeros(self.num_cars, np.float32)
        measure_near_edge(float(margin), self._cars, self._roads, near)
        return near

    @property
    def bytes_per_car(self) -> float:
        """Memory of the per-car arrays, by car."""
        return (
            sum(array.nbytes for array in [*self._memory().values(), self._orders.starts, self._orders.modes])
            / self.num_cars
        )

    def _car_parameters(self, car: str | CarParameters | Singles) -> Singles:
        if isinstance(car, np.ndarray):
            if car.shape != (self.num_cars, PARAMETER_COUNT):
                raise InputError(f"car has shape {car.shape}, expected ({self.num_cars}, {PARAMETER_COUNT}).")
            return np.ascontiguousarray(car, np.float32).copy()
        return load_car(car).stack(self.num_cars)

    def _name_arrays(self) -> None:
        renamed = {"track": "track_index", "index": "point_index"}
        for memory, names in (
            (self._cars.doubles, layout.DOUBLE_NAMES),
            (self._cars.singles, layout.SINGLE_NAMES),
            (self._cars.integers, layout.INTEGER_NAMES),
            (self._cars.flags, layout.FLAG_NAMES),
        ):
            for row, name in enumerate(names):
                setattr(self, renamed.get(name, name), memory[row, : self.num_cars])
        self.lap_times, self.lap_kinds = self._laps.times, self._laps.kinds
        self.sector_times, self.last_sector_times = self._laps.sectors[:, 0], self._laps.sectors[:, 1]
        cars, settings = self.num_cars, self.settings
        if rays := settings.rays:
            self.rays = self._sensors.rays[:, rays.imperfection.latency :]
        if course := settings.course:
            shape = (cars, course.history, course.count, course.channels)
            self.course = self._sensors.course[:, course.imperfection.latency :].reshape(shape)
        if telemetry := settings.telemetry:
            self.telemetry = self._sensors.telemetry[:, telemetry.imperfection.latency :]
        if (camera := settings.camera) and self._camera:
            frame = (cars, camera.history, camera.height, camera.width, camera.channels)
            self.camera = self._camera.pictures[:, camera.imperfection.latency :].reshape(frame)

    def _set_tracks(self, track_index: ArrayLike) -> None:
        chosen = np.asarray(track_index, np.int32)
        assert chosen.shape == (self.num_cars,), f"track_index has shape {chosen.shape}"
        if chosen.min() < 0 or chosen.max() >= len(self.tracks):
            raise InputError(
                f"track_index goes from {chosen.min()} to {chosen.max()}; allowed: 0 to {len(self.tracks) - 1}."
            )
        groups = chosen.reshape(-1, self.settings.group_size)
        if not (groups == groups[:, :1]).all():
            raise InputError("cars of one group must drive the same track; give the group one track index.")
        self.track_index[:] = chosen

    def _memory(self) -> dict[str, NDArray[Any]]:
        cars, laps, sensors = self._cars, self._laps, self._sensors
        return {
            "doubles": cars.doubles,
            "singles": cars.singles,
            "integers": cars.integers,
            "flags": cars.flags,
            "parameters": cars.parameters,
            "base_parameters": cars.base_parameters,
            "queue": cars.queue,
            "action": self._orders.actions,
            "options": self._rules.options,
            "lap_times": laps.times,
            "lap_kinds": laps.kinds,
            "sector_times": laps.sectors,
            "ray_readings": sensors.rays,
            "course_readings": sensors.course,
            "telemetry_readings": sensors.telemetry,
            "camera_readings": self._camera.pictures if self._camera else np.zeros((self.num_cars, 1, 0), np.uint8),
        }

    def _advance(self, extra: tuple[Episodes, Results] | None = None) -> None:
        extra = extra or self._nothing_else
        orders, rules, cars, roads = self._orders, self._rules, self._cars, self._roads
        block = layout.LANES // self.settings.group_size * self.settings.group_size
        launch(self._step_cars, self.num_cars, block, orders, rules, cars, roads, self._laps, self._sensors, *extra)
        if self._take_pictures:
            launch(self._take_pictures, self.num_cars, 1, orders, rules, cars, roads, self._camera)

"""What a page needs to show an evaluation: the circuit with its scenery, and the ways of the first cars.

Metres, seconds, radians.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.view import drawn_car, drawn_reference, drawn_track
from paddock.sim.world import World

MOST_SCENES = 4  # circuits that are drawn; an evaluation may have dozens
MOST_CARS = 8
STEP = 0.25  # s between two places of a car


class DriveTracer:
    """Watches the first cars drive (see `drive_laps`) and keeps their way from the start until their lap is over."""

    def __init__(self, env: RacingVectorEnv) -> None:
        self._env = env
        self._every = max(1, round(STEP * env.config.control_rate))
        self._count = min(env.num_envs, MOST_CARS)
        self._steps = 0
        self._places: list[list[NDArray[np.float64]]] = [[] for _ in range(self._count)]

    def __call__(self, world: World, driving: NDArray[np.bool_]) -> None:
        if self._steps % self._every == 0:
            rows = self._env._rows
            places = np.stack([world.x[rows], world.y[rows], world.heading[rows]], axis=1)
            for car in np.flatnonzero(driving[: self._count]):
                self._places[car].append(places[car].copy())
        self._steps += 1

    def scene(self, index: int) -> dict[str, Any] | None:
        """What stands still on one of the tracks; None beyond the first few."""
        if index >= MOST_SCENES:
            return None
        env, track = self._env, self._env.world.tracks[index]
        sectors = env.world.settings.sectors
        return {
            "dt": env.world.settings.time_step,
            "car": drawn_car(env.config.car, env._car),
            "track": drawn_track(track),
            "reference": drawn_reference(env.reference.laps[index]),
            "sectors": [round(track.length * (number + 1) / sectors, 3) for number in range(sectors)],
        }

    def drives(self, lap_times: NDArray[np.float64]) -> dict[str, Any]:
        """Ways of the first cars on the first track: `x`, `y`, `heading` every `dt` s from the start. lap_times [N]."""
        on_track = self._env.world.track_index[self._env._rows]
        cars = []
        for car, places in enumerate(self._places):
            if on_track[car] != 0 or len(places) < 2:
                continue
            columns = np.array(places)
            time = float(lap_times[car])
            cars.append(
                {
                    "x": np.round(columns[:, 0], 2).tolist(),
                    "y": np.round(columns[:, 1], 2).tolist(),
                    "heading": np.round(np.unwrap(columns[:, 2]), 3).tolist(),
                    "lap_time": time if np.isfinite(time) else None,
                }
            )
        return {"dt": self._every / self._env.config.control_rate, "cars": cars}

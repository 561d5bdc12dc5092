"""The classical driver where policies drive: as a `Driver` in the racing environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.racing.env.config import RacingConfig
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.env.world import car_of
from paddock.racing.laps.drive import drive_laps
from paddock.racing.laps.records import RecordedLap, Recorder
from paddock.sim.reference.classical_driver import ClassicalDriver
from paddock.sim.world import World

NAME = "classical driver"


class ClassicalAtTheWheel:
    """Drives every car of a world, whichever of its tracks it is on."""

    def __init__(self, env: RacingVectorEnv) -> None:
        self._env = env
        self._drivers: dict[int, ClassicalDriver] = {}

    def act(self, observation: Any, world: World) -> NDArray[np.floating]:
        action = np.zeros((world.num_cars, 2), dtype=np.float32)
        for index in np.unique(world.track_index):
            cars = np.flatnonzero(world.track_index == index)
            action[cars] = self._driver_on(int(index)).act(world, cars)
        return action

    def _driver_on(self, track: int) -> ClassicalDriver:
        if track not in self._drivers:
            car, step = car_of(self._env.config), 1.0 / self._env.config.control_rate
            reference = self._env.reference.laps[track]
            self._drivers[track] = ClassicalDriver(reference, car, time_step=step)
        return self._drivers[track]


def without_agent(config: RacingConfig) -> RacingConfig:
    """The same road and car, with the fewest sensors and plain actions: for drivers that look at the world itself."""
    plain = {"observation": "sensors5", "flat": None, "action": "steer_throttle"}
    return config.model_copy(update=plain)


def classical_lap(config: RacingConfig, track: int) -> RecordedLap | None:
    """A flying lap of the classical driver on one of the tracks of `config`; None where it does not get round."""
    env = RacingVectorEnv(1, config=without_agent(config))
    recorder = Recorder(env._rows)
    laps = drive_laps(env, ClassicalAtTheWheel(env), seed=0, watch=recorder, track_index=np.array([track]))
    return recorder.lap(0, driver=NAME, track=laps.track[0], car_name=config.car) if laps.finished[0] else None

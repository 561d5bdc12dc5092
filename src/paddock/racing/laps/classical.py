"""The classical driver where policies drive: as a `Driver` in the racing environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.environments.delays import Delays
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.env.world import car_of
from paddock.racing.laps.drive import drive_laps
from paddock.racing.laps.records import RecordedLap, Recorder, classical_laps_folder, read_lap, write_lap
from paddock.sim.reference.classical_laps import ClassicalDrivers
from paddock.sim.tracks.track import Track
from paddock.sim.world import World

NAME = "classical driver"


class ClassicalAtTheWheel:
    """The classical driver as a `Driver`: every car of the environment, whichever of its tracks it is on."""

    def __init__(self, env: RacingVectorEnv) -> None:
        time_step = 1.0 / env.config.control_rate
        self._drivers = ClassicalDrivers(
            lambda track: env.reference.laps[track], car_of(env.config), time_step=time_step
        )

    def act(self, observation: Any, world: World) -> NDArray[np.floating]:
        return self._drivers.act(world)


def without_agent(config: RacingConfig) -> RacingConfig:
    """The same road and car, with the fewest sensors and plain actions: for drivers that look at the world itself."""
    plain = {"observation": "sensors5", "flat": None, "action": "steer_throttle", "delays": Delays()}
    return config.model_copy(update=plain)


def classical_lap(config: RacingConfig, track: int) -> RecordedLap | None:
    """A flying lap of the classical driver on one of the tracks of `config`; None where it does not get round."""
    env = RacingVectorEnv(1, config=without_agent(config))
    recorder = Recorder(env._rows)
    laps = drive_laps(env, ClassicalAtTheWheel(env), seed=0, watch=recorder, track_index=np.array([track]))
    return recorder.lap(0, driver=NAME, track=laps.track[0], car_name=config.car) if laps.finished[0] else None


def kept_classical_lap(config: RacingConfig, track: Track) -> RecordedLap | None:
    """The same on the first track of `config`, driven once for each road and car, then kept in the person's home."""
    file = classical_laps_folder() / f"{track.fingerprint}-{config.car}.json"
    try:
        return read_lap(file)
    except InputError:
        lap = classical_lap(config, 0)
        if lap is not None:
            write_lap(file, lap)
        return lap

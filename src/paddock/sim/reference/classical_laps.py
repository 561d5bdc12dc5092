"""The classical driver in a world of cars, and its flying laps on the real dynamics, all tracks in one world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paddock.sim.cars.car import CarParameters, load_car
from paddock.sim.kernels.compiling import announced
from paddock.sim.reference.classical_driver import ClassicalDriver, DriverSettings
from paddock.sim.reference.lap import ReferenceLap, reference_lap
from paddock.sim.settings import WorldSettings
from paddock.sim.tracks.track import Track, wrap_angle
from paddock.sim.world import World

RUN_UP = 5.0  # road widths before the line, where the car is set rolling
PATIENCE = 1.5  # reference lap times until a driver is given up


@dataclass(frozen=True)
class DrivenLap:
    """lap_time: s, not a number when none was completed. off_track: control steps with all wheels off the road.

    wheels_off: control steps with at least one corner of the car beyond the edge. collided: control steps in which it
    touched something. away: m, farthest from the line.
    """

    track: str
    lap_time: float
    reference_time: float
    off_track: int
    wheels_off: int
    collided: int
    away: float

    @property
    def ratio(self) -> float:
        """Lap time / reference."""
        return self.lap_time / self.reference_time


class ClassicalDrivers:
    """The classical driver for every car of a world, whichever of its tracks a car is on.

    lap_of: the reference lap of a track of the world, by its index; taken when a car first drives there.
    """

    def __init__(
        self,
        lap_of: Callable[[int], ReferenceLap],
        car: str | CarParameters,
        settings: DriverSettings | None = None,
        *,
        time_step: float,
    ) -> None:
        self._lap_of, self._car, self._settings, self._time_step = lap_of, load_car(car), settings, time_step
        self._drivers: dict[int, ClassicalDriver] = {}

    def on(self, track: int) -> ClassicalDriver:
        """The driver of one track."""
        if track not in self._drivers:
            lap = self._lap_of(track)
            self._drivers[track] = ClassicalDriver(lap, self._car, self._settings, time_step=self._time_step)
        return self._drivers[track]

    def act(self, world: World) -> NDArray[np.float32]:
        """Actions [N, 2] of all cars."""
        action = np.zeros((world.num_cars, 2), dtype=np.float32)
        for index in np.unique(world.track_index):
            cars = np.flatnonzero(world.track_index == index)
            action[cars] = self.on(int(index)).act(world, cars)
        return action


@announced()
def classical_laps(
    tracks: Sequence[Track],
    car: str | CarParameters,
    driver: DriverSettings | None = None,
    settings: WorldSettings | None = None,
) -> list[DrivenLap]:
    """One flying lap per track. The tracks are driven as they are; see `Track.sized_for`."""
    parameters = load_car(car)
    settings = settings or WorldSettings()
    references = [reference_lap(track, car) for track in tracks]
    drivers = ClassicalDrivers(references.__getitem__, parameters, driver, time_step=settings.time_step)
    offsets = [drivers.on(index).line.offset for index in range(len(tracks))]
    world = World(tracks, parameters, len(tracks), settings=settings, track_index=np.arange(len(tracks)))
    _roll(world, drivers)

    count = len(tracks)
    reference_times = np.array([lap.lap_time for lap in references])
    lap_times, away = np.full(count, np.nan), np.zeros(count)
    off_track, wheels_off, collided = np.zeros((3, count), dtype=int)
    driving = np.ones(count, dtype=bool)
    while driving.any():
        world.step(drivers.act(world))
        off_track += driving & world.off_track
        wheels_off += driving & (world.wheels_off > 0)
        collided += driving & world.collided
        for index in np.flatnonzero(driving).tolist():
            offset = np.interp(world.s[index], tracks[index].s, offsets[index])
            away[index] = max(away[index], abs(world.lateral[index] - offset))
        finished = driving & world.lap_completed
        lap_times[finished] = world.last_lap_time[finished]
        driving &= ~finished & (world.time < PATIENCE * reference_times + 10.0)
    return [
        DrivenLap(
            track.name,
            float(lap_times[k]),
            float(reference_times[k]),
            int(off_track[k]),
            int(wheels_off[k]),
            int(collided[k]),
            float(away[k]),
        )
        for k, track in enumerate(tracks)
    ]


def _roll(world: World, drivers: ClassicalDrivers) -> None:
    """Every car on its line a little before the start, at the speed of its plan."""
    place, lateral, turned, speed = [], [], [], []
    for index, track in enumerate(world.tracks):
        line = drivers.on(index).line
        width = track.mean_width
        point = len(track) - int(RUN_UP * width / track.spacing)
        place.append(track.s[point])
        lateral.append(line.offset[point])
        turned.append(wrap_angle(line.heading[point] - track.heading[point]))
        speed.append(line.speed[point])
    world.reset(s=place, lateral=lateral, heading_error=turned, speed=speed)

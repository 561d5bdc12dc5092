"""Flying laps of the classical driver on the real dynamics, all tracks in one world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paddock.sim.cars.car import CarParameters, load_car
from paddock.sim.kernels.compiling import announced
from paddock.sim.reference.classical_driver import ClassicalDriver, DriverSettings
from paddock.sim.reference.lap import reference_lap
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
    drivers = [ClassicalDriver(lap, parameters, driver, time_step=settings.time_step) for lap in references]
    world = World(tracks, parameters, len(tracks), settings=settings, track_index=np.arange(len(tracks)))
    _roll(world, drivers)

    count = len(tracks)
    reference_times = np.array([lap.lap_time for lap in references])
    lap_times, away = np.full(count, np.nan), np.zeros(count)
    off_track, wheels_off, collided = np.zeros((3, count), dtype=int)
    action = np.zeros((count, 2), dtype=np.float32)
    driving = np.ones(count, dtype=bool)
    while driving.any():
        for index in np.flatnonzero(driving).tolist():
            action[index] = drivers[index].act(world, np.array([index]))[0]
        world.step(action)
        off_track += driving & world.off_track
        wheels_off += driving & (world.wheels_off > 0)
        collided += driving & world.collided
        for index in np.flatnonzero(driving).tolist():
            offset = np.interp(world.s[index], tracks[index].s, drivers[index].line.offset)
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


def _roll(world: World, drivers: Sequence[ClassicalDriver]) -> None:
    """Every car on its line a little before the start, at the speed of its plan."""
    place, lateral, turned, speed = [], [], [], []
    for driver in drivers:
        line, track = driver.line, driver.line.track
        width = track.mean_width
        point = len(track) - int(RUN_UP * width / track.spacing)
        place.append(track.s[point])
        lateral.append(line.offset[point])
        turned.append(wrap_angle(line.heading[point] - track.heading[point]))
        speed.append(line.speed[point])
    world.reset(s=place, lateral=lateral, heading_error=turned, speed=speed)

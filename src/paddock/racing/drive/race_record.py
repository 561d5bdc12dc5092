"""The best laps of a driving session, kept in its folder, so that the race can be shared as a replay at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.archive import keep_drives
from paddock.racing.laps.records import Recorder
from paddock.racing.laps.replays import Drive
from paddock.racing.view import drawn_road

RACE = 0  # the step under which the drives of a session are kept: nothing learns in it


class RaceRecord:
    """Watches every car of a session. Until the opponent has completed a lap, its ghost stands for it."""

    def __init__(self, env: RacingVectorEnv, folder: Path, ghosts: Iterable[Mapping[str, Any]]) -> None:
        self._env, self._folder = env, folder
        world = env.world
        self._cars = range(len(world.x))
        self._recorders = {car: self._fresh(car) for car in self._cars}
        self._road = drawn_road(world.tracks[0], env.config.car, env._car, env.reference.laps[0])
        self._best: dict[str, Drive] = {}
        for ghost in ghosts:
            self._best[str(ghost["driver"])] = _drive_of(ghost)

    def watch(self, names: list[str], *, is_sampled: bool) -> None:
        """After a tick. names: who drives each car; is_sampled: whether places of this tick are to be kept."""
        world, is_better = self._env.world, False
        for car in self._cars:
            is_complete = bool(world.lap_completed[car])
            if is_sampled or is_complete:
                self._recorders[car](world, np.ones(1, np.bool_))
            if is_complete:
                is_better |= self._finish(car, names[car])
            elif world.lap_rejected[car]:
                self._recorders[car] = self._fresh(car)
        if is_better:
            self.write()

    def write(self) -> None:
        """Keep the best laps so far; nothing where there is none."""
        drives = sorted(self._best.values(), key=lambda drive: drive.duration)
        keep_drives(self._folder, RACE, [(self._road, drive) for drive in drives], kept=())

    def restart(self) -> None:
        """The cars are on the grid again: laps under way do not count."""
        self._recorders = {car: self._fresh(car) for car in self._cars}

    def _finish(self, car: int, name: str) -> bool:
        world = self._env.world
        kind = "person" if car == 0 else "agent"
        lap = self._recorders[car].lap(0, driver=name, track=world.tracks[0].name, car_name=self._env.config.car)
        self._recorders[car] = self._fresh(car)
        known = self._best.get(name)
        if known is not None and known.duration <= lap.lap_time:
            return False
        self._best[name] = Drive.of_lap(lap, kind)
        return True

    @staticmethod
    def _fresh(car: int) -> Recorder:
        return Recorder(slice(car, car + 1))


def _drive_of(ghost: Mapping[str, Any]) -> Drive:
    """A ghost as it is sent to pages, as a drive."""
    lap_time = float(ghost["lap_time"])
    samples = {name: np.asarray(ghost[name], np.float64) for name in ("x", "y", "heading")}
    samples["time"] = float(ghost["dt"]) * np.arange(len(samples["x"]), dtype=np.float64)
    return Drive(str(ghost["driver"]), str(ghost["kind"]), lap_time, lap_time, samples)

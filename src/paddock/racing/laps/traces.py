"""What an evaluation keeps of the laps for later comparisons: the road, the best lap on it, and where cars were.

All as plain numbers, small enough to be kept with every run. Metres, seconds, m/s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.drive import Laps
from paddock.racing.laps.drives import DriveTracer
from paddock.racing.laps.records import Recorder
from paddock.racing.laps.replays import Drive
from paddock.sim.reference.lap import ReferenceLap
from paddock.sim.tracks.track import Track
from paddock.sim.world import World

POINTS = 400  # of a line that is kept
CELLS = 120  # of a heat map, along the longer side of the track
MOST_ROADS = 4  # tracks of an evaluation of which drives are kept
BESIDE = 0.04  # of the longer side: how far beyond the road a heat map reaches


class LapTracer:
    """Watches cars drive (see `drive_laps`): their laps, and how often they were where."""

    def __init__(self, env: RacingVectorEnv) -> None:
        self._env = env
        self._recorder = Recorder(env._rows)
        self._places = [_Places(track) for track in env.world.tracks]
        self._drives = DriveTracer(env)

    def __call__(self, world: World, driving: NDArray[np.bool_]) -> None:
        self._recorder(world, driving)
        self._drives(world, driving)
        rows = self._env._rows
        x, y, track = world.x[rows], world.y[rows], world.track_index[rows]
        for index, places in enumerate(self._places):
            mine = driving & (track == index)
            places.add(x[mine], y[mine], world.off_track[rows][mine])

    def traces(self, laps: Laps) -> dict[str, Any]:
        """The tracks that were driven on, each with its reference lap, the best lap, and where cars were; and the
        ways of the first cars, to be watched."""
        env, found = self._env, []
        for index, track in enumerate(env.world.tracks):
            mine = np.array([name == track.name for name in laps.track])
            times = np.where(mine, laps.lap_time, np.nan)
            entry = {**_road(track, env.reference.laps[index]), "heat": self._places[index].values(), "lap": None}
            if (scene := self._drives.scene(index)) is not None:
                entry["scene"] = scene
            if np.isfinite(times).any():
                car = int(np.nanargmin(times))
                lap = self._recorder.lap(car, driver="agent", track=track.name, car_name=env.config.car)
                keep = _spread(len(lap.samples["s"]))
                names = ("s", "time", "x", "y", "speed")
                samples = {name: np.round(lap.samples[name][keep], 3).tolist() for name in names}
                entry["lap"] = {"lap_time": lap.lap_time, "sectors": list(lap.sectors), "samples": samples}
            found.append(entry)
        return {"car": env.config.car, "tracks": found, "drives": self._drives.drives(laps.lap_time)}

    def drives(self, laps: Laps) -> list[tuple[int, Drive]]:
        """What was driven, by the index of the track: the best lap, or the longest way where none was completed."""
        found = []
        for index, track in enumerate(self._env.world.tracks[:MOST_ROADS]):
            mine = np.flatnonzero(np.array([name == track.name for name in laps.track]))
            if not len(mine):
                continue
            finished = mine[laps.finished[mine]]
            if len(finished):
                car = int(finished[np.argmin(laps.lap_time[finished])])
                lap = self._recorder.lap(car, driver="agent", track=track.name, car_name=self._env.config.car)
                found.append((index, Drive.of_lap(lap, "agent")))
            else:
                car = int(mine[np.argmax(laps.distance[mine])])
                samples = self._recorder.way(car, longest=2.0 * float(laps.reference[car]))
                if len(samples["time"]) > 1:
                    found.append((index, Drive("agent", "agent", None, float(samples["time"][-1]), samples)))
        return found


class _Places:
    """Counts over a grid of square cells around a track."""

    def __init__(self, track: Track) -> None:
        edges = np.vstack([track.left_edge, track.right_edge])
        low, high = edges.min(axis=0), edges.max(axis=0)
        beside = BESIDE * float((high - low).max())
        self._low = low - beside
        span = high - low + 2 * beside
        self._cell = float(span.max()) / CELLS
        self._shape = tuple(int(np.ceil(length / self._cell)) for length in span)
        self._count = np.zeros(self._shape, np.int64)
        self._off = np.zeros(self._shape, np.int64)

    def add(self, x: NDArray[np.float64], y: NDArray[np.float64], is_off: NDArray[np.bool_]) -> None:
        column = np.clip(((x - self._low[0]) / self._cell).astype(np.intp), 0, self._shape[0] - 1)
        row = np.clip(((y - self._low[1]) / self._cell).astype(np.intp), 0, self._shape[1] - 1)
        np.add.at(self._count, (column, row), 1)
        np.add.at(self._off, (column, row), is_off.astype(np.int64))

    def values(self) -> dict[str, Any]:
        """Cells that were visited, as [column, row, visits, of them off the road]; cell: m; x, y: of the corner."""
        columns, rows = np.nonzero(self._count)
        cells = np.stack([columns, rows, self._count[columns, rows], self._off[columns, rows]], axis=1)
        return {"x": float(self._low[0]), "y": float(self._low[1]), "cell": self._cell, "cells": cells.tolist()}


def _road(track: Track, reference: ReferenceLap) -> dict[str, Any]:
    keep = _spread(len(track))
    line = {"s": track.s, "time": reference.time_at, "x": reference.x, "y": reference.y, "speed": reference.speed}
    return {
        "name": track.name,
        "length": track.length,
        "left": np.round(track.left_edge[keep], 2).tolist(),
        "right": np.round(track.right_edge[keep], 2).tolist(),
        "reference": {
            "lap_time": reference.lap_time,
            "sectors": reference.sector_times.tolist(),
            "samples": {name: np.round(values[keep], 3).tolist() for name, values in line.items()},
        },
    }


def _spread(count: int) -> NDArray[np.intp]:
    """Indices of at most `POINTS` evenly spread of `count` points."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(np.intp))

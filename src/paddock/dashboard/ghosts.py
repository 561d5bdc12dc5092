"""Laps to race against, as the page draws them: the run's best lap, and the best of people on the same track."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.rollout.racing_records import LapRecord, read_lap

STEP = 0.05  # s between two places of a ghost
MOST_LAPS = 2_000
LAP_FILE = re.compile(r"[\w.-]+\.json")


def people_laps(folder: Path) -> list[tuple[str, LapRecord]]:
    """File names and laps of a folder, quickest first; files that are no laps are passed over."""
    names = sorted(file.name for file in folder.glob("*.json") if LAP_FILE.fullmatch(file.name))[:MOST_LAPS]
    found = []
    for name in names:
        try:
            found.append((name, read_lap(folder / name)))
        except InputError:
            continue
    return sorted(found, key=lambda one: one[1].lap_time)


def describe_lap(name: str, lap: LapRecord) -> dict[str, Any]:
    """A lap for a list."""
    return {
        "file": name,
        "driver": lap.driver,
        "track": lap.track,
        "car": lap.car,
        "lap_time": lap.lap_time,
        "sectors": list(lap.sectors),
    }


def ghost(kind: str, driver: str, lap_time: float, samples: dict[str, Any]) -> dict[str, Any]:
    """A lap at even steps of time: x, y m, heading rad."""
    time = np.asarray(samples["time"], np.float64)
    x, y = np.asarray(samples["x"], np.float64), np.asarray(samples["y"], np.float64)
    at = np.arange(0.0, lap_time, STEP)
    x, y = np.interp(at, time, x), np.interp(at, time, y)
    if "heading" in samples:
        heading = np.interp(at, time, np.asarray(samples["heading"], np.float64))
    else:
        heading = np.arctan2(np.gradient(y), np.gradient(x))
    columns = {"x": x, "y": y, "heading": heading}
    return {
        "type": "ghost",
        "kind": kind,
        "driver": driver,
        "dt": STEP,
        **{name: np.round(values, 3).tolist() for name, values in columns.items()},
        "lap_time": lap_time,
    }


class GhostKeeper:
    """Tells of the ghosts of one run's track, and again when a quicker one is there."""

    def __init__(self, run: RunFolder, laps_dir: Path) -> None:
        self._judgement = run.judgements / "best.json"
        self._laps_dir = laps_dir
        self._place: tuple[str, str] | None = None
        self._stamps: dict[str, Any] = {}

    def show(self, track: str, car: str) -> None:
        """The page shows this track from here on."""
        if self._place != (track, car):
            self._place, self._stamps = (track, car), {}

    def news(self) -> list[dict[str, Any]]:
        """Ghosts that were not there when this was last asked."""
        if self._place is None:
            return []
        found = []
        for kind, file, read in (("best", self._judgement, self._best), ("person", self._laps_dir, self._person)):
            try:
                stamp = file.stat().st_mtime_ns
            except OSError:
                continue
            if self._stamps.get(kind) != stamp:
                self._stamps[kind] = stamp
                if (one := read()) is not None:
                    found.append(one)
        return found

    def _best(self) -> dict[str, Any] | None:
        assert self._place is not None
        try:
            evidence = json.loads(self._judgement.read_bytes())["evidence"]
            entry = next(one for one in evidence["tracks"] if one["name"] == self._place[0] and one["lap"])
            lap = entry["lap"]
            return ghost("best", "agent", float(lap["lap_time"]), lap["samples"])
        except (OSError, ValueError, KeyError, TypeError, StopIteration):
            return None

    def _person(self) -> dict[str, Any] | None:
        assert self._place is not None
        track, car = self._place
        laps = [lap for _, lap in people_laps(self._laps_dir) if (lap.track, lap.car) == (track, car)]
        return ghost("person", laps[0].driver, laps[0].lap_time, dict(laps[0].samples)) if laps else None

"""Laps to race against, as the page draws them: the run's best lap, and the best of people on the same track."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from paddock.core.errors import InputError
from paddock.core.results import read_result
from paddock.experiments.run import RunFolder
from paddock.racing.laps.records import RecordedLap, as_ghost, read_lap

MOST_LAPS = 300  # files that are looked at, the newest
LAP_FILE = re.compile(r"[\w.-]+\.json")


def people_laps(folder: Path) -> list[tuple[str, RecordedLap]]:
    """File names and laps of a folder, quickest first; files that are no laps are passed over."""
    files = [file for file in folder.glob("*.json") if LAP_FILE.fullmatch(file.name)]
    newest = sorted(files, key=lambda file: file.lstat().st_mtime, reverse=True)[:MOST_LAPS]
    found = []
    for file in newest:
        try:
            found.append((file.name, read_lap(file)))
        except InputError:
            continue
    return sorted(found, key=lambda one: one[1].lap_time)


def describe_lap(name: str, lap: RecordedLap) -> dict[str, Any]:
    """A lap for a list."""
    return {
        "file": name,
        "driver": lap.driver,
        "track": lap.track,
        "car": lap.car,
        "lap_time": lap.lap_time,
        "sectors": list(lap.sectors),
    }


class Ghosts:
    """The ghosts of one run's track, each again when a quicker one is there."""

    def __init__(self, run: RunFolder, laps_dir: Path) -> None:
        self._run = run
        self._laps_dir = laps_dir
        self._place: tuple[str, str] | None = None
        self._stamps: dict[str, Any] = {}

    def show(self, track: str, car: str) -> None:
        """The page shows this track from here on."""
        if self._place != (track, car):
            self._place, self._stamps = (track, car), {}

    def news(self) -> list[dict[str, Any]]:
        """Ghosts that were not there at the last call."""
        if self._place is None:
            return []
        found = []
        for kind, file, read in (
            ("best", self._run.result_file("best"), self._best),
            ("person", self._laps_dir, self._person),
        ):
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
            traces = read_result(self._run.result_file("best"))["traces"]
            entry = next(one for one in traces["tracks"] if one["name"] == self._place[0] and one["lap"])
            lap = entry["lap"]
            return as_ghost("best", "agent", float(lap["lap_time"]), lap["samples"])
        except (OSError, ValueError, KeyError, TypeError, StopIteration):
            return None

    def _person(self) -> dict[str, Any] | None:
        assert self._place is not None
        track, car = self._place
        laps = [lap for _, lap in people_laps(self._laps_dir) if (lap.track, lap.car) == (track, car)]
        return as_ghost("person", laps[0].driver, laps[0].lap_time, dict(laps[0].samples)) if laps else None

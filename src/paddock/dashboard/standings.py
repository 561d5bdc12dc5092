"""Lap times to compare a run with on one track: the classical driver, the shipped agents, people."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from paddock.core.errors import InputError
from paddock.dashboard.ghosts import people_laps
from paddock.racing.agents import describe_agents
from paddock.racing.laps.records import RecordedLap, classical_laps_folder, read_lap

MOST_PEOPLE = 3


class Standings:
    """The known lap times of a track and a car. The classical driver's lap is driven once, by a process of its own."""

    def __init__(self, laps_dir: Path) -> None:
        self._laps_dir = laps_dir
        self._asked: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def of(self, track: str, car: str) -> dict[str, Any]:
        """`rows`, quickest first, and `is_complete`: whether the classical driver has driven here."""
        lap = await asyncio.to_thread(kept_classical_lap, track, car)
        if lap is None and (track, car) not in self._asked:
            self._asked[track, car] = asyncio.create_task(_drive_classical(track, car))
        asked = self._asked.get((track, car))
        rows = await asyncio.to_thread(self._rows, track, car, lap)
        return {"rows": rows, "is_complete": lap is not None or (asked is not None and asked.done())}

    def close(self) -> None:
        for task in self._asked.values():
            task.cancel()

    def _rows(self, track: str, car: str, lap: RecordedLap | None) -> list[dict[str, Any]]:
        rows = [] if lap is None else [{"kind": "classical", "name": "Classical driver", "lap_time": lap.lap_time}]
        shipped = [one["laps_on"][track] for one in describe_agents() if one["car"] == car and track in one["laps_on"]]
        if shipped:
            rows.append({"kind": "shipped", "name": "Agent that ships", "lap_time": min(shipped)})
        best: dict[str, float] = {}
        for _, one in people_laps(self._laps_dir):
            if (one.track, one.car) == (track, car):
                best.setdefault(one.driver, one.lap_time)
        rows += [{"kind": "person", "name": name, "lap_time": time} for name, time in list(best.items())[:MOST_PEOPLE]]
        return sorted(rows, key=lambda row: row["lap_time"])


def kept_classical_lap(track: str, car: str) -> RecordedLap | None:
    """The lap that the classical driver drove on this road, the newest where the road has changed."""
    files = sorted(classical_laps_folder().glob(f"*-{car}.json"), key=lambda file: file.lstat().st_mtime)
    for file in reversed(files):
        try:
            lap = read_lap(file)
        except InputError:
            continue
        if (lap.track, lap.car) == (track, car):
            return lap
    return None


async def _drive_classical(track: str, car: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "paddock", "tracks", "laps", track, "--car", car, "--json",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await process.wait()
    except asyncio.CancelledError:
        process.kill()
        raise

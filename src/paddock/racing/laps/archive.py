"""What each evaluated policy of a run drove, kept in the run's folder: small files that a timeline plays.

`step-<agent steps>.json` holds the best lap, or the longest way, on each road; `road-<key>.json` holds a road once.
Reading takes both as files from elsewhere: checked types, limits on sizes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from paddock.core.files import make_folder, replace_file
from paddock.core.reading import DamagedError, read_bytes
from paddock.racing.laps.records import LONGEST_LAP
from paddock.racing.laps.replays import Drive, as_replay

STEP = 0.1  # s between two points of a kept drive
MOST_KEPT = 200  # evaluations of a run
LARGEST_FILE = 4 * 2**20  # bytes
MOST_DRIVES, MOST_POINTS = 8, 80_000
STEP_FILE = re.compile(r"step-(\d{12})\.json")
ROAD_FILE = re.compile(r"road-([0-9a-f]{16})\.json")
Name = Annotated[str, msgspec.Meta(max_length=200)]
Key = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_LAP)]
Column = Annotated[list[float], msgspec.Meta(min_length=2, max_length=MOST_POINTS)]
Points = Annotated[list[tuple[float, float]], msgspec.Meta(min_length=3, max_length=10_000)]


class KeptDrive(msgspec.Struct):
    """A drive as a page plays it; `road`: the key of its road."""

    road: Key
    track: Name
    driver: Name
    kind: Name
    lap_time: Seconds | None
    duration: Seconds
    sectors: Annotated[list[float], msgspec.Meta(max_length=100)]
    dt: Annotated[float, msgspec.Meta(ge=0.01, le=10)]
    x: Column
    y: Column
    heading: Column

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.heading):
            raise ValueError("its columns differ in length")

    def drive(self, driver: str) -> Drive:
        """The same under the name of its driver."""
        time = self.dt * np.arange(len(self.x))
        samples = {"time": time, "x": np.array(self.x), "y": np.array(self.y), "heading": np.array(self.heading)}
        return Drive(driver, self.kind, self.lap_time, self.duration, samples, tuple(self.sectors))


class KeptEvaluation(msgspec.Struct):
    """What one policy drove, a drive for each road."""

    agent_steps: Annotated[int, msgspec.Meta(ge=0)]
    drives: Annotated[list[KeptDrive], msgspec.Meta(max_length=MOST_DRIVES)]


class _Side(msgspec.Struct):
    kerb: list[int]
    gravel: list[float]


class _Scenery(msgspec.Struct):
    unit: float
    line_width: float
    kerb_width: float
    verge_width: float
    sides: Annotated[list[_Side], msgspec.Meta(min_length=2, max_length=2)]
    trees: list[tuple[float, float, float]]
    start: list[tuple[bool, list[tuple[float, float]]]]


class _Track(msgspec.Struct):
    name: Name
    length: float
    left: Points
    right: Points
    centre: Points
    obstacles: list[tuple[float, float, float]]
    scenery: _Scenery


class _Outline(msgspec.Struct):
    body: list[tuple[float, float]]
    cabin: list[tuple[float, float]]
    roof: list[tuple[float, float]]
    stripe: list[tuple[float, float]]
    wing: list[tuple[float, float]]
    lamps: list[list[tuple[float, float]]]
    wheels: list[tuple[float, float]]
    wheel_size: tuple[float, float]


class _Car(msgspec.Struct):
    name: Name
    length: float
    width: float
    top_speed: float
    steer_limit: float
    outline: _Outline


class _Reference(msgspec.Struct):
    x: Column
    y: Column
    heading: Column
    speed: Column
    time: Column
    lap_time: Seconds
    sectors: list[float]


class Road(msgspec.Struct):
    """Where drives took place, as a page draws it."""

    track: _Track
    car: _Car
    reference: _Reference | None


def keep_drives(
    folder: Path, agent_steps: int, drives: Iterable[tuple[Mapping[str, Any], Drive]], *, kept: Container[str]
) -> None:
    """Write what the policy of this step drove, each with its road. `kept`: policies whose drives are never removed."""
    found = []
    for road, drive in drives:
        content = json.dumps(road).encode()
        key = hashlib.sha256(content).hexdigest()[:16]
        make_folder(folder)
        if not (folder / f"road-{key}.json").exists():
            replace_file(folder / f"road-{key}.json", content)
        found.append({"road": key, "track": road["track"]["name"], **as_replay(drive, STEP)})
    if found:
        values = {"agent_steps": agent_steps, "drives": found}
        replace_file(folder / f"step-{agent_steps:012d}.json", json.dumps(values).encode())
        _thin_out(folder, kept)


def kept_steps(folder: Path) -> list[int]:
    """The agent steps of all evaluations that are kept, in their order."""
    return sorted(int(name[1]) for file in folder.glob("step-*.json") if (name := STEP_FILE.fullmatch(file.name)))


def read_evaluation(folder: Path, agent_steps: int) -> KeptEvaluation:
    """What one policy drove; a DamagedError where the file cannot be read."""
    return _read(folder / f"step-{agent_steps:012d}.json", KeptEvaluation)


def read_road(folder: Path, key: str) -> Road:
    """A road by its key, which is one of a `KeptDrive`."""
    assert ROAD_FILE.fullmatch(f"road-{key}.json"), key
    return _read(folder / f"road-{key}.json", Road)


def _read(file: Path, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(read_bytes(file, limit=LARGEST_FILE), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(file, str(error)) from error


def _thin_out(folder: Path, kept: Container[str]) -> None:
    """Beyond `MOST_KEPT` the one goes whose neighbours are nearest; the first, the last and those of policies stay."""
    steps = kept_steps(folder)
    while len(steps) > MOST_KEPT:
        gaps = {
            steps[k]: steps[k + 1] - steps[k - 1]
            for k in range(1, len(steps) - 1)
            if f"step-{steps[k]:012d}" not in kept
        }
        if not gaps:
            return
        least = min(gaps, key=lambda step: gaps[step])
        (folder / f"step-{least:012d}.json").unlink(missing_ok=True)
        steps.remove(least)

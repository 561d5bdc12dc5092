"""Laps side by side, from what the evaluations of racing runs left in their folders (`results/best.json`)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from paddock.core.reading import DamagedError
from paddock.core.results import read_result
from paddock.experiments.compare.compare import Comparison, Member, rounded
from paddock.experiments.documents import checked

PLACES = 200  # along a lap, at which times are compared
SAMPLES = ("s", "time", "x", "y", "speed")
Metres = Annotated[float, msgspec.Meta(gt=0, le=1e7)]


class _Lap(msgspec.Struct):
    lap_time: float
    sectors: list[float]
    samples: dict[str, list[float]]

    def __post_init__(self) -> None:
        lengths = {len(self.samples.get(name, ())) for name in SAMPLES}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(f"a lap needs equally many samples of {', '.join(SAMPLES)}")


class _Heat(msgspec.Struct):
    x: float
    y: float
    cell: Metres
    cells: list[tuple[int, int, int, int]]


class _Track(msgspec.Struct):
    name: str
    length: Metres
    left: list[tuple[float, float]]
    right: list[tuple[float, float]]
    reference: _Lap
    heat: _Heat
    lap: _Lap | None


class _Traces(msgspec.Struct):
    tracks: list[_Track] = msgspec.field(default_factory=list)


class _Result(msgspec.Struct):
    traces: _Traces | None = None


def compared_laps(comparison: Comparison) -> tuple[list[dict[str, Any]], list[str]]:
    """For each track: the road, the reference lap, and of each group the best lap, its losses, and where cars were.
    Then sentences about what cannot be read."""
    found: dict[str, dict[str, Any]] = {}
    damage: list[str] = []
    for group in comparison.groups:
        driven = [track for member in group.members for track in _tracks_of(member, damage)]
        for name in dict.fromkeys(track["name"] for track in driven):
            mine = [track for track in driven if track["name"] == name]
            road = {key: mine[0][key] for key in ("name", "length", "left", "right", "reference")}
            entry = found.setdefault(name, road | {"groups": []})
            entry["groups"].append(_lap_of(group.label, mine, entry["reference"], entry["length"]))
    return list(found.values()), damage


def _tracks_of(member: Member, damage: list[str]) -> list[dict[str, Any]]:
    """What the run's best evaluation saw; nothing where it was not a racing run."""
    file = member.run.result_file("best")
    if not os.path.lexists(file):
        return []
    try:
        values = checked(file, read_result(file), _Result)
    except DamagedError as error:
        damage.append(str(error))
        return []
    return (values.get("traces") or {}).get("tracks", [])


def _lap_of(
    label: str, tracks: Sequence[Mapping[str, Any]], reference: Mapping[str, Any], length: float
) -> dict[str, Any]:
    laps = sorted((track["lap"] for track in tracks if track["lap"]), key=lambda lap: lap["lap_time"])
    best = laps[0] if laps else None
    return {
        "label": label,
        "lap": best,
        "lap_times": [lap["lap_time"] for lap in laps],
        "runs": len(tracks),
        "sector_deltas": _sector_deltas(best, reference),
        "losses": _losses(best, reference, length),
        "heat": _heat([track["heat"] for track in tracks]),
    }


def _sector_deltas(lap: Mapping[str, Any] | None, reference: Mapping[str, Any]) -> list[float] | None:
    """s lost to the reference in each sector."""
    if lap is None:
        return None
    sectors = [*lap["sectors"], *[math.nan] * len(reference["sectors"])]  # Both have as many, unless versions differ.
    return [mine - theirs for mine, theirs in zip(sectors, reference["sectors"], strict=False)]


def _losses(lap: Mapping[str, Any] | None, reference: Mapping[str, Any], length: float) -> dict[str, Any] | None:
    """s behind the reference at places along the lap (m), and the speeds of both there (km/h)."""
    if lap is None:
        return None
    places = np.linspace(0.0, length, PLACES)
    mine, theirs = (_along(one, places, length) for one in (lap, reference))
    return {
        "s": rounded(places),
        "behind": rounded(mine[0] - theirs[0]),
        "speed": rounded(3.6 * mine[1]),
        "reference_speed": rounded(3.6 * theirs[1]),
    }


def _along(lap: Mapping[str, Any], places: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Time since the line and speed at places along the lap."""
    samples = {name: np.asarray(values) for name, values in lap["samples"].items()}
    order = np.argsort(samples["s"], kind="stable")
    s = samples["s"][order]
    time = np.interp(places, [0.0, *s, length], [0.0, *samples["time"][order], lap["lap_time"]])
    return time, np.interp(places, s, samples["speed"][order], period=length)


def _heat(maps: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Visits of all of the group's cars together; the grid belongs to the track and is the same for all."""
    if not maps:
        return None
    cells: dict[tuple[int, int], list[int]] = {}
    for one in maps:
        for column, row, visits, off in one["cells"]:
            entry = cells.setdefault((column, row), [0, 0])
            entry[0] += visits
            entry[1] += off
    first = maps[0]
    flat = [[column, row, *counts] for (column, row), counts in sorted(cells.items())]
    return {"x": first["x"], "y": first["y"], "cell": first["cell"], "cells": flat}

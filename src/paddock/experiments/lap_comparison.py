"""Laps side by side, from what the evaluations of racing runs left in their folders (`judgements/best.json`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from paddock.experiments.compare import Comparison, Group, rounded

PLACES = 200  # along a lap, at which times are compared


def compared_laps(comparison: Comparison) -> list[dict[str, Any]]:
    """For each track: the road, the reference lap, and of each group the best lap, its losses, and where cars were."""
    found: dict[str, dict[str, Any]] = {}
    for group in comparison.groups:
        for track in _tracks_of(group):
            entry = found.setdefault(
                track["name"],
                {key: track[key] for key in ("name", "length", "left", "right", "reference")} | {"groups": []},
            )
            if all(one["label"] != group.label for one in entry["groups"]):
                entry["groups"].append(_lap_of(group, track["name"], entry["reference"], track["length"]))
    return list(found.values())


def _tracks_of(group: Group) -> list[dict[str, Any]]:
    return [track for evidence in map(_evidence, group.members) for track in evidence.get("tracks", [])]


def _evidence(member: Any) -> Mapping[str, Any]:
    """What the run's best evaluation saw; nothing where it was not a racing run."""
    try:
        return json.loads((member.run.judgements / "best.json").read_bytes()).get("evidence") or {}
    except (OSError, ValueError):
        return {}


def _lap_of(group: Group, name: str, reference: Mapping[str, Any], length: float) -> dict[str, Any]:
    tracks = [track for track in _tracks_of(group) if track["name"] == name]
    laps = sorted((track["lap"] for track in tracks if track["lap"]), key=lambda lap: lap["lap_time"])
    best = laps[0] if laps else None
    return {
        "label": group.label,
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
    return [mine - theirs for mine, theirs in zip(lap["sectors"], reference["sectors"], strict=True)]


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


def _heat(maps: list[Mapping[str, Any]]) -> dict[str, Any] | None:
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

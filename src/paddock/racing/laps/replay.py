"""A finished evaluation as something to watch: the circuit, the best lap on it, and the ways of the first cars.

Read from the results of an evaluation; nothing is simulated, and the simulator is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paddock.core.errors import InputError
from paddock.racing.laps.records import as_ghost
from paddock.sim.cars.car import load_car
from paddock.sim.cars.outline import drawn_outline

BEST = "best"
MOST_CARS, MOST_PLACES = 64, 20_000  # of the ways in a result; more is not from an evaluation
Values = Mapping[str, Any]


def replay_of(result: Values, *, driver: str = "agent") -> dict[str, Any] | None:
    """`scene` as a live run sends it, `laps` (ghosts: the best lap) and `drives` (`dt`, `cars`), of the first track on
    which a lap was completed, else of the first one; None where the result is not of laps."""
    try:
        traces = result["traces"]
        tracks = traces["tracks"]
        entry = next((one for one in tracks if one["lap"]), tracks[0])
        lap = entry["lap"]
        laps = [as_ghost(BEST, driver, float(lap["lap_time"]), lap["samples"])] if lap else []
        is_first = entry is tracks[0]
        drives = _drives(traces.get("drives")) if is_first else None
        scene = _scene(entry, str(traces["car"]))
    except (KeyError, TypeError, ValueError, IndexError, InputError):
        return None
    cars = len(drives["cars"]) if drives else len(laps)
    return {"scene": {**scene, "cars": max(cars, 1)}, "laps": laps, "drives": drives}


def _drives(given: Any) -> dict[str, Any] | None:
    if not given:
        return None
    cars = [
        {
            "x": _numbers(car["x"]),
            "y": _numbers(car["y"]),
            "heading": _numbers(car["heading"]),
            "lap_time": None if car["lap_time"] is None else float(car["lap_time"]),
        }
        for car in given["cars"][:MOST_CARS]
    ]
    return {"dt": float(given["dt"]), "cars": cars} if cars else None


def _numbers(values: Any) -> list[float]:
    if len(values) > MOST_PLACES:
        raise ValueError("too many places")
    return [float(value) for value in values]


def _scene(entry: Values, car: str) -> dict[str, Any]:
    common = {"kind": "racing", "group": 1, "rays": None}
    if (scene := entry.get("scene")) is not None:
        return {**common, **{name: scene[name] for name in ("dt", "car", "track", "reference", "sectors")}}
    return {**common, **_plain_scene(entry, car)}


def _plain_scene(entry: Values, car: str) -> dict[str, Any]:
    """The circuit of a result that was written before scenes were kept: the road alone."""
    left, right = np.asarray(entry["left"], np.float64), np.asarray(entry["right"], np.float64)
    centre, parameters = (left + right) / 2, load_car(car)
    bare = {"kerb": [0] * len(left), "gravel": [0.0] * len(left)}
    line = entry["reference"]["samples"]
    heading = np.arctan2(np.gradient(line["y"]), np.gradient(line["x"]))
    return {
        "dt": 0.05,
        "car": {
            "name": car,
            "length": parameters.length,
            "width": parameters.width,
            "top_speed": parameters.top_speed,
            "steer_limit": parameters.steer_limit,
            "outline": drawn_outline(),
        },
        "track": {
            "name": entry["name"],
            "length": float(entry["length"]),
            "left": left.tolist(),
            "right": right.tolist(),
            "centre": np.round(centre, 3).tolist(),
            "obstacles": [],
            "scenery": {
                "unit": 1.0,
                "line_width": 0.0,
                "kerb_width": 0.0,
                "verge_width": 0.0,
                "sides": [bare, bare],
                "trees": [],
                "start": [],
            },
        },
        "reference": {
            **{name: line[name] for name in ("x", "y", "speed", "time")},
            "heading": np.round(heading, 3).tolist(),
            "lap_time": float(entry["reference"]["lap_time"]),
            "sectors": list(entry["reference"]["sectors"]),
        },
        "sectors": [],
    }

"""The known lap times of a track and a car: the reference lap, the classical driver, shipped agents, people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddock.config.compose import compose
from paddock.config.schema import validate_target
from paddock.core.errors import InputError
from paddock.racing.agents import describe_agents
from paddock.racing.env.config import RacingConfig
from paddock.racing.laps.classical import kept_classical_lap
from paddock.racing.laps.drive import with_evaluation_rules
from paddock.racing.laps.records import read_laps
from paddock.sim.reference.lap import reference_lap
from paddock.sim.summaries import track_for_car


def lap_board(track: str, car: str, people: Path) -> list[dict[str, Any]]:
    """Rows of `kind`, `name` and `lap_time` s, quickest first. people: folder of recorded human laps."""
    road = track_for_car(track, car)
    values = compose("racing").values["environment"]
    config = validate_target({**values, "track": track, "car": car, "procedural": 0})
    if not isinstance(config, RacingConfig):
        raise InputError("the experiment 'racing' is not in the racing world; no lap can be driven.")
    rows = [{"kind": "reference", "name": "reference lap", "lap_time": reference_lap(road, car).lap_time}]
    classical = kept_classical_lap(with_evaluation_rules(config, num_envs=1), road)
    if classical is not None:
        rows.append({"kind": "classical", "name": classical.driver, "lap_time": classical.lap_time})
    for agent in describe_agents():
        if agent["car"] == car and road.name in agent["laps_on"]:
            rows.append({"kind": "shipped", "name": f"agent/{agent['name']}", "lap_time": agent["laps_on"][road.name]})
    for lap in read_laps(people, track=road.name, car=car):
        rows.append({"kind": "person", "name": lap.driver, "lap_time": lap.lap_time})
    return sorted(rows, key=lambda row: float(row["lap_time"]))

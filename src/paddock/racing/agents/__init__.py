"""Trained agents that ship with Paddock: one for each car on the default circuit, and one for several circuits.

Each folder is a saved policy with a `replay.json` and a `results.json`, written by `paddock export-policy RUN
--format agent`; docs/agents.md has the commands. Finding them needs neither torch nor the simulator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddock.core.errors import unknown_choice
from paddock.core.reading import DamagedError, read_json

FOLDER = Path(__file__).parent
AGENT = "agent"  # on the command line: the shipped agent that fits; `agent/NAME` is a certain one
DEFAULT_CAR = "gt"
REPLAY, RESULTS = "replay.json", "results.json"


def agent_names() -> list[str]:
    """The agents that ship."""
    return sorted(file.parent.name for file in FOLDER.glob("*/policy.json"))


def is_agent(given: str) -> bool:
    """Whether a person means a shipped agent."""
    return given == AGENT or given.startswith(f"{AGENT}/")


def agent_folder(given: str, *, car: str | None = None, track: str | None = None) -> Path:
    """The folder of a shipped agent: the one that is named, or the one for this car that laps this track quickest."""
    name = given.partition("/")[2] or _fitting(car or DEFAULT_CAR, track)
    if name not in agent_names():
        raise unknown_choice("shipped agent", name, agent_names())
    return FOLDER / name


def describe_agents() -> list[dict[str, Any]]:
    """Of each, for a list to choose from: name, car, tracks of the training, `laps_on` (tracks that it gets round from
    most starts, with its best lap), and the lap that it shows with its track."""
    return [_describe(name) for name in agent_names()]


def hard_track_note(given: str, folder: Path, track: str) -> str | None:
    """A sentence where a shipped agent was measured on this track and mostly does not get round."""
    if track not in (results := read_results(folder)) or track in _laps_on(results):
        return None
    one = results[track]
    return f"{given} completes a lap on {track} from only {one['finished']} of {one['starts']} starts."


def read_results(folder: Path) -> dict[str, Any]:
    """What an exported agent achieved on each track of its training."""
    try:
        results = read_json(folder / RESULTS)
    except DamagedError:
        return {}
    return results if isinstance(results, dict) else {}


def read_replay(name: str = DEFAULT_CAR) -> dict[str, Any] | None:
    """The circuit and the best lap of a shipped agent, to be watched."""
    try:
        replay = read_json(FOLDER / name / REPLAY)
    except DamagedError:
        return None
    return replay if isinstance(replay, dict) else None


def _fitting(car: str, track: str | None) -> str:
    laps = {
        row["name"]: row["laps_on"][track] for row in describe_agents() if row["car"] == car and track in row["laps_on"]
    }
    return min(laps, key=lambda name: float(laps[name])) if laps else car


def _laps_on(results: dict[str, Any]) -> dict[str, float]:
    return {track: one["best_lap"] for track, one in results.items() if 2 * one["finished"] > one["starts"]}


def _describe(name: str) -> dict[str, Any]:
    environment = read_json(FOLDER / name / "policy.json")["environment"]
    replay = read_replay(name) or {}
    track = environment["track"]
    tracks = track if isinstance(track, list) else [track]
    times = [lap["lap_time"] for lap in replay.get("laps", [])]
    return {
        "name": name,
        "car": environment["car"],
        "track": replay["scene"]["track"]["name"] if replay else None,
        "tracks": tracks,
        "laps_on": _laps_on(read_results(FOLDER / name)),
        "lap_time": min(times, default=None),
    }

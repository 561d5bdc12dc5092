"""Trained agents that ship with Paddock: one for each car, on the default circuit.

Each folder is a saved policy with a `replay.json`, written by `paddock export-policy RUN --format agent`;
docs/agents.md has the commands. Finding them needs neither torch nor the simulator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddock.core.errors import unknown_choice
from paddock.core.reading import DamagedError, read_json

FOLDER = Path(__file__).parent
AGENT = "agent"  # on the command line: the shipped agent that fits; `agent/NAME` is a certain one
DEFAULT_CAR = "gt"
REPLAY = "replay.json"


def agent_names() -> list[str]:
    """The agents that ship."""
    return sorted(file.parent.name for file in FOLDER.glob("*/policy.json"))


def is_agent(given: str) -> bool:
    """Whether a person means a shipped agent."""
    return given == AGENT or given.startswith(f"{AGENT}/")


def agent_folder(given: str, *, car: str | None = None) -> Path:
    """The folder of a shipped agent: the one that is named, or the one for this car."""
    name = given.partition("/")[2] or car or DEFAULT_CAR
    if name not in agent_names():
        raise unknown_choice("shipped agent", name, agent_names())
    return FOLDER / name


def describe_agents() -> list[dict[str, Any]]:
    """Name, car, tracks of the training, and the best lap with its track, of each: for a list to choose from."""
    return [_describe(name) for name in agent_names()]


def read_replay(name: str = DEFAULT_CAR) -> dict[str, Any] | None:
    """The circuit and the best lap of a shipped agent, to be watched."""
    try:
        replay = read_json(FOLDER / name / REPLAY)
    except DamagedError:
        return None
    return replay if isinstance(replay, dict) else None


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
        "lap_time": min(times, default=None),
    }

"""What can be chosen for a new run or a drive: experiments, tracks, cars. Facts about tracks come from a process of
their own, because the simulator is larger than this server may be."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

import yaml

from paddock.config.compose import choices, describe
from paddock.core.errors import unknown_choice
from paddock.dashboard.errors import Refused
from paddock.sim.car import CARS

PROCEDURAL = re.compile(r"procedural:\d{1,9}")


def experiments() -> list[dict[str, Any]]:
    """The shipped experiments; environment and workflow are names of the groups they choose from."""
    files = choices("experiment")
    found = []
    for name, file in files.items():
        chosen = {"environment": "gym", "workflow": "ppo"} | _choices_of(name)
        is_racing = chosen["environment"] == "racing"
        found.append({"name": name, "description": describe(file), **chosen, "is_racing": is_racing})
    return found


def _choices_of(name: str) -> dict[str, str]:
    """What an experiment and those it builds upon say in their defaults."""
    values = yaml.safe_load(choices("experiment")[name].read_text(encoding="utf-8")) or {}
    chosen: dict[str, str] = {}
    for entry in values.get("defaults", []):
        if isinstance(entry, str) and entry != "_self_":
            chosen |= _choices_of(entry)
        elif isinstance(entry, dict):
            for key, value in entry.items():
                group = str(key).removeprefix("override ").strip("/ ")
                if group in ("environment", "workflow"):
                    chosen[group] = str(value)
    return chosen


class Tracks:
    """Facts about the tracks, found out once."""

    def __init__(self) -> None:
        self._facts: list[dict[str, Any]] | None = None
        self._lock = asyncio.Lock()

    async def all(self) -> list[dict[str, Any]]:
        """Every track with its length, difficulty and the reference lap of the usual car."""
        async with self._lock:
            if self._facts is None:
                self._facts = await _ask("tracks", "list", "--json")
            return self._facts

    async def check(self, name: Any) -> str:
        """A track's name as it came in a request, if there is one of that name."""
        if not isinstance(name, str):
            raise Refused("track must be the name of a track; GET /api/tracks lists them.")
        names = [fact["name"] for fact in await self.all()]
        if name not in names and not PROCEDURAL.fullmatch(name):
            raise unknown_choice("track", name[:80], [*names, "procedural:SEED"])
        return name


def check_car(name: Any) -> str:
    """A car's name as it came in a request, if there is one of that name."""
    if not isinstance(name, str) or name not in CARS:
        raise unknown_choice("car", str(name)[:80], CARS)
    return name


async def _ask(*arguments: str) -> list[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "paddock", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise Refused("the tracks cannot be listed; `paddock tracks list` on the command line says why.", 409)
    facts = json.loads(output)
    return [
        {
            "name": fact["name"],
            "title": fact["name"].replace("-", " ").replace("_", " ").capitalize(),
            "length": fact["length_m"],
            "width": fact["width_m"],
            "corners": fact["corners"],
            "difficulty": fact["difficulty"],
            "description": fact["description"],
            "reference": fact["reference_s"],
        }
        for fact in facts
    ]

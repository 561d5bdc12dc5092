"""What can be chosen for a new run or a drive: tracks and cars. Facts about tracks come from a process of
their own, because the simulator is larger than this server may be."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import paddock.sim
from paddock.core.errors import unknown_choice
from paddock.core.paths import paddock_home
from paddock.dashboard.errors import Refused
from paddock.sim.cars.car import CARS

PATIENCE = 1.5  # s that a request for the tracks waits for the facts about them
PROCEDURAL = re.compile(r"procedural:\d{1,9}")


class Tracks:
    """Facts about the tracks, found out by a process of their own: once, and again when imported tracks change."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[list[dict[str, Any]]] | None = None
        self._imported: list[tuple[str, int]] = []

    async def all(self) -> list[dict[str, Any]]:
        """Every track with its length, difficulty and the reference lap of the usual car; only what is known at a
        glance while the rest is still being found out. `error` says why a track cannot be used."""
        imported = _imported()
        if self._asking is not None and self._asking.done() and imported != self._imported:
            self._asking = None
        if self._asking is None or (self._asking.done() and self._asking.exception() is not None):
            self._imported = imported
            self._asking = asyncio.create_task(_ask("tracks", "list", "--json"))
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.shield(self._asking)
        except TimeoutError:
            return [_fact(name) for name in track_names()]

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def check(self, name: Any) -> str:
        """A track's name as it came in a request, if there is one of that name."""
        if not isinstance(name, str):
            raise Refused("track must be the name of a track; GET /api/tracks lists them.")
        if name not in track_names() and not PROCEDURAL.fullmatch(name):
            raise unknown_choice("track", name[:80], [*track_names(), "procedural:SEED"])
        return name


def track_names() -> list[str]:
    """Shipped and imported tracks by the names of their files; the simulator itself is not needed for that."""
    shipped = Path(paddock.sim.__file__).parent / "tracks/circuits"
    folders = ((shipped, "*.yaml"), (paddock_home() / "tracks", "[!.]*.csv"))
    return [file.stem for folder, pattern in folders for file in sorted(folder.glob(pattern))]


def _imported() -> list[tuple[str, int]]:
    """Names and times of the imported files, to notice when one has changed."""
    files = sorted((paddock_home() / "tracks").glob("[!.]*.csv"))
    return [(file.name, file.lstat().st_mtime_ns) for file in files]


def check_car(name: Any) -> str:
    """A car's name as it came in a request, if there is one of that name."""
    if not isinstance(name, str) or name not in CARS:
        raise unknown_choice("car", str(name)[:80], CARS)
    return name


def track_title(name: str) -> str:
    """A track's name for people: `BrandsHatch` is Brands Hatch, `IMS` stays, `my_oval` is My oval."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("-", " ").replace("_", " ").strip()
    return words[:1].upper() + words[1:]


async def _ask(*arguments: str) -> list[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "paddock", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise Refused("the tracks cannot be listed; `paddock tracks list` on the command line says why.", 409)
    return [
        _fact(
            fact["name"],
            length=fact["length_m"],
            width=fact["width_m"],
            corners=fact["corners"],
            difficulty=fact["difficulty"],
            description=fact["description"],
            reference=fact["reference_s"],
            outline=fact["outline"],
            error=fact["error"],
        )
        for fact in json.loads(output)
    ]


def _fact(name: str, **known: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(
        ("length", "width", "corners", "difficulty", "description", "reference", "outline", "error")
    )
    return {"name": name, "title": track_title(name), **unknown, **known}

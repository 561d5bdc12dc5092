"""The policies of a run: every one that improved a record is kept under a name of its own, with what it achieved."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from paddock.core.clock import now
from paddock.core.errors import InputError, did_you_mean
from paddock.core.files import make_folder, replace_file
from paddock.core.reading import DamagedError, read_json
from paddock.core.trust import sign
from paddock.experiments.documents import Count, checked
from paddock.experiments.run import RunFolder

RECORD = "record.json"
BEST, LATEST = "best", "latest"
MOST_BY_HAND = 100
Better = Literal["high", "low"]


class _Record(msgspec.Struct):
    agent_steps: Count = 0
    saved: str | None = None
    metrics: dict[str, float | None] = msgspec.field(default_factory=dict)
    improved: list[str] = msgspec.field(default_factory=list)


def training_tracks(environment: Mapping[str, Any]) -> dict[str, Any]:
    """On which roads an agent of the racing world was trained: `tracks` by name, or so many `procedural` ones."""
    given, track = environment.get("procedural"), environment.get("track")
    procedural = given if isinstance(given, int) else 0
    tracks = track if isinstance(track, list) else [track]
    named = [_track_name(one) for one in tracks if isinstance(one, str)]
    return {"tracks": [] if procedural else named, "procedural": procedural}


def _track_name(given: str) -> str:
    """A file's track is called as the file is."""
    return given.rpartition("/")[2].removesuffix(".csv")


class Savable(Protocol):
    """A policy that can be written to a folder."""

    def save(self, folder: Path, environment: dict[str, Any] | None = None) -> None: ...


class PolicyStore:
    """The `policy/` folder of a run. records: which metrics are worth a policy when they improve, and which way."""

    def __init__(self, run: RunFolder, environment: dict[str, Any], records: Mapping[str, Better], keep: int) -> None:
        self._folder = run.policy
        self._environment = environment
        self._records, self._keep = records, keep

    def export(self, actor: Savable, name: str, *, agent_steps: int, **details: Any) -> None:
        """Write the policy under a name; `details` stand in its record."""
        folder = self._folder / name
        make_folder(folder)
        actor.save(folder, self._environment)
        record = {"name": name, "agent_steps": agent_steps, "saved": now(), **details}
        replace_file(folder / RECORD, json.dumps(record).encode())
        sign(folder, read_json(folder / "policy.json"))

    def keep_if_improved(self, actor: Savable, metrics: Mapping[str, float], *, agent_steps: int) -> list[str]:
        """Keep the policy if it set a record; the metrics of which it did."""
        improved = [name for name in self._records if self._improves(name, metrics.get(name))]
        if improved and self._keep:
            name = f"step-{agent_steps:012d}"
            self.export(actor, name, agent_steps=agent_steps, metrics=dict(metrics), improved=improved)
            self._thin_out()
        return improved

    def save_by_hand(self, actor: Savable, name: str | None, metrics: Mapping[str, float], *, agent_steps: int) -> str:
        """Keep the policy because somebody wants it; under which name."""
        name = name or f"saved-{agent_steps:012d}"
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name) or name in (BEST, LATEST) or name.startswith("step-"):
            raise InputError(
                f"'{name}' cannot name a policy: use up to 64 letters, digits, '-', '_' and '.'; "
                f"'{BEST}', '{LATEST}' and 'step-...' are taken."
            )
        if sum("by_hand" in record for record in self._all()) >= MOST_BY_HAND:
            raise InputError(f"{MOST_BY_HAND} policies of this run were saved by hand; delete some from its folder.")
        self.export(actor, name, agent_steps=agent_steps, metrics=dict(metrics), by_hand=True)
        return name

    def names(self) -> set[str]:
        """Of all policies that are kept now."""
        return {record["name"] for record in self._all()}

    def _all(self) -> list[dict[str, Any]]:
        return list_policies(self._folder)

    def _improves(self, name: str, value: float | None) -> bool:
        if value is None or not math.isfinite(value):
            return False
        sign = 1.0 if self._records[name] == "high" else -1.0
        return all(sign * value > sign * best for best in self._values_of(name))

    def _values_of(self, metric: str) -> list[float]:
        return [value for record in self._all() if (value := record["metrics"].get(metric)) is not None]

    def _thin_out(self) -> None:
        """The oldest go; those that still hold a record stay."""
        kept = sorted((record for record in self._all() if record.get("improved")), key=lambda one: one["agent_steps"])
        holders = set()
        for metric, better in self._records.items():
            scored = [record for record in kept if metric in record["metrics"]]
            if scored:
                pick = max if better == "high" else min
                holders.add(pick(scored, key=lambda record: record["metrics"][metric])["name"])
        surplus = [record for record in kept if record["name"] not in holders]
        for record in surplus[: max(len(kept) - self._keep, 0)]:
            shutil.rmtree(self._folder / record["name"], ignore_errors=True)


def list_policies(folder: Path) -> list[dict[str, Any]]:
    """The records of a run's policies, oldest first: `name`, `agent_steps`, `saved`, `metrics`; of a damaged one only
    the name is known."""
    found = []
    for file in folder.glob("*/policy.json"):
        record = _read_record(file.parent / RECORD)
        found.append({"agent_steps": 0, "saved": None, "metrics": {}, **record, "name": file.parent.name})
    return sorted(found, key=lambda record: (record["agent_steps"], record["name"]))


def policy_folder(run: RunFolder, name: str) -> Path:
    """The folder of one of a run's policies."""
    known = [record["name"] for record in list_policies(run.policy)]
    if name not in known:
        listed = ", ".join(known) or "none yet"
        raise InputError(f"run '{run.name}' has no policy '{name}'.{did_you_mean(name, known)} There are: {listed}.")
    return run.policy / name


def _read_record(file: Path) -> dict[str, Any]:
    try:
        return checked(file, read_json(file), _Record)
    except DamagedError:
        return {}

"""What is known of a run at a glance: read from its folder, kept in the store's index, filtered and listed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from paddock.config.migrate import SCHEMA_VERSION, migrate
from paddock.config.moved import short_name
from paddock.core.errors import InputError
from paddock.core.mappings import flatten
from paddock.core.reading import DamagedError
from paddock.experiments.documents import LogState
from paddock.experiments.run import RunFolder

Read = TypeVar("Read")
RUNNING, CRASHED, DAMAGED = "running", "crashed", "damaged"
STARTING = "starting"  # a folder without a manifest
FINISHED = "finished"
ALIVE = (RUNNING, "paused")  # statuses that only a living process can have
UNSETTLED = (*ALIVE, STARTING)
NOT_THE_RECIPE = ("seed", "name", "tags", "runs_dir", "logging", "checkpoint", "monitoring", "debug", "schema_version")
"""Parts of a configuration in which runs of one and the same recipe may differ."""


@dataclass(frozen=True)
class MetricSummary:
    """One metric over a run: the last value, the lowest, the highest, and the agent steps of the last one."""

    last: float
    low: float
    high: float
    step: int


@dataclass(frozen=True)
class RunSummary:
    """One run. created, ended: ISO times; seconds: wall clock of training; recipe: equal for runs that differ in seed
    only; metric: what the run's evaluation calls best; note: of a person; damage: sentences about files that cannot be
    read, in which case the status is `damaged`; metrics: those that were asked for."""

    folder: str
    id: str
    name: str
    status: str
    created: str
    ended: str | None
    algorithm: str
    environment: str
    seed: int | None
    agent_steps: int
    seconds: float
    git_commit: str | None
    is_dirty: bool
    config_hash: str
    recipe: str
    is_pinned: bool
    tags: tuple[str, ...]
    metric: str
    note: str = ""
    damage: tuple[str, ...] = ()
    metrics: Mapping[str, MetricSummary] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


def read_summary(run: RunFolder) -> RunSummary:
    """The summary of a run's folder, without its metrics. A damaged file leaves its fields empty and a sentence."""
    damage: list[str] = []
    manifest = readable(run.read_manifest, damage) or {}
    config = _current_config(run, damage)
    plain: dict[str, Any] = {"tags": config.get("tags") or [], "pinned": False, "note": "", "name": None}
    labels = (readable(run.read_labels, damage) if run.has_labels() else None) or plain
    git = manifest.get("git") or {}
    summary = RunSummary(
        folder=run.name,
        id=manifest.get("id", ""),
        name=labels["name"] or config.get("name") or run.name,
        status=manifest.get("status", STARTING),
        created=manifest.get("created", ""),
        ended=manifest.get("ended"),
        algorithm=_module_of(config.get("workflow")),
        environment=_environment(config.get("environment")),
        seed=manifest.get("seed", config.get("seed")),
        agent_steps=manifest.get("agent_steps") or 0,
        seconds=manifest.get("seconds") or 0.0,
        git_commit=git.get("commit"),
        is_dirty=git.get("dirty", False),
        config_hash=manifest.get("config_hash", ""),
        recipe=recipe_of(config),
        is_pinned=labels["pinned"],
        tags=tuple(labels["tags"]),
        metric=(config.get("evaluation") or {}).get("metric") or "eval/return",
        note=labels["note"],
        config=dict(flatten(config)),
    )
    return with_damage(summary, damage)


def with_damage(summary: RunSummary, sentences: Sequence[str]) -> RunSummary:
    """The summary with these sentences beside those that it has; any of them makes the run a damaged one."""
    if not sentences:
        return summary
    return replace(summary, status=DAMAGED, damage=tuple(dict.fromkeys([*summary.damage, *sentences])))


def log_damage(summary: RunSummary, file: Path, state: LogState) -> list[str]:
    """What is wrong with a log of a run. Only one that was cut off may end within a line, or before the first."""
    sentences = state.damage(file)
    if summary.status == FINISHED and state.is_torn:
        sentences.append(f"'{file}' ends within a line, though the run has finished.")
    if summary.status == FINISHED and state.is_empty and summary.agent_steps:
        sentences.append(f"'{file}' holds nothing, though the run made {summary.agent_steps:,} steps.")
    return sentences


def event_damage(summary: RunSummary, run: RunFolder) -> list[str]:
    """What is wrong with the events of a run."""
    damage: list[str] = []
    noted = readable(run.event_lines, damage)
    return damage if noted is None else log_damage(summary, run.events_file, noted[1])


def as_of_now(summary: RunSummary, run: RunFolder) -> RunSummary:
    """The summary with the status that the run has if no process holds it any more."""
    if summary.status not in UNSETTLED or run.is_held():
        return summary
    if summary.status == STARTING:
        return with_damage(summary, [f"'{run.manifest_file}' is missing, or says nothing."])
    return replace(summary, status=status_now(summary.status, run))


def status_now(status: str, run: RunFolder) -> str:
    """The status as written, or `crashed` where only a living process can have it and none holds the run."""
    return CRASHED if status in ALIVE and not run.is_held() else status


def readable_runs(runs: Sequence[RunFolder]) -> tuple[list[RunFolder], list[str]]:
    """The runs whose configuration and manifest can be read, and sentences about those that are left out; an InputError
    with these where none is left."""
    kept, sentences = [], []
    for run in runs:
        damage: list[str] = []
        readable(run.read_manifest, damage)
        _current_config(run, damage)
        if damage:
            sentences += [f"Run '{run.name}' is damaged and left out: {sentence}" for sentence in damage]
        else:
            kept.append(run)
    if runs and not kept:
        raise InputError(" ".join(sentences))
    return kept, sentences


def readable(read: Callable[[], Read], damage: list[str]) -> Read | None:
    """What a reader gives; None, and a sentence more in `damage`, where the file is damaged."""
    try:
        return read()
    except DamagedError as error:
        damage.append(str(error))
        return None


def recipe_of(config: Mapping[str, Any]) -> str:
    """A hash of what a run was made from, but for the seed and what does not change learning."""
    kept = {key: value for key, value in config.items() if key not in NOT_THE_RECIPE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _current_config(run: RunFolder, damage: list[str]) -> dict[str, Any]:
    """A run's configuration as this version writes it; as it stands where that cannot be done."""
    values = readable(run.read_config, damage)
    if values is None:
        return {}
    version = values.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:  # Of a newer Paddock, which is no damage.
        return values
    try:
        return migrate(values)
    except InputError as error:
        damage.append(f"'{run.config_file}' cannot be used: {error}")
        return values


def _module_of(part: Any) -> str:
    return short_name(str((part or {}).get("_target_", "")))


def _environment(part: Any) -> str:
    """A Gymnasium id as it is; of the racing world the name of its tracks."""
    values = part or {}
    if "id" in values:
        return str(values["id"])
    if values.get("procedural"):
        return f"{_module_of(part)}/procedural"
    track = values.get("track")
    place = "+".join(map(str, track)) if isinstance(track, list) else track
    return f"{_module_of(part)}/{place}" if place else _module_of(part)

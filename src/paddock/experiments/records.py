"""What is known of a run at a glance: read from its folder, kept in the store's index, filtered and listed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.config.migrate import migrate
from paddock.core.errors import InputError
from paddock.core.mappings import flatten
from paddock.experiments.run import RunFolder

RUNNING, CRASHED = "running", "crashed"
ALIVE = (RUNNING, "paused")  # statuses that only a living process can have
NOT_THE_RECIPE = ("seed", "name", "tags", "runs_dir", "logging", "checkpoint", "monitoring", "debug", "schema_version")
"""Parts of a configuration in which runs of one and the same recipe may differ."""


@dataclass(frozen=True)
class Summary:
    """One metric over a run: the last value, the lowest, the highest, and the agent steps of the last one."""

    last: float
    low: float
    high: float
    step: int


@dataclass(frozen=True)
class RunRecord:
    """One run. created, ended: ISO times; seconds: wall clock of training; recipe: equal for runs that differ in seed
    only; metric: what the run's evaluation calls best; metrics: those that were asked for."""

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
    metrics: Mapping[str, Summary] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


def read_record(run: RunFolder) -> RunRecord:
    """The record of a run's folder, without its metrics. A damaged part leaves its fields empty."""
    manifest, config = _readable(run.read_manifest), _config(run)
    labels = _readable(run.read_labels) if run.labels_file.exists() else {"tags": config.get("tags")}
    git = manifest.get("git") or {}
    return RunRecord(
        folder=run.name,
        id=str(manifest.get("id", "")),
        name=str(config.get("name", run.name)),
        status=str(manifest.get("status", "unknown")),
        created=str(manifest.get("created", "")),
        ended=manifest.get("ended"),
        algorithm=_module_of(config.get("workflow")),
        environment=_environment(config.get("environment")),
        seed=manifest.get("seed", config.get("seed")),
        agent_steps=int(manifest.get("agent_steps") or 0),
        seconds=float(manifest.get("seconds") or 0.0),
        git_commit=git.get("commit"),
        is_dirty=bool(git.get("dirty")),
        config_hash=str(manifest.get("config_hash", "")),
        recipe=recipe_of(config),
        is_pinned=bool(labels.get("pinned")),
        tags=tuple(labels.get("tags") or ()),
        metric=str((config.get("evaluation") or {}).get("metric", "eval/return")),
        config=dict(flatten(config)),
    )


def recipe_of(config: Mapping[str, Any]) -> str:
    """A hash of what a run was made from, but for the seed and what does not change learning."""
    kept = {key: value for key, value in config.items() if key not in NOT_THE_RECIPE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _config(run: RunFolder) -> dict[str, Any]:
    """The run's configuration as this version writes it; as it stands where that cannot be done."""
    values = _readable(run.read_config)
    try:
        return migrate(values)
    except InputError:
        return values


def _readable(read: Any) -> dict[str, Any]:
    try:
        values = read()
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _module_of(part: Any) -> str:
    """`paddock.workflows.ppo.PPO` as `ppo`."""
    names = str((part or {}).get("_target_", "")).split(".")
    return names[-2] if len(names) > 1 else ""


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

"""Making room: which runs lose their heavy files, and what that frees. Configurations and metrics always stay."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import InputError
from paddock.core.reading import require_regular
from paddock.experiments.run import RunFolder
from paddock.experiments.store.records import ALIVE, DAMAGED, STARTING, RunRecord
from paddock.experiments.store.show import folder_size
from paddock.experiments.store.store import Store

log = logging.getLogger(__name__)

HEAVY = ("checkpoints", "policy", "videos", "tensorboard", "faults", "wandb")
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True)
class Plan:
    """kept: runs that stay whole, with the reason. thinned: the others, with the bytes that they give back."""

    kept: dict[str, str]
    thinned: dict[str, int]

    @property
    def freed(self) -> int:
        return sum(self.thinned.values())


def plan_cleanup(
    store: Store,
    *,
    keep_best: int | None = None,
    keep_recent: int | None = None,
    max_size: int | None = None,
) -> Plan:
    """Decide. Pinned and running runs always stay whole; beyond the best of each environment and the newest, runs give
    up their heavy files, oldest first, all of them or only until `max_size` bytes remain."""
    if keep_best is None and keep_recent is None and max_size is None:
        raise InputError("say what to keep: --keep-best N, --keep-recent N, --max-size SIZE, or several of them.")
    records = store.records()
    records = store.records(metrics={record.metric for record in records})
    kept = {record.folder: "pinned" for record in records if record.is_pinned}
    spared = (*ALIVE, STARTING, DAMAGED)  # Of a damaged run nobody knows whether it is pinned.
    kept |= {record.folder: record.status for record in records if record.status in spared and not record.is_pinned}
    for record in _best(records, keep_best or 0):
        kept.setdefault(record.folder, "among the best")
    for record in records[len(records) - (keep_recent or 0) :]:
        kept.setdefault(record.folder, "recent")
    heavy = {record.folder: heavy_size(RunFolder(store.runs_dir / record.folder)) for record in records}
    candidates = [record.folder for record in records if record.folder not in kept and heavy[record.folder]]
    if max_size is not None:
        candidates, others = _until(candidates, heavy, sum(_whole_sizes(store, records)) - max_size)
        kept |= dict.fromkeys(others, "there is room")
    return Plan(kept, {folder: heavy[folder] for folder in candidates})


def carry_out(store: Store, plan: Plan) -> None:
    """Remove what the plan says. A run that has come to life since is left alone."""
    for folder in plan.thinned:
        run = RunFolder(store.runs_dir / folder)
        if run.is_held():
            continue
        try:
            _thin(run, plan.thinned[folder])
        except (InputError, OSError) as error:
            log.warning("run '%s' stays as it is: %s", folder, error)


def _thin(run: RunFolder, freed: int) -> None:
    require_regular(run.events_file)
    with run.lock():
        for name in HEAVY:
            shutil.rmtree(run.path / name, ignore_errors=True)
        run.event("cleanup", freed=freed)


def heavy_size(run: RunFolder) -> int:
    """Bytes that a cleanup would free."""
    return sum(folder_size(run.path / name) for name in HEAVY if (run.path / name).is_dir())


def parse_size(text: str) -> int:
    """`50G`, `800M`, `1.5T` or plain bytes."""
    match = re.fullmatch(r"([\d.]+)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise InputError(f"--max-size '{text}' is not a size; write a number with K, M, G or T, for example 50G.")
    return int(float(match[1]) * UNITS[match[2].upper()])


def _best(records: Sequence[RunRecord], count: int) -> list[RunRecord]:
    """The best of each environment, by what its runs are ranked by."""
    by_task: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        if record.metric in record.metrics:
            by_task.setdefault((record.environment, record.metric), []).append(record)
    ranked = (sorted(some, key=lambda one: one.metrics[one.metric].high, reverse=True) for some in by_task.values())
    return [record for some in ranked for record in some[:count]]


def _until(candidates: Sequence[str], heavy: dict[str, int], excess: int) -> tuple[list[str], list[str]]:
    """The oldest candidates that together bring back `excess` bytes, and the rest."""
    chosen: list[str] = []
    for folder in candidates:
        if excess <= 0:
            break
        chosen.append(folder)
        excess -= heavy[folder]
    return chosen, [folder for folder in candidates if folder not in chosen]


def _whole_sizes(store: Store, records: Sequence[RunRecord]) -> list[int]:
    return [folder_size(Path(store.runs_dir / record.folder)) for record in records]

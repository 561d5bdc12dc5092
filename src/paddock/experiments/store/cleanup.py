"""Making room: which runs lose their heavy files, and what that frees. Configurations and metrics always stay."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import InputError
from paddock.core.files import folder_size
from paddock.core.reading import require_regular
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import Store
from paddock.experiments.store.summaries import ALIVE, DAMAGED, STARTING, RunSummary

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
    summaries = store.summaries()
    summaries = store.summaries(metrics={summary.metric for summary in summaries})
    kept = {summary.folder: "pinned" for summary in summaries if summary.is_pinned}
    spared = (*ALIVE, STARTING, DAMAGED)  # Of a damaged run nobody knows whether it is pinned.
    kept |= {
        summary.folder: summary.status for summary in summaries if summary.status in spared and not summary.is_pinned
    }
    for summary in _best(summaries, keep_best or 0):
        kept.setdefault(summary.folder, "among the best")
    for summary in summaries[len(summaries) - (keep_recent or 0) :]:
        kept.setdefault(summary.folder, "recent")
    heavy = {summary.folder: heavy_size(RunFolder(store.runs_dir / summary.folder)) for summary in summaries}
    candidates = [summary.folder for summary in summaries if summary.folder not in kept and heavy[summary.folder]]
    if max_size is not None:
        candidates, others = _until(candidates, heavy, sum(_whole_sizes(store, summaries)) - max_size)
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


def _best(summaries: Sequence[RunSummary], count: int) -> list[RunSummary]:
    """The best of each environment, by what its runs are ranked by."""
    by_task: dict[tuple[str, str], list[RunSummary]] = {}
    for summary in summaries:
        if summary.metric in summary.metrics:
            by_task.setdefault((summary.environment, summary.metric), []).append(summary)
    ranked = (sorted(some, key=lambda one: one.metrics[one.metric].high, reverse=True) for some in by_task.values())
    return [summary for some in ranked for summary in some[:count]]


def _until(candidates: Sequence[str], heavy: dict[str, int], excess: int) -> tuple[list[str], list[str]]:
    """The oldest candidates that together bring back `excess` bytes, and the rest."""
    chosen: list[str] = []
    for folder in candidates:
        if excess <= 0:
            break
        chosen.append(folder)
        excess -= heavy[folder]
    return chosen, [folder for folder in candidates if folder not in chosen]


def _whole_sizes(store: Store, summaries: Sequence[RunSummary]) -> list[int]:
    return [folder_size(Path(store.runs_dir / summary.folder)) for summary in summaries]

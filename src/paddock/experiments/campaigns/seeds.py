"""One recipe over several seeds: side by side in processes of their own, and as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from paddock.core.errors import InputError
from paddock.experiments.campaigns.executor import Job, LocalExecutor
from paddock.experiments.display import duration, number, show_table
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import Store
from paddock.experiments.store.summaries import RUNNING, RunSummary

LOOK_EVERY = 0.5  # s
WAITING, FAILED = "waiting", "failed"
COLUMNS = (">seed", "status", ">steps", ">time")


@dataclass(frozen=True)
class SeedProgress:
    """How one seed stands. log: what its process prints."""

    seed: int
    status: str
    summary: RunSummary | None
    log: Path


def run_seeds(
    arguments: Sequence[str],
    seeds: Sequence[int],
    executor: LocalExecutor,
    *,
    runs_dir: Path,
    name: str,
    metric: str,
    watch: Callable[[list[SeedProgress]], None] = lambda progress: None,
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> list[SeedProgress]:
    """Run `paddock ARGUMENTS --seed N` for every seed; asked to stop, every process saves and ends."""
    logs = runs_dir / "logs" / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    jobs = [Job(str(seed), [*arguments, "--seed", str(seed)], logs / f"seed-{seed}.log") for seed in seeds]
    try:
        logs.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"no run can be written to '{runs_dir}': {error.strerror}.") from error
    started: dict[str, int] = {}  # process ids
    codes: dict[str, int] = {}
    store = Store(runs_dir)

    def look() -> list[SeedProgress]:
        codes.update(executor.ended())
        store.refresh()
        summaries = _by_process(store.summaries(metrics=[metric]), runs_dir, set(started.values()))
        return [_progress(job, started.get(job.key), codes.get(job.key), summaries) for job in jobs]

    try:
        while len(codes) < len(jobs) and not is_asked_to_stop():
            for job in [one for one in jobs if one.key not in started]:
                if executor.has_room():
                    started[job.key] = executor.submit(job)
            watch(look())
            time.sleep(LOOK_EVERY)
        executor.close()
        watch(progress := look())
        return progress
    finally:
        executor.close()
        store.close()


def _by_process(summaries: Sequence[RunSummary], runs_dir: Path, processes: set[int]) -> dict[int, RunSummary]:
    """Runs by the process that trains them; the newest where a number was used again."""
    newest = summaries[-max(100, 4 * len(processes)) :]
    manifests = [(one, RunFolder(runs_dir / one.folder).read_manifest()) for one in newest]
    return {manifest["pid"]: one for one, manifest in manifests if manifest.get("pid") in processes}


def _progress(job: Job, process: int | None, code: int | None, summaries: Mapping[int, RunSummary]) -> SeedProgress:
    summary = summaries.get(process) if process is not None else None
    status = summary.status if summary else RUNNING
    if process is None:
        status = WAITING
    elif code:
        status = FAILED
    return SeedProgress(int(job.key), status, summary, job.log)


def seed_rows(progress: Sequence[SeedProgress], metric: str) -> list[list[str]]:
    """Cells of the live table."""
    return [_row(seed_values(one, metric), metric) for one in progress]


def seed_values(one: SeedProgress, metric: str) -> dict[str, Any]:
    """A seed's run as plain values."""
    summary = one.summary
    values = summary.metrics.get(metric) if summary else None
    return {
        "seed": one.seed,
        "run": summary.folder if summary else None,
        "status": one.status,
        "agent_steps": summary.agent_steps if summary else 0,
        "seconds": summary.seconds if summary else 0.0,
        "best_score": values.high if values else None,
        "metrics": {metric: values.last} if values else {},
        "log": str(one.log),
    }


def _row(values: Mapping[str, Any], metric: str) -> list[str]:
    is_there = values["run"] is not None
    return [
        str(values["seed"]),
        values["status"],
        number(values["agent_steps"]) if is_there else "",
        duration(values["seconds"]) if is_there else "",
        number(values["metrics"].get(metric)),
        Path(values["run"]).name if is_there else "",
    ]


def show_seeds(endings: Sequence[Mapping[str, Any]], metric: str) -> None:
    """The table at the end: a row per seed and the mean of their scores."""
    rows = [_row(values, metric) for values in endings]
    scores = [values["metrics"][metric] for values in endings if metric in values["metrics"]]
    if len(scores) > 1:
        rows.append(["mean", "", "", "", number(sum(scores) / len(scores)), ""])
    show_table([*COLUMNS, f">{metric}", "run"], rows, title=f"{len(endings)} seeds")

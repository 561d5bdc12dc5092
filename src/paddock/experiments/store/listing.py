"""What `paddock list` shows: which columns, and a run as plain values."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from paddock.experiments.display import age, duration, number, say, show_table
from paddock.experiments.store.filters import Key
from paddock.experiments.store.summaries import RunSummary

PINNED = "◆"


def show_list(summaries: Sequence[RunSummary], keys: Sequence[Key]) -> None:
    """A table of runs, with a column for each of `keys` (metrics, options)."""
    columns = ["run", "status", "algorithm", "environment", ">seed", ">steps", ">time"]
    columns += [f">{key.text}" for key in keys] + [">age", "tags"]
    rows = [_row(summary, keys) for summary in summaries]
    counts = Counter(summary.status for summary in summaries)
    noun = "run" if len(summaries) == 1 else "runs"
    title = f"{len(summaries)} {noun}: " + ", ".join(f"{count} {status}" for status, count in counts.most_common())
    highest = [key.text for key in reversed(keys) if key.aggregate == "high"]
    others = [key.text for key in reversed(keys[1:])]
    droppable = ["age", "time", *highest, "algorithm", "seed", "tags", *others, "steps", "environment"]
    show_table(columns, rows, title=title, droppable=droppable)
    damaged = [summary for summary in summaries if summary.damage]
    if damaged and sys.stdout.isatty():
        say(f"{len(damaged)} damaged: `paddock show {damaged[0].folder}` says why.")


def _row(summary: RunSummary, keys: Sequence[Key]) -> list[str]:
    tags = ([PINNED] if summary.is_pinned else []) + list(summary.tags)
    return [
        summary.folder,
        summary.status,
        summary.algorithm,
        summary.environment,
        number(summary.seed),
        number(summary.agent_steps),
        duration(summary.seconds),
        *(number(key.of(summary)) for key in keys),
        age(summary.created),
        " ".join(tags),
    ]


def plain_summary(summary: RunSummary, *, with_config: bool = False) -> dict[str, Any]:
    """A run for `--json`."""
    values = asdict(summary)
    if not with_config:
        values.pop("config")
    return values


def usual_metrics(summaries: Sequence[RunSummary]) -> list[str]:
    """The metrics that these runs are ranked by, the most usual first; at most three."""
    return [name for name, _ in Counter(summary.metric for summary in summaries).most_common(3)]

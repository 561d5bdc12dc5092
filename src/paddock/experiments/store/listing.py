"""What `paddock list` shows: which columns, and a run as plain values."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from paddock.experiments.display import age, duration, number, say, show_table
from paddock.experiments.store.filters import Key
from paddock.experiments.store.records import RunRecord

PINNED = "◆"


def show_list(records: Sequence[RunRecord], keys: Sequence[Key]) -> None:
    """A table of runs, with a column for each of `keys` (metrics, options)."""
    columns = ["run", "status", "algorithm", "environment", ">seed", ">steps", ">time"]
    columns += [f">{key.text}" for key in keys] + [">age", "tags"]
    rows = [_row(record, keys) for record in records]
    counts = Counter(record.status for record in records)
    noun = "run" if len(records) == 1 else "runs"
    title = f"{len(records)} {noun}: " + ", ".join(f"{count} {status}" for status, count in counts.most_common())
    highest = [key.text for key in reversed(keys) if key.aggregate == "high"]
    others = [key.text for key in reversed(keys[1:])]
    droppable = ["age", "time", *highest, "algorithm", "seed", "tags", *others, "steps", "environment"]
    show_table(columns, rows, title=title, droppable=droppable)
    damaged = [record for record in records if record.damage]
    if damaged and sys.stdout.isatty():
        say(f"{len(damaged)} damaged: `paddock show {damaged[0].folder}` says why.")


def _row(record: RunRecord, keys: Sequence[Key]) -> list[str]:
    tags = ([PINNED] if record.is_pinned else []) + list(record.tags)
    return [
        record.folder,
        record.status,
        record.algorithm,
        record.environment,
        number(record.seed),
        number(record.agent_steps),
        duration(record.seconds),
        *(number(key.of(record)) for key in keys),
        age(record.created),
        " ".join(tags),
    ]


def plain_record(record: RunRecord, *, with_config: bool = False) -> dict[str, Any]:
    """A run for `--json`."""
    values = asdict(record)
    if not with_config:
        values.pop("config")
    return values


def usual_metrics(records: Sequence[RunRecord]) -> list[str]:
    """The metrics that these runs are ranked by, the most usual first; at most three."""
    return [name for name, _ in Counter(record.metric for record in records).most_common(3)]

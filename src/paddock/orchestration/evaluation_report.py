"""Results of `paddock evaluate` as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.evaluation.evaluator import EvaluationResult
from paddock.evaluation.subject import Subject
from paddock.evaluation.world_model.report import ModelReport
from paddock.experiments.display import say, show_table


def show_evaluation(subject: Subject, result: EvaluationResult, values: Mapping[str, Any]) -> None:
    """Print a result; `values` as `Subject.evaluate` gives them, with `video` where there is one."""
    protocol = values["protocol"]
    kind = "deterministic" if protocol["deterministic"] else "sampled"
    rows = result.table()
    if len(rows) == 1:  # A single row reads better upright.
        rows = [{"metric": name, "value": text} for name, text in rows[0].items()]
    columns = [name if number == 0 else f">{name}" for number, name in enumerate(rows[0])]
    details = [name for name in rows[0] if "delta" in name or "std" in name]
    say(f"{subject.name}: {protocol['episodes']} {kind} episodes, seed {protocol['seed']}")
    show_table(columns, [list(row.values()) for row in rows], droppable=details)
    if subject.note:
        say(subject.note)
    _show_files(values)


def show_model_report(report: ModelReport, values: Mapping[str, Any]) -> None:
    """Print errors and scores of a world model; `values` with `video` and `picture` where there are any."""
    rows, episodes = report.table(), report.protocol["episodes"]
    say(f"{report.subject}: errors as shares of the variance on held-out episodes, scores of {episodes} episodes")
    show_table([f">{name}" if name else name for name in rows[0]], [list(row.values()) for row in rows])
    _show_files(values)


def _show_files(values: Mapping[str, Any]) -> None:
    for name in ("video", "picture"):
        if name in values:
            say(f"{name}: {values[name]}")

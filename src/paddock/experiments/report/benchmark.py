"""The report of a benchmark: one table as Markdown, and one page with the same table and a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from paddock import __version__
from paddock.experiments.campaigns.benchmark import Benchmark, Result, TaskConfig
from paddock.experiments.display import duration, number
from paddock.experiments.report.report import write_page

HEADINGS = ("environment", "workflow", "settings", "steps", "seeds", "last evaluation", "best", "kept", "published",
            "share", "time")  # fmt: skip
NUMBERS = HEADINGS.index("steps")  # this column and those after it are numbers
BOTH = ("environment", "workflow", "default", "tuned", "published")  # the short table, before every task in full
EXPLANATION = (
    "Last evaluation: the interquartile mean over seeds of each run's last evaluation, with its 95 % interval "
    "(stratified bootstrap). Best: the mean over seeds of each run's best one. Kept: how much of its best evaluation a "
    "run keeps at the end. Share: of the published value; like kept, it is counted from the score of random actions. "
    "Time: of one run's training."
)


def result_values(benchmark: Benchmark, found: Sequence[Result]) -> dict[str, Any]:
    """A benchmark as plain values."""
    config = benchmark.config
    return {
        "name": config.name,
        "description": config.description,
        "seeds": config.seeds,
        "version": __version__,
        "written": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        "explanation": EXPLANATION,
        "headings": list(HEADINGS),
        "numbers": NUMBERS,
        "both": {"headings": list(BOTH), "rows": default_beside_tuned(found)},
        "tasks": [
            {
                "name": one.task.name,
                "short": f"{one.task.workflow} {one.task.environment}",
                "settings": one.task.settings,
                "cells": result_cells(one, len(config.seeds)),
                "value": one.last.value if one.last else None,
                "low": one.last.low if one.last else None,
                "high": one.last.high if one.last else None,
                "best": one.best,
                "kept": one.kept,
                "published": one.task.published,
                "source": one.task.source,
                "random": one.task.random,
                "share": one.share,
                "seconds": one.seconds,
                "finished": one.finished,
                "metric": benchmark.metric(one.task.name),
                "command": benchmark.command(one.task.name),
                "about": _about(benchmark, one.task),
            }
            for one in found
        ],
    }


def default_beside_tuned(found: Sequence[Result]) -> list[list[str]]:
    """A row for each environment and workflow: the last evaluation with either settings, and the published value."""
    rows: dict[tuple[str, str], list[str]] = {}
    for one in found:
        pair = (one.task.environment, one.task.workflow)
        row = rows.setdefault(pair, [*pair, "", "", ""])
        row[BOTH.index(one.task.settings)] = _score(one)
        row[-1] = row[-1] or _shown(one.task.published)
    return list(rows.values())


def result_cells(one: Result, seeds: int) -> list[str]:
    """A row of the table of every task."""
    task = one.task
    return [
        task.environment,
        task.workflow,
        task.settings,
        number(task.steps),
        f"{one.finished} of {seeds}",
        _score(one),
        _shown(one.best),
        _percent(one.kept),
        _shown(task.published),
        _percent(one.share),
        "" if one.seconds is None else duration(one.seconds),
    ]


def write_benchmark_page(file: Path, benchmark: Benchmark, found: Sequence[Result]) -> Path:
    """Write the page and give its path."""
    data = result_values(benchmark, found)
    return write_page(file, title=f"Benchmark: {data['name']}", data=data, scripts=["charts.js", "benchmark.js"])


def markdown(benchmark: Benchmark, found: Sequence[Result]) -> str:
    """The report as Markdown."""
    values = result_values(benchmark, found)
    lines = [f"# Benchmark: {values['name']}", ""]
    lines += [values["description"], ""] if values["description"] else []
    lines += [f"Seeds {', '.join(map(str, values['seeds']))}. {EXPLANATION}", ""]
    lines += ["## Default and tuned settings", "", *_table(BOTH, values["both"]["rows"], numbers=2)]
    lines += ["", "## Every task", "", *_table(HEADINGS, [task["cells"] for task in values["tasks"]], numbers=NUMBERS)]
    lines += ["", "## Commands and sources", ""]
    for task in values["tasks"]:
        lines += [f"- **{task['name']}**: `{task['command']}`" + (f" ({task['about']})" if task["about"] else "")]
    return "\n".join([*lines, "", f"Written by Paddock {__version__} on {values['written']}.", ""])


def _about(benchmark: Benchmark, task: TaskConfig) -> str:
    """What the score is, where it is not the return, and where the published value stands."""
    metric = benchmark.metric(task.name)
    score = "" if metric == "eval/return" else f"score: {metric}"
    return "; ".join(part for part in (score, task.source) if part)


def _score(one: Result) -> str:
    """The last evaluation with its interval; nothing before a run has finished."""
    if one.last is None:
        return ""
    bounds = (
        "" if one.last.low is None or one.last.high is None else f" [{number(one.last.low)}, {number(one.last.high)}]"
    )
    return number(one.last.value) + bounds


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> list[str]:
    """A Markdown table whose columns from `numbers` on are right-aligned."""
    rules = ["---" if k < numbers else "---:" for k in range(len(headings))]
    return [_row(headings), _row(rules), *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: float | None) -> str:
    return "" if value is None else number(value)


def _percent(share: float | None) -> str:
    return "" if share is None or not math.isfinite(share) else f"{100 * share:.0f} %"

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


def result_cells(one: Result, seeds: int) -> list[str]:
    """A row of the table."""
    task = one.task
    score = "" if one.last is None else number(one.last.value)
    if one.last is not None and one.last.low is not None and one.last.high is not None:
        score += f" [{number(one.last.low)}, {number(one.last.high)}]"
    return [
        task.environment,
        task.workflow,
        task.settings,
        number(task.steps),
        f"{one.finished} of {seeds}",
        score,
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
    rules = ["---" if k < NUMBERS else "---:" for k in range(len(HEADINGS))]
    lines = [f"# Benchmark: {values['name']}", ""]
    lines += [values["description"], ""] if values["description"] else []
    lines += [f"Seeds {', '.join(map(str, values['seeds']))}. {EXPLANATION}", ""]
    lines += [_row(HEADINGS), _row(rules), *(_row(task["cells"]) for task in values["tasks"])]
    lines += ["", "## Commands and sources", ""]
    for task in values["tasks"]:
        lines += [f"- **{task['name']}**: `{task['command']}`" + (f" ({task['about']})" if task["about"] else "")]
    return "\n".join([*lines, "", f"Written by Paddock {__version__} on {values['written']}.", ""])


def _about(benchmark: Benchmark, task: TaskConfig) -> str:
    """What the score is, where it is not the return, and where the published value stands."""
    metric = benchmark.metric(task.name)
    score = "" if metric == "eval/return" else f"score: {metric}"
    return "; ".join(part for part in (score, task.source) if part)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: float | None) -> str:
    return "" if value is None else number(value)


def _percent(share: float | None) -> str:
    return "" if share is None or not math.isfinite(share) else f"{100 * share:.0f} %"

"""A comparison as plain values, and as a table in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.errors import InputError
from paddock.experiments.compare import Comparison, aggregates, config_table, improvements
from paddock.experiments.display import number, show_table

SHOWN_OPTIONS = 20
TITLES = {"iqm": "IQM", "median": "median", "mean": "mean", "optimality_gap": "optimality gap"}


def comparison_values(comparison: Comparison) -> dict[str, Any]:
    """What `--json` gives."""
    found = aggregates(comparison)
    groups = [
        {
            "group": group.label,
            "runs": [
                {"run": one.record.folder, "seed": one.record.seed, "status": one.status, "score": one.score}
                for one in group.members
            ],
            **found[group.label],
        }
        for group in comparison.groups
    ]
    return {
        "metric": comparison.metric,
        "score": comparison.which,
        "lower_is_better": comparison.is_lower_better,
        "tasks": {task: {"zero": low, "one": high} for task, (low, high) in comparison.ranges.items()},
        "groups": groups,
        "improvements": improvements(comparison),
        "config": config_table(comparison),
    }


def show_comparison(values: Mapping[str, Any]) -> None:
    """Print groups with intervals, who beats whom, and in which options they differ."""
    unit = values["metric"] if len(values["tasks"]) == 1 else "normalised score"
    direction = "lower" if values["lower_is_better"] else "higher"
    rows = [
        [group["group"], str(len(group["runs"])), *(_interval(group[name]) for name in TITLES)]
        for group in values["groups"]
    ]
    title = f"{values['score']} {unit}, {direction} is better, with 95 % bootstrap intervals"
    show_table(["group", ">runs", *(f">{title}" for title in TITLES.values())], rows, title=title, droppable=["mean"])
    if values["improvements"]:
        print()
        pairs = [[f"{one['ours']} > {one['theirs']}", _interval(one)] for one in values["improvements"]]
        show_table(["probability of improvement", ">value"], pairs)
    if values["config"]:
        print()
        labels = [group["group"] for group in values["groups"]]
        options = [
            [row["key"], *(" | ".join(number(one) or str(one) for one in row["values"][label]) for label in labels)]
            for row in values["config"][:SHOWN_OPTIONS]
        ]
        show_table(["option", *labels], options)
        if len(values["config"]) > SHOWN_OPTIONS:
            print(f"... and {len(values['config']) - SHOWN_OPTIONS} more options; all are in the report.")
    if "report" in values:
        print(f"\nreport: {values['report']}")


def parse_range(text: str) -> tuple[str, tuple[float, float]]:
    """`CartPole-v1=0:500` as a task and its range."""
    task, _, ends = text.rpartition("=")
    try:
        low, high = (float(end) for end in ends.split(":"))
    except ValueError as error:
        raise InputError(
            f"--score-range '{text}' is not TASK=LOW:HIGH with two numbers, for example CartPole-v1=0:500."
        ) from error
    return task, (low, high)


def _interval(estimate: Mapping[str, float] | None) -> str:
    if estimate is None:
        return ""
    return f"{number(estimate['value'])} [{number(estimate['low'])}, {number(estimate['high'])}]"

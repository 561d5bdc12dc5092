"""A comparison as plain values, and as a table in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.core.errors import InputError
from paddock.experiments.compare.compare import Comparison, aggregates, config_table, improvements, warnings
from paddock.experiments.display import number, say, show_table

SHOWN_OPTIONS = 20
NOTHING = "–"
NO_SCORE, NOT_COMPARABLE = "no score", "not comparable"
TITLES = {"iqm": "IQM", "median": "median", "mean": "mean", "optimality_gap": "optimality gap"}


def comparison_values(comparison: Comparison) -> dict[str, Any]:
    """What `--json` gives."""
    found = aggregates(comparison)
    groups = [
        {
            "group": group.label,
            "runs": [
                {"run": one.summary.folder, "seed": one.summary.seed, "status": one.summary.status, "score": one.score}
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
        "tasks": {
            task: {"zero": low, "one": high, "is_comparable": task not in comparison.not_comparable}
            for task, (low, high) in comparison.ranges.items()
        },
        "warnings": warnings(comparison),
        "groups": groups,
        "improvements": improvements(comparison),
        "config": config_table(comparison),
    }


def show_comparison(values: Mapping[str, Any]) -> None:
    """Print groups with intervals, who beats whom, and in which options they differ."""
    is_normalised = len(values["tasks"]) > 1
    unit = "normalised score" if is_normalised else values["metric"]
    direction = "higher" if is_normalised or not values["lower_is_better"] else "lower"
    rows = [
        [group["group"], str(len(group["runs"])), *(_cell(group, name) for name in TITLES)]
        for group in values["groups"]
    ]
    title = f"{values['score']} {unit}, {direction} is better, {_intervals(values['groups'])}"
    show_table(["group", ">runs", *(f">{title}" for title in TITLES.values())], rows, title=title, droppable=["mean"])
    for sentence in values["warnings"]:
        say(f"note: {sentence}")
    if values["improvements"]:
        print()
        pairs = [[f"{one['ours']} > {one['theirs']}", interval(one)] for one in values["improvements"]]
        show_table(["probability of improvement", ">value"], pairs)
    if values["config"]:
        print()
        _show_options(values["config"], [group["group"] for group in values["groups"]])
    if "report" in values:
        print()
        say(f"report: {values['report']}")


def _show_options(options: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> None:
    """What differs, an option a row."""
    rows = [
        [row["key"], *(" | ".join(number(one) or NOTHING for one in row["values"][label]) for label in labels)]
        for row in options[:SHOWN_OPTIONS]
    ]
    show_table(["option", *labels], rows)
    if len(options) > SHOWN_OPTIONS:
        print(f"... and {len(options) - SHOWN_OPTIONS} more options; all are in the report.")


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


def interval(estimate: Mapping[str, float | None]) -> str:
    """A value and its interval, or what says that a single run has none."""
    if estimate["low"] is None:
        return f"{number(estimate['value'])}, n = 1"
    return f"{number(estimate['value'])} [{number(estimate['low'])}, {number(estimate['high'])}]"


def _cell(group: Mapping[str, Any], name: str) -> str:
    if group[name] is not None:
        return interval(group[name])
    return NO_SCORE if all(run["score"] is None for run in group["runs"]) else NOT_COMPARABLE


def _intervals(groups: Sequence[Mapping[str, Any]]) -> str:
    found = [group["iqm"]["low"] is not None for group in groups if group["iqm"] is not None]
    return "with 95 % bootstrap intervals" if any(found) or not found else "single runs, which have no interval"

"""Putting runs side by side: who belongs together, final scores with intervals, curves with bands, differences.

A group is what is compared: by default all runs of one recipe, which differ in their seeds only. A task is an
environment. Everything ends up as plain values, for the terminal, for `--json` and for the report.
"""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from paddock.core.errors import InputError, did_you_mean
from paddock.core.reading import DamagedError
from paddock.experiments.compare import statistics
from paddock.experiments.compare.curves import Curve, metric_names, read_many
from paddock.experiments.run import RunFolder
from paddock.experiments.store.filters import CONFIG, FIELDS
from paddock.experiments.store.summaries import NOT_THE_RECIPE, RunSummary, as_of_now, read_summary, readable_runs

LOWER_IS_BETTER = ("*_lap", "*ratio", "*off_track", "*wheels_off", "*lap_std", "*_delta", "*loss*")
GRID = 160  # points of a band
THRESHOLDS = 101  # points of a performance profile
SHOWN_PAIRS = 5  # of groups without a common task that a warning names
EMPTY = Curve(np.empty(0), np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Member:
    """One run of a group. score: the final value of the metric that is compared, None where there is none."""

    run: RunFolder
    summary: RunSummary
    manifest: Mapping[str, Any]
    curves: Mapping[str, Curve]
    score: float | None


@dataclass(frozen=True)
class Group:
    """Runs that count as repetitions of one thing."""

    label: str
    members: list[Member]

    def scores(self, tasks: Sequence[str]) -> list[np.ndarray]:
        """Final scores, an array a task."""
        return [
            np.array([one.score for one in self.members if one.summary.environment == task and one.score is not None])
            for task in tasks
        ]


@dataclass(frozen=True)
class Comparison:
    """metrics: the first one is the score. ranges: a task's scores that count as 0 and as 1. not_comparable: tasks
    whose scores cannot be normalised, and why. notes: what else a reader of the numbers has to know."""

    groups: list[Group]
    metrics: list[str]
    which: str
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    not_comparable: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def metric(self) -> str:
        return self.metrics[0]

    @property
    def is_lower_better(self) -> bool:
        return is_lower_better(self.metric, [one.summary for group in self.groups for one in group.members])

    @property
    def members(self) -> list[Member]:
        return [member for group in self.groups for member in group.members]

    @property
    def tasks(self) -> list[str]:
        return sorted({member.summary.environment for member in self.members})

    @property
    def is_normalised(self) -> bool:
        """Whether scores of several tasks have to be put together."""
        return len(self.tasks) > 1

    def comparable_tasks(self, group: Group) -> list[str]:
        """The tasks in which the group has scores that can be normalised."""
        return [task for task in tasks_of(group) if task not in self.not_comparable]

    def normalised(self, group: Group, tasks: Sequence[str]) -> list[np.ndarray]:
        """Scores with 0 for the low and 1 for the high end of each task's range; higher is always better."""
        found = []
        for task, scores in zip(tasks, group.scores(tasks), strict=True):
            low, high = self.ranges[task]
            found.append((scores - low) / (high - low))
        return found

    def ordered(self, group: Group, tasks: Sequence[str]) -> list[np.ndarray]:
        """Scores of which the higher is the better one; unlike normalised ones they need no range."""
        return [scores * self._direction(task) for task, scores in zip(tasks, group.scores(tasks), strict=True)]

    def _direction(self, task: str) -> int:
        low, high = self.ranges[task]
        if low != high:
            return 1 if high > low else -1
        return -1 if self.is_lower_better else 1


def is_lower_better(metric: str, runs: Sequence[RunSummary]) -> bool:
    """As the runs say (`evaluation.metric`, `evaluation.records`); by the metric's name where none of them does."""
    for run in runs:
        if metric == run.metric:
            return False
        if said := run.config.get(f"evaluation.records.{metric}"):
            return said == "low"
    return any(fnmatch.fnmatchcase(metric, pattern) for pattern in LOWER_IS_BETTER)


def compare(
    runs_dir: Path,
    given: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    group_by: Sequence[str] = (),
    which: str = "last",
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Comparison:
    """Read and group runs. which: `last` or `best`, the evaluation that gives a run's score. Runs whose configuration
    or manifest is damaged are left out, with a note."""
    named = {os.path.realpath(run.path): run for text in given for run in RunFolder.find_all(runs_dir, text)}
    runs, notes = readable_runs(list(named.values()))
    summaries = [as_of_now(read_summary(run), run) for run in runs]
    chosen = _chosen_metrics(runs, summaries, metrics)
    logs = read_many([run.metrics_file for run in runs], chosen)
    notes += [
        sentence for summary, log in zip(summaries, logs, strict=True) for sentence in (*summary.damage, *log.damage)
    ]
    members = [
        _member(run, summary, log.curves, chosen[0], which)
        for run, summary, log in zip(runs, summaries, logs, strict=True)
    ]
    groups = _grouped(members, group_by)
    plain = Comparison(groups, chosen, which)
    found = {task: _range(plain, task, ranges or {}) for task in plain.tasks}
    reasons = {task: reason for task in plain.tasks if (reason := _obstacle(plain, task, found[task], ranges or {}))}
    return Comparison(groups, chosen, which, found, reasons, list(dict.fromkeys(notes)))


def aggregates(comparison: Comparison) -> dict[str, dict[str, dict[str, float | None] | None]]:
    """Group and aggregate -> value, low, high. With one task in the metric's unit, with several in normalised scores;
    the optimality gap is always of normalised scores. None where a group has no scores, or none that are comparable;
    low and high are None where no task has a second run."""
    found: dict[str, dict[str, dict[str, float | None] | None]] = {}
    for group in comparison.groups:
        found[group.label] = {}
        for name, aggregate in statistics.AGGREGATES.items():
            is_normalised = comparison.is_normalised or name == "optimality_gap"
            tasks = comparison.comparable_tasks(group) if is_normalised else tasks_of(group)
            scores = comparison.normalised(group, tasks) if is_normalised else group.scores(tasks)
            found[group.label][name] = vars(statistics.estimate(scores, aggregate)) if scores else None
    return found


def improvements(comparison: Comparison) -> list[dict[str, Any]]:
    """For each pair of groups how likely a run of the first beats one of the second, over the tasks of both."""
    found = []
    for ours, theirs in combinations(comparison.groups, 2):
        if tasks := _common_tasks(ours, theirs):
            pair = (comparison.ordered(ours, tasks), comparison.ordered(theirs, tasks))
            likely = statistics.probability_of_improvement(*pair)
            found.append({"ours": ours.label, "theirs": theirs.label, **vars(likely)})
    return found


def warnings(comparison: Comparison) -> list[str]:
    """What must not be read out of the numbers: tasks that are not comparable, groups that never met, damaged files."""
    scored = [group for group in comparison.groups if tasks_of(group)]
    strangers = [(a.label, b.label) for a, b in combinations(scored, 2) if not _common_tasks(a, b)]
    listed = ", ".join(f"'{a}' and '{b}'" for a, b in strangers[:SHOWN_PAIRS])
    more = f" and {len(strangers) - SHOWN_PAIRS} more pairs" if len(strangers) > SHOWN_PAIRS else ""
    apart = [f"No task in common, so that nothing says which is better: {listed}{more}."] if strangers else []
    return [*comparison.not_comparable.values(), *apart, *comparison.notes]


def profiles(comparison: Comparison) -> dict[str, Any]:
    """The share of runs above each threshold of the normalised score, a curve with a band for each group."""
    scored = {
        group.label: comparison.normalised(group, comparison.comparable_tasks(group)) for group in comparison.groups
    }
    pooled = [score for scores in scored.values() for task in scores for score in task]
    if not pooled:
        return {"thresholds": [], "groups": {}}
    span = max(max(pooled) - min(pooled), 1e-9)
    thresholds = np.linspace(min(pooled) - 0.05 * span, max(pooled) + 0.05 * span, THRESHOLDS)
    found = {label: statistics.performance_profile(scores, thresholds) for label, scores in scored.items() if scores}
    groups = {label: _banded(*parts) for label, parts in found.items()}
    return {"thresholds": rounded(thresholds), "groups": groups}


def bands(group: Group, metric: str, axis: str) -> dict[str, Any] | None:
    """The group's learning curve against `steps` or `seconds`: interquartile mean and interval on a common grid."""
    curves = [curve for one in group.members if not (curve := one.curves.get(metric, EMPTY)).is_empty]
    if not curves:
        return None
    first = min(float(getattr(curve, axis)[0]) for curve in curves)
    last = max(float(getattr(curve, axis)[-1]) for curve in curves)
    grid = np.linspace(first, last, GRID) if last > first else np.array([first])
    lines = np.stack(
        [np.interp(grid, getattr(curve, axis), curve.value, left=np.nan, right=np.nan) for curve in curves]
    )
    centre, low, high = statistics.band(lines)
    nothing = np.full_like(centre, np.nan)
    return {"x": rounded(grid)} | _banded(centre, *((low, high) if len(curves) > 1 else (nothing, nothing)))


def config_table(comparison: Comparison) -> list[dict[str, Any]]:
    """Options in which any two of the runs differ: the key, and the values in each group."""
    configs = [member.summary.config for member in comparison.members]
    return [
        {
            "key": key,
            "values": {
                group.label: _distinct([one.summary.config.get(key) for one in group.members])
                for group in comparison.groups
            },
        }
        for key in _differing(configs)
    ]


def rounded(values: Any) -> list[float | None]:
    """Plain numbers of six significant digits; None for what is not a number."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in np.asarray(values, dtype=np.float64)]


def _banded(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """A line and the ends of its band; None for a band that is nowhere."""
    ends = {"low": low, "high": high}
    return {"value": rounded(value)} | {
        name: rounded(end) if np.isfinite(end).any() else None for name, end in ends.items()
    }


def _chosen_metrics(runs: Sequence[RunFolder], summaries: Sequence[RunSummary], metrics: Sequence[str]) -> list[str]:
    known = sorted({name for run in runs for name in _metric_names(run)})
    for name in metrics:
        if name not in known:
            raise InputError(
                f"none of these runs logged '{name}'.{did_you_mean(name, known)} They logged: {', '.join(known)}."
            )
    if metrics:
        return list(metrics)
    ranked_by = [summary.metric for summary in summaries]
    score = max(dict.fromkeys(ranked_by), key=ranked_by.count)
    if score not in known:
        raise InputError(
            f"none of these runs has been evaluated yet ('{score}' was never logged). "
            f"Choose with --metrics from: {', '.join(known) or 'nothing was logged'}."
        )
    return [score, *(name for name in ("eval/best_lap", "collect/return") if name in known and name != score)]


def _member(run: RunFolder, summary: RunSummary, curves: Mapping[str, Curve], metric: str, which: str) -> Member:
    curve = curves[metric]
    score = None
    if not curve.is_empty:
        best = curve.value.min() if is_lower_better(metric, [summary]) else curve.value.max()
        score = float(best if which == "best" else curve.value[-1])
    return Member(run, summary, run.read_manifest(), curves, score)


def _metric_names(run: RunFolder) -> list[str]:
    try:
        return metric_names(run.metrics_file)
    except DamagedError:  # Of which a note speaks.
        return []


def _grouped(members: Sequence[Member], group_by: Sequence[str]) -> list[Group]:
    for key in group_by:
        _check_key(key, members)
    keyed: dict[tuple[str, ...], list[Member]] = {}
    for member in members:
        parts = [_value(member.summary, key) for key in group_by] or [member.summary.name, member.summary.recipe]
        keyed.setdefault(tuple(map(str, parts)), []).append(member)
    if group_by:
        names = [key.removeprefix(CONFIG).split(".")[-1] for key in group_by]
        labels = [", ".join(f"{name}={part}" for name, part in zip(names, parts, strict=True)) for parts in keyed]
    else:
        labels = _labels(list(keyed.values()))
    return [Group(label, found) for label, found in zip(labels, keyed.values(), strict=True)]


def _labels(groups: Sequence[Sequence[Member]]) -> list[str]:
    """Names; where several recipes go by one name, what they differ in is added."""
    names = [members[0].summary.name for members in groups]
    labels = []
    for name, members in zip(names, groups, strict=True):
        rivals = [
            other[0].summary.config for other_name, other in zip(names, groups, strict=True) if other_name == name
        ]
        mine = members[0].summary.config
        keys = [key for key in _differing(rivals) if key in mine]
        detail = ", ".join(f"{key.split('.')[-1]}={mine[key]}" for key in keys[:3])
        more = f" +{len(keys) - 3}" if len(keys) > 3 else ""
        labels.append(f"{name} ({detail}{more})" if detail else name)
    return [label if labels.count(label) == 1 else f"{label} #{k}" for k, label in enumerate(labels, start=1)]


def _check_key(key: str, members: Sequence[Member]) -> None:
    options = dict.fromkeys(name for member in members for name in member.summary.config)
    if key not in FIELDS and key.removeprefix(CONFIG) not in options:
        known = [*FIELDS, *options, *(CONFIG + name for name in options)]
        raise InputError(
            f"runs cannot be grouped by '{key}': none has it.{did_you_mean(key, known)} "
            f"There are {', '.join(FIELDS)}, and options such as config.workflow.gamma."
        )


def _value(summary: RunSummary, key: str) -> Any:
    return FIELDS[key](summary) if key in FIELDS else summary.config.get(key.removeprefix(CONFIG))


def _range(comparison: Comparison, task: str, given: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """What counts as 0 and as 1 on a task: as given, or the first and the best score that any of its runs reached."""
    if task in given:
        return given[task]
    curves = [one.curves[comparison.metric] for one in comparison.members if one.summary.environment == task]
    values = [float(value) for curve in curves for value in curve.value]
    if not values:
        return 0.0, 1.0
    first = [float(curve.value[0]) for curve in curves if not curve.is_empty]
    return (max(first), min(values)) if comparison.is_lower_better else (min(first), max(values))


def _obstacle(
    comparison: Comparison, task: str, ends: tuple[float, float], given: Mapping[str, tuple[float, float]]
) -> str:
    """Why scores of a task cannot be normalised; empty where they can."""
    scored = [group for group in comparison.groups if task in tasks_of(group)]
    if not scored:
        return ""
    way_out = f"--score-range '{task}=LOW:HIGH' says what counts as 0 and as 1."
    if ends[0] == ends[1]:
        return f"{task} is not comparable: {ends[0]:.4g} would count as 0 and as 1. {way_out}"
    if comparison.is_normalised and len(scored) == 1 < len(comparison.groups) and task not in given:
        return f"{task} is not comparable: '{scored[0].label}' is the only group that has scores there. {way_out}"
    return ""


def tasks_of(group: Group) -> list[str]:
    """The tasks in which the group has scores."""
    return sorted({one.summary.environment for one in group.members if one.score is not None})


def _common_tasks(ours: Group, theirs: Group) -> list[str]:
    return [task for task in tasks_of(ours) if task in tasks_of(theirs)]


def _differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys of options whose values differ. What one option takes over from another is named once, by the other: where
    `environment.reward` is `${reward}`, only `reward.progress.weight` is listed."""
    columns = {key: [config.get(key) for config in configs] for key in dict.fromkeys(k for one in configs for k in one)}
    return [
        key
        for key, values in columns.items()
        if key.split(".")[0] not in NOT_THE_RECIPE
        and len(_distinct(values)) > 1
        and not any(_is_same(values, columns.get(shorter)) for shorter in _endings(key))
    ]


def _endings(key: str) -> list[str]:
    """`a.b.c.d` as `b.c.d` and `c.d`: the places that an interpolation could have taken it from."""
    parts = key.split(".")
    return [".".join(parts[k:]) for k in range(1, len(parts) - 1)]


def _is_same(values: Sequence[Any], others: Sequence[Any] | None) -> bool:
    return others is not None and all(map(_is_equal, values, others))


def _is_equal(value: Any, other: Any) -> bool:
    return bool(value == other) and type(value) is type(other)


def _distinct(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(_is_equal(value, one) for one in found):
            found.append(value)
    return found

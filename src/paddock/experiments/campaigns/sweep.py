"""Sweeps: every combination of some options, over seeds, as runs of their own that may fail, be killed and go on."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator, Field, model_validator

from paddock.config.schema import Schema
from paddock.experiments.campaigns.executor import Executor, Job
from paddock.experiments.campaigns.trials import INTERRUPTED, Campaign, CampaignConfig, Trial
from paddock.experiments.store.summaries import ALIVE, CRASHED, DAMAGED, RUNNING, RunSummary

LOOK_EVERY = 0.5  # s
WAITING, FAILED = "waiting", "failed"
FAILURES = (FAILED, CRASHED)
COLUMNS = ("trial", ">seed", "status", ">steps", ">time")


class RangeConfig(Schema):
    """`count` values from low to high, evenly or by equal factors; or every `step` from low up to high."""

    low: float
    high: float
    count: int | None = Field(default=None, ge=2)
    step: float | None = Field(default=None, gt=0)
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _is_a_range(self) -> RangeConfig:
        if self.high <= self.low:
            raise ValueError("a range needs a high above its low")
        if (self.count is None) == (self.step is None):
            raise ValueError("a range needs either a count or a step")
        if self.scale == "log" and (self.low <= 0 or self.count is None):
            raise ValueError("a logarithmic range needs a low above zero and a count")
        return self

    def values(self) -> list[float | int]:
        if self.step is not None:
            found = [self.low + k * self.step for k in range(int((self.high - self.low) / self.step + 1e-9) + 1)]
        else:
            shares = [k / (self.count - 1) for k in range(self.count or 2)]  # type: ignore[operator]
            low, high = (math.log(end) if self.scale == "log" else end for end in (self.low, self.high))
            found = [low + share * (high - low) for share in shares]
            found = [math.exp(value) for value in found] if self.scale == "log" else found
        rounded = [float(f"{value:.12g}") for value in found]
        return [int(value) for value in rounded] if all(value.is_integer() for value in rounded) else list(rounded)


def _values(given: Any) -> Any:
    """A list as it is; `{range: {...}}` as the values of the range."""
    if isinstance(given, Mapping) and set(given) == {"range"}:
        return RangeConfig.model_validate(given["range"]).values()
    return given


Values = Annotated[list[Any], Field(min_length=1), BeforeValidator(_values)]


class SweepConfig(CampaignConfig):
    """combine: `grid` for every combination, `list` for the first values together, the second values together, ..."""

    parameters: dict[str, Values] = Field(default_factory=dict)
    combine: Literal["grid", "list"] = "grid"
    seeds: list[int] = Field(default_factory=lambda: [1], min_length=1)

    @model_validator(mode="after")
    def _lists_are_equally_long(self) -> SweepConfig:
        lengths = {name: len(values) for name, values in self.parameters.items()}
        if self.combine == "list" and len(set(lengths.values())) > 1:
            raise ValueError(f"combine: list needs lists of one length, these have {lengths}")
        return self

    def trials(self) -> list[Trial]:
        """Combinations in order, each with every seed."""
        if self.combine == "list" and self.parameters:
            rows: list[tuple[Any, ...]] = list(zip(*self.parameters.values(), strict=True))
        else:
            rows = list(itertools.product(*self.parameters.values()))
        return [Trial(dict(zip(self.parameters, row, strict=True)), seed) for row in rows for seed in self.seeds]


@dataclass(frozen=True)
class Progress:
    """How a trial stands: its run, if there is one yet."""

    trial: Trial
    status: str
    summary: RunSummary | None


class Trials(Protocol):
    """Finds the runs of trials and writes their commands; a `Campaign` does."""

    def runs(self) -> dict[str, RunSummary]: ...

    def job(self, trial: Trial, summary: RunSummary | None) -> Job: ...


def run_sweep(config: SweepConfig, campaign: Campaign, executor: Executor, **options: Any) -> list[Progress]:
    """All trials of a sweep; options as in `run_trials`."""
    trials = {campaign.key(trial): trial for trial in config.trials()}
    return run_trials(trials, campaign, executor, parallel_jobs=config.parallel_jobs, **options)


def run_trials(
    trials: Mapping[str, Trial],
    campaign: Trials,
    executor: Executor,
    *,
    parallel_jobs: int,
    retry_failed: bool = False,
    watch: Callable[[list[Progress]], None] = lambda progress: None,
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> list[Progress]:
    """Start what has not been done, resume what was cut off, wait for what goes on; a failure stops nothing else.

    trials: by key, as the runs' tags name them.
    """
    tried: dict[str, int | None] = {}  # Exit codes of what was started here, None while it runs.
    try:
        while True:
            tried.update(executor.ended())
            runs = campaign.runs()
            progress = [_progress(trial, runs.get(key), key in tried, tried.get(key)) for key, trial in trials.items()]
            waiting = [key for key, one in zip(trials, progress, strict=True) if _is_due(key, one, tried, retry_failed)]
            watch(progress)
            if is_asked_to_stop():
                return progress
            if not waiting and not any(one.status in ALIVE for one in progress):
                return progress
            alive_elsewhere = sum(
                one.status in ALIVE and key not in tried for key, one in zip(trials, progress, strict=True)
            )
            room = parallel_jobs - alive_elsewhere - sum(code is None for code in tried.values())
            for key in waiting[: max(room, 0)]:
                summary = runs.get(key)
                is_resumable = summary is not None and summary.status in INTERRUPTED
                executor.submit(campaign.job(trials[key], summary if is_resumable else None))
                tried[key] = None
            time.sleep(LOOK_EVERY)
    finally:
        executor.close()


def _progress(trial: Trial, summary: RunSummary | None, was_tried: bool, code: int | None) -> Progress:
    if was_tried and code is None:
        return Progress(trial, RUNNING, summary)
    if summary is not None:
        return Progress(trial, summary.status, summary)
    return Progress(trial, FAILED if was_tried else WAITING, None)  # It may have ended before there was a run.


def _is_due(key: str, one: Progress, tried: Mapping[str, int | None], retry_failed: bool) -> bool:
    """Whether a trial is to be started or resumed: once, by this sweep."""
    if key in tried:
        return False
    return one.status in (WAITING, *INTERRUPTED) or (retry_failed and one.status in (FAILED, DAMAGED))


def sweep_rows(progress: Sequence[Progress], metric: str) -> list[list[str]]:
    """Cells of the live table."""
    from paddock.experiments.display import duration, number

    rows = []
    for one in progress:
        summary = one.summary
        values = summary.metrics.get(metric) if summary else None
        rows.append(
            [
                one.trial.label,
                str(one.trial.seed),
                one.status,
                number(summary.agent_steps) if summary else "",
                duration(summary.seconds) if summary else "",
                number(values.last) if values else "",
                summary.folder if summary else "",
            ]
        )
    return rows


def trial_values(config: SweepConfig) -> list[dict[str, Any]]:
    """The runs that there would be, as plain values."""
    return [{"values": dict(trial.values), "seed": trial.seed} for trial in config.trials()]


def sweep_values(progress: Sequence[Progress], metric: str) -> list[dict[str, Any]]:
    """How each trial stands, as plain values."""
    rows = []
    for one in progress:
        summary = one.summary
        values = summary.metrics.get(metric) if summary else None
        row = {"values": dict(one.trial.values), "seed": one.trial.seed, "status": one.status}
        rows.append({**row, "run": summary.folder if summary else None, metric: values.last if values else None})
    return rows


def show_ending(config: SweepConfig, campaign: Campaign, progress: Sequence[Progress]) -> None:
    """Which trials failed, and the command that compares them all."""
    for one in progress:
        if one.status in FAILURES:
            print(f"{one.status}: {one.trial.label}, seed {one.trial.seed}; see {campaign.job(one.trial, None).log}")
    groups = "".join(f" --group-by config.{name}" for name in config.parameters)
    print(f"Next: paddock compare {config.name}{groups} --runs-dir {config.runs_dir}")

"""Benchmarks: many tasks, each with a published value, run over seeds as one campaign; see docs/benchmarks.md."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from paddock.config.schema import Schema
from paddock.core.errors import unknown_choice
from paddock.experiments.campaigns.executor import Job
from paddock.experiments.campaigns.sweep import Progress
from paddock.experiments.campaigns.trials import (
    Campaign,
    CampaignConfig,
    Trial,
    checked_campaign,
    override_value,
    read_yaml,
)
from paddock.experiments.compare.statistics import Estimate, estimate, interquartile_mean
from paddock.experiments.store.summaries import RunSummary

SHIPPED = Path(__file__).parent / "benchmarks"
FINISHED = "finished"


class TaskConfig(Schema):
    """One row of a benchmark. experiment: what is trained; settings: whether it is the workflow's default for every
    environment or tuned for this one; published, source: a value to compare with and where it stands; random: the
    score of random actions, from which shares of the published value are counted."""

    workflow: str
    environment: str
    experiment: str
    settings: Literal["default", "tuned"] = "default"
    overrides: dict[str, Any] = Field(default_factory=dict)
    steps: int = Field(ge=1)
    metric: str | None = None
    published: float | None = None
    source: str | None = None
    random: float = 0.0

    @model_validator(mode="after")
    def _a_published_value_has_a_source(self) -> TaskConfig:
        if (self.published is None) != (self.source is None):
            raise ValueError("a published value needs a source, and a source a value")
        if self.published is not None and self.published == self.random:
            raise ValueError("the published value equals that of random actions, so nothing can be compared with it")
        return self

    @property
    def name(self) -> str:
        return f"{self.environment} {self.workflow} {self.settings}"


class BenchmarkConfig(Schema):
    """A benchmark as a file tells it. seeds: of every task; those that settings were chosen with do not belong here."""

    name: str = Field(pattern=r"^[\w.-]+$")
    description: str = ""
    runs_dir: str = "runs"
    parallel_jobs: int = Field(default=1, ge=1)
    seeds: list[int] = Field(default_factory=lambda: [101, 102, 103], min_length=1)
    tasks: list[TaskConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _tasks_have_names_of_their_own(self) -> BenchmarkConfig:
        names = [task.name for task in self.tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two tasks are the same environment, workflow and settings: {', '.join(twice)}")
        return self


def shipped_benchmarks() -> list[str]:
    """Names of the benchmarks that ship."""
    return sorted(file.stem for file in SHIPPED.glob("*.yaml"))


def read_benchmark(given: str) -> BenchmarkConfig:
    """A benchmark that ships, by name, or a YAML file of one's own."""
    file = Path(given)
    if file.suffix not in (".yaml", ".yml") and not file.is_file():
        if given not in shipped_benchmarks():
            raise unknown_choice("benchmark", given, shipped_benchmarks())
        file = SHIPPED / f"{given}.yaml"
    return read_yaml(file, BenchmarkConfig, page="docs/benchmarks.md")


class Benchmark:
    """The tasks of a benchmark as campaigns that share a name, a lock and their runs."""

    def __init__(self, config: BenchmarkConfig, chosen: Sequence[TaskConfig] | None = None) -> None:
        self.config = config
        self.tasks = {task.name: task for task in chosen or config.tasks}
        self._campaigns = {name: Campaign(self._campaign_config(task)) for name, task in self.tasks.items()}
        self._first = next(iter(self._campaigns.values()))

    def check(self) -> None:
        """Refuse a task whose experiment or options there are not, before anything runs."""
        for name, campaign in self._campaigns.items():
            checked = checked_campaign(campaign.config, [])
            self._campaigns[name].config = checked

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the benchmark, so that two do not start the same trials."""
        with self._first.held():
            yield

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Read the runs, whether or not another process goes on with the benchmark."""
        with self._first.opened():
            yield

    def trials(self) -> dict[str, Trial]:
        """Every task with every seed, by key; seeds outside, so that each task has one run before any has two."""
        return {
            campaign.key(trial): trial
            for seed in self.config.seeds
            for name, campaign in self._campaigns.items()
            for trial in [Trial({"task": name}, seed)]
        }

    def key(self, task: str, seed: int) -> str:
        return self._campaigns[task].key(Trial({"task": task}, seed))

    def metric(self, task: str) -> str:
        """What the score of a task is."""
        return self._campaigns[task].config.metric or "eval/return"

    def runs(self) -> dict[str, RunSummary]:
        """The newest run of each trial, with the metrics of all tasks."""
        return self._first.runs(metrics=sorted({self.metric(name) for name in self.tasks}))

    def job(self, trial: Trial, summary: RunSummary | None) -> Job:
        """The command of a trial; its value `task` only names it."""
        campaign = self._campaigns[trial.values["task"]]
        return campaign.job(Trial({}, trial.seed), summary, key=campaign.key(trial))

    def command(self, task: str) -> str:
        """What a reader types to get a task's runs."""
        row = self.tasks[task]
        options = [f"{name}={_typed(value)}" for name, value in self._overrides(row).items()]
        seeds = ",".join(str(seed) for seed in self.config.seeds)
        return shlex.join(["paddock", "train", row.experiment, *options, "--seed", seeds])

    def _campaign_config(self, task: TaskConfig) -> CampaignConfig:
        return CampaignConfig(
            name=self.config.name,
            base_config=task.experiment,
            overrides=self._overrides(task),
            runs_dir=self.config.runs_dir,
            metric=task.metric,
        )

    def _overrides(self, task: TaskConfig) -> dict[str, Any]:
        return {**task.overrides, "training.total_steps": task.steps}


@dataclass(frozen=True)
class Result:
    """A task's runs. last, best: over the finished runs, of each run's last and best evaluation; share: of the way from
    random actions to the published value; kept: how much of its best evaluation the last one keeps, mean over runs,
    measured from random actions; seconds: mean wall clock of training."""

    task: TaskConfig
    finished: int
    last: Estimate | None
    best: float | None
    share: float | None
    kept: float | None
    seconds: float | None


def results(benchmark: Benchmark, runs: Mapping[str, RunSummary]) -> list[Result]:
    """One for each task, in the file's order."""
    return [_result(benchmark, task, runs) for task in benchmark.tasks.values()]


def _result(benchmark: Benchmark, task: TaskConfig, runs: Mapping[str, RunSummary]) -> Result:
    metric = benchmark.metric(task.name)
    found = [runs.get(benchmark.key(task.name, seed)) for seed in benchmark.config.seeds]
    done = [one for one in found if one is not None and one.status == FINISHED and metric in one.metrics]
    if not done:
        return Result(task, 0, None, None, None, None, None)
    last = np.array([one.metrics[metric].last for one in done])
    best = np.array([one.metrics[metric].high for one in done])
    score = estimate([last], interquartile_mean)
    share = None if task.published is None else (score.value - task.random) / (task.published - task.random)
    gained = best - task.random
    kept = float(np.mean((last - task.random)[gained > 0] / gained[gained > 0])) if (gained > 0).any() else None
    return Result(
        task, len(done), score, float(best.mean()), share, kept, float(np.mean([one.seconds for one in done]))
    )


def _typed(value: Any) -> str:
    """A value as a person types it: words without quotes."""
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*", value) else override_value(value)


def progress_rows(progress: Sequence[Progress], benchmark: Benchmark) -> list[list[str]]:
    """Cells of the live table."""
    from paddock.experiments.display import duration, number

    rows = []
    for one in progress:
        summary, name = one.summary, one.trial.values["task"]
        values = summary.metrics.get(benchmark.metric(name)) if summary else None
        shown = [number(summary.agent_steps), duration(summary.seconds)] if summary else ["", ""]
        score = number(values.last) if values else ""
        rows.append([name, str(one.trial.seed), one.status, *shown, score, summary.folder if summary else ""])
    return rows

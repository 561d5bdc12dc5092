"""Searching for good options with Optuna: tree-structured Parzen estimators, pruned by intermediate evaluations.

The study is a journal beside the runs; a search that was killed goes on with it, and with the runs that it had started.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from pydantic import Field, model_validator

from paddock.config.schema import Schema
from paddock.core.system import lock
from paddock.experiments.campaigns.executor import Executor
from paddock.experiments.campaigns.sweep import LOOK_EVERY
from paddock.experiments.campaigns.trials import INTERRUPTED, Campaign, CampaignConfig, Trial
from paddock.experiments.run import RunFolder
from paddock.experiments.store.summaries import ALIVE, RunSummary

PRUNED = "pruned"
COLUMNS = (">trial", "options", "status", ">steps", ">time")


class SpaceConfig(Schema):
    """Values that an option may take: numbers from low to high, or choices."""

    low: float | None = None
    high: float | None = None
    step: float | None = Field(default=None, gt=0)
    scale: Literal["linear", "log"] = "linear"
    whole: bool = False
    choices: list[str | float | int | bool | None] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _is_one_kind(self) -> SpaceConfig:
        if (self.choices is None) == (self.low is None or self.high is None):
            raise ValueError("a parameter needs either low and high, or choices")
        if self.low is not None and self.high is not None and self.high <= self.low:
            raise ValueError("a parameter needs a high above its low")
        if self.scale == "log" and ((self.low or 0) <= 0 or self.step is not None):
            raise ValueError("a logarithmic parameter needs a low above zero and no step")
        return self

    def distribution(self) -> BaseDistribution:
        if self.choices is not None:
            return CategoricalDistribution(self.choices)
        assert self.low is not None
        assert self.high is not None
        is_log = self.scale == "log"
        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=is_log, step=int(self.step or 1))
        return FloatDistribution(self.low, self.high, log=is_log, step=self.step)


class PruningConfig(Schema):
    """A trial is given up when it is worse than the median of the others at the same evaluation."""

    startup_trials: int = Field(default=5, ge=0)
    warmup_evaluations: int = Field(default=1, ge=0)


class TuneConfig(CampaignConfig):
    """trials: how many in all, over all resumes; seed: of the runs; search_seed: of the search."""

    parameters: dict[str, SpaceConfig] = Field(min_length=1)
    trials: int = Field(default=20, ge=1)
    seed: int = Field(default=1, ge=0)
    search_seed: int = 0
    direction: Literal["maximize", "minimize"] = "maximize"
    pruning: PruningConfig | None = Field(default_factory=PruningConfig)


@dataclass(frozen=True)
class Attempt:
    """One trial of the study and its run, if there is one yet."""

    number: int
    trial: Trial
    status: str
    summary: RunSummary | None
    value: float | None


class JournalLock:
    """A lock that the system lets go of when its process ends, however it ends; Optuna's own outlives a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def acquire(self) -> bool:
        self._file = self._path.open("w")
        lock(self._file.fileno(), wait=True)
        return True

    def release(self) -> None:
        self._file.close()


def open_study(config: TuneConfig, campaign: Campaign) -> optuna.Study:
    """The study in the campaign's folder; a new one if there is none."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
    if config.pruning is not None:
        warm, first = config.pruning.warmup_evaluations, config.pruning.startup_trials
        pruner = optuna.pruners.MedianPruner(n_startup_trials=first, n_warmup_steps=warm)
    lock: Any = JournalLock(campaign.folder / "study.lock")
    journal = JournalFileBackend(str(campaign.folder / "study.journal"), lock_obj=lock)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study = optuna.create_study(
            study_name=config.name,
            storage=JournalStorage(journal),
            pruner=pruner,
            direction=config.direction,
            load_if_exists=True,
        )
        # A search that goes on must not draw again what it drew at first.
        seed = config.search_seed + len(study.get_trials(deepcopy=False))
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=config.parallel_jobs > 1)
    return study


def run_search(
    config: TuneConfig,
    campaign: Campaign,
    executor: Executor,
    study: optuna.Study,
    *,
    watch: Callable[[list[Attempt]], None] = lambda attempts: None,
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> list[Attempt]:
    """Ask the study for trials, run them, tell it what came out, until there were enough."""
    space = {name: one.distribution() for name, one in config.parameters.items()}
    started: dict[str, int | None] = {}  # Exit codes of what was started here, None while it runs.
    try:
        while True:
            started.update(executor.ended())
            runs = campaign.runs()
            for frozen in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
                _follow(frozen, config, campaign, executor, study, runs, started)
            watch(attempts(config, campaign, study, runs))
            under_way = study.get_trials(deepcopy=False, states=[TrialState.RUNNING])
            count = len(study.get_trials(deepcopy=False))
            if is_asked_to_stop() or (not under_way and count >= config.trials):
                return attempts(config, campaign, study, runs)
            if len(under_way) < config.parallel_jobs and count < config.trials and executor.has_room():
                _begin(study.ask(space), config, campaign, executor, started)
                continue
            time.sleep(LOOK_EVERY)
    finally:
        executor.close()


def attempts(config: TuneConfig, campaign: Campaign, study: optuna.Study, runs: dict[str, RunSummary]) -> list[Attempt]:
    """Every trial so far, for tables and the report."""
    names = {TrialState.COMPLETE: "finished", TrialState.FAIL: "failed", TrialState.PRUNED: PRUNED}
    found = []
    for frozen in study.get_trials(deepcopy=False):
        trial = _trial(frozen, config)
        value = frozen.value if frozen.state == TrialState.COMPLETE else _last(frozen)
        status = names.get(frozen.state, "running")
        found.append(Attempt(frozen.number, trial, status, runs.get(campaign.key(trial)), value))
    return found


def _trial(frozen: FrozenTrial, config: TuneConfig) -> Trial:
    return Trial(dict(frozen.params), config.seed)


def _last(frozen: FrozenTrial) -> float | None:
    values = frozen.intermediate_values
    return values[max(values)] if values else None


def _begin(
    asked: optuna.Trial, config: TuneConfig, campaign: Campaign, executor: Executor, started: dict[str, int | None]
) -> None:
    trial = Trial(dict(asked.params), config.seed)
    started[campaign.key(trial)] = None
    executor.submit(campaign.job(trial, None))


def _follow(
    frozen: FrozenTrial,
    config: TuneConfig,
    campaign: Campaign,
    executor: Executor,
    study: optuna.Study,
    runs: dict[str, RunSummary],
    started: dict[str, int | None],
) -> None:
    """Report a trial's new evaluations; end it when it is done, hopeless or broken, resume it when it was cut off."""
    trial = _trial(frozen, config)
    key = campaign.key(trial)
    summary = runs.get(key)
    handle = optuna.Trial(study, frozen._trial_id)
    scores = _evaluations(campaign, summary, config.metric or "")
    for number, score in enumerate(scores):
        if number not in frozen.intermediate_values:
            handle.report(score, number)
    is_here = key in started and started[key] is None
    if summary is not None and summary.status == "finished" and scores:
        study.tell(frozen.number, scores[-1])
    elif summary is not None and (is_here or summary.status in ALIVE) and handle.should_prune():
        executor.cancel(key)
        campaign.stop(summary)
        campaign.label(summary, PRUNED)
        study.tell(frozen.number, state=TrialState.PRUNED)
    elif is_here or (summary is not None and summary.status in ALIVE):
        return
    elif key in started or (summary is not None and summary.status not in INTERRUPTED):
        study.tell(frozen.number, state=TrialState.FAIL)
    elif executor.has_room():
        executor.submit(campaign.job(trial, summary))
        started[key] = None


def _evaluations(campaign: Campaign, summary: RunSummary | None, metric: str) -> list[float]:
    if summary is None:
        return []
    events: list[dict[str, Any]] = RunFolder(campaign.runs_dir / summary.folder).read_events()
    return [float(event[metric]) for event in events if event["event"] == "evaluation" and metric in event]


def importances(study: optuna.Study) -> dict[str, float]:
    """How much of the differences between trials each option explains; empty while there is too little to say."""
    done = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    if len(done) < 4 or len({trial.value for trial in done}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return {
            name: float(one)
            for name, one in optuna.importance.get_param_importances(study, evaluator=evaluator).items()
        }


def search_rows(attempts: Sequence[Attempt]) -> list[list[str]]:
    """Cells of the live table."""
    from paddock.experiments.display import duration, number

    rows = []
    for one in attempts:
        summary = one.summary
        work = [number(summary.agent_steps), duration(summary.seconds)] if summary else ["", ""]
        rows.append([str(one.number), one.trial.label, one.status, *work, number(one.value)])
    return rows

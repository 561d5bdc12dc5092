"""The training loop. It owns time, files and requests from outside, and knows nothing of any algorithm."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paddock.buffers.mixing import draw_batch
from paddock.components.learners import LearnerLostError
from paddock.components.learning import set_frozen
from paddock.core.cadence import Every
from paddock.core.clock import now
from paddock.core.errors import InputError, NonFiniteError, PaddockError
from paddock.core.seeding import get_random_state, set_random_state
from paddock.core.trees import save_tree
from paddock.environments.calls import CutOff, EnvironmentFailure
from paddock.evaluation.results import Scores
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import register
from paddock.orchestration import endings
from paddock.orchestration.checkpoint import Checkpoint
from paddock.orchestration.collaborators import Collaborators
from paddock.orchestration.evaluating import BesideTraining, measure
from paddock.orchestration.loggers import JsonLines, Logger, Row, rewind_log
from paddock.orchestration.pauses import Pauses
from paddock.orchestration.phase_scheduler import COLLECT, EVALUATE, Action, PhaseConfig
from paddock.orchestration.policies import BEST, LATEST
from paddock.orchestration.schema import ExperimentConfig
from paddock.orchestration.served_run import OrchestratedRun
from paddock.orchestration.stopwatch import Stopwatch
from paddock.orchestration.terminal import STOPPING, Standing, Terminal
from paddock.rollout.actor import ActorModule
from paddock.workflows.base import Workflow, needs_batch
from paddock.workflows.context import Counters, WorkflowContext

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `finished`, or `stopped` when somebody asked."""

    status: str
    counters: Counters
    seconds: float
    latest: dict[str, float]
    best_score: float | None
    time_shares: dict[str, float]


class Orchestrator:
    """Asks the scheduler what is next, has the workflow do it, and keeps everything safe around it."""

    def __init__(
        self,
        config: ExperimentConfig,
        run: RunFolder,
        workflow: Workflow,
        context: WorkflowContext,
        given: Collaborators,
    ) -> None:
        self.config = config
        self.run_folder = run
        self.workflow = workflow
        self.context = context
        self.counters = context.counters
        self.ranks = given.ranks
        self.metrics = given.metrics
        self.scheduler = given.scheduler
        self.checkpoints = given.checkpoints
        self.control = given.control
        self.monitor = given.monitor
        self.diagnostics = given.diagnostics
        self.make_eval_env = given.make_eval_env
        self._policies = given.policies
        self.home = given.home
        self._evaluator = given.evaluator
        self._probes = given.probes
        self._make_loggers = given.make_loggers
        self._loggers: list[Logger] = []
        self._stopwatch = Stopwatch("collect", "update", "evaluate", "checkpoint", "sample")
        self._is_log_due = Every(config.logging.every_steps)
        by_updates = config.logging.every_updates
        self._is_log_due_by_updates = Every(by_updates) if by_updates else None
        self._is_save_due = Every(config.checkpoint.every_steps) if config.checkpoint.every_steps else None
        self._is_save_wanted = False
        self.is_paused = False
        self.ends_after: int | None = None  # agent steps, where the run has to end before its configuration says
        self._scores, self._beside = Scores(), BesideTraining()
        self._last_evaluation: dict[str, Any] | None = None
        self._entered: str | None = None  # the phase of what was last done, which the next row is about
        self._seconds_before = 0.0
        self.service = given.make_service(OrchestratedRun(self))
        self._pauses = Pauses(self, self.save)

    def run(self) -> Outcome:
        """Train to the end, or until asked to stop; either way everything is saved and closed."""
        self._started = self._last_save = time.perf_counter()
        try:
            self._open()
            with self.control.listening():
                self.monitor.start()
                self.service.open()
                self._loop()
                return self._finish()
        except (EnvironmentFailure, CutOff) as error:
            raise endings.by_environment(self, error) from error
        except LearnerLostError as error:
            raise endings.by_learner(self, error) from error
        except PaddockError as error:
            self.fail(str(error))
            raise
        except OSError as error:
            raise endings.by_files(self, error) from error
        except BaseException as error:
            self.fail(f"{type(error).__name__}: {error}")
            raise
        finally:
            self._close()

    def _open(self) -> None:
        self.home.open()
        self._json = JsonLines(self.run_folder.metrics_file)
        self._loggers = [self._json, *self._make_loggers(self.counters.agent_steps)]
        for logger in self._loggers:
            if isinstance(logger, Terminal):
                logger.follow(self.standing)
        self.run_folder.write_manifest(status="running", learners=self.ranks.count)
        register(self.run_folder)

    def _close(self) -> None:
        """Whatever cannot be closed must not hide how the run ended, nor keep the rest from being closed."""
        around: list[Any] = [self.monitor, self.service, self.home, self.ranks, self.context.experience]
        for part in [self._beside, *self._loggers, *around]:
            try:
                part.close()
            except Exception as error:
                log.warning("closing the run: %s: %s", type(error).__name__, error)
        register(self.run_folder)

    @property
    def seconds(self) -> float:
        """Wall clock of training, over all resumes."""
        return self._seconds_before + time.perf_counter() - self._started

    def standing(self) -> Standing:
        """Where the run stands at this moment; safe to ask from another thread."""
        phase = self.scheduler.current_phase() or list(self.config.training.phases.values())[-1]
        steps = self.counters.agent_steps + self.context.experience.steps_under_way
        word = STOPPING if self.control.stop_requested_by else "paused" if self.is_paused else phase.name
        return Standing(steps, self.seconds, word, self._stopwatch.current)

    def _loop(self) -> None:
        entered: PhaseConfig | None = None
        while (action := self.scheduler.next_action()) is not None:
            self.home.check()
            if self.scheduler.is_at_cycle_start:
                if self._is_row_due():
                    self._log(self._entered or action.phase.name)
                if self._has_reached_limit():
                    return
            if action.phase is not entered:
                self._enter_phase(action.phase)
                entered, self._entered = action.phase, action.phase.name
            self._perform(action)
            if self._is_checkpoint_due():
                self.save()
            self.service.handle_requests()
            if self.control.pause_requested_by is not None:
                self._pauses.on_request()
            if self.control.stop_requested_by is not None:
                return

    def _perform(self, action: Action) -> None:
        """Do one action and tell the scheduler what it came to."""
        if action.hook == COLLECT:
            self._collect(action)
        elif action.hook == EVALUATE:
            self._evaluate()
            self.scheduler.advance(action)
        elif not needs_batch(hook := getattr(self.workflow, action.hook)):
            self._call_without_batch(action, hook)
        elif (batch := self._batch_for(action.phase)) is None:
            self.scheduler.skip()
        else:
            before = self.counters.updates
            keeping, watching = self._keeping_faults(action, batch), self.diagnostics.watching()
            together = self.ranks.updating(self.workflow, action.hook, batch, action.phase)
            with keeping, self._stopwatch.timing("update"), watching, together as moved:
                metrics = hook(moved, phase=action.phase)
            self.metrics.add(metrics)
            self.metrics.add(self.diagnostics.statistics())
            if self.counters.updates == before:
                self.counters.updates += 1
            self.scheduler.advance(action, updates=self.counters.updates - before)

    def _call_without_batch(self, action: Action, hook: Callable[..., Mapping[str, Any]]) -> None:
        """A hook that learns from no batch; it counts its own steps and updates."""
        before = asdict(self.counters)
        with self._stopwatch.timing("update"), self.diagnostics.watching():
            metrics = hook(phase=action.phase)
        self.metrics.add(metrics)
        self.metrics.latest.update({name: float(value) for name, value in metrics.items()})
        taken = {name: value - before[name] for name, value in asdict(self.counters).items()}
        self.scheduler.advance(action, steps=taken["agent_steps"], updates=taken["updates"])

    def _collect(self, action: Action) -> None:
        collect = partial(self.workflow.collect_step, action.steps, phase=action.phase)
        with self._stopwatch.timing("collect"):
            result = self._pauses.collect(collect, self.context.buffers.get(action.phase.buffer or ""))
        if result is None:
            return
        self.counters.agent_steps += result.steps
        self.counters.env_frames += result.extras.get("env_frames", result.steps)
        self.metrics.add(result.metrics)
        if result.steps or not action.steps:  # Else nothing has arrived yet: the same again.
            self.scheduler.advance(action, steps=result.steps)

    def _batch_for(self, phase: PhaseConfig) -> dict[str, Any] | None:
        """A batch of the phase's buffer; None while it holds too little for one."""
        buffer = self.context.buffers[phase.buffer or ""]
        if not buffer.can_sample():
            if phase.type == "offline":
                raise InputError(f"phase '{phase.name}' learns from buffer '{phase.buffer}', which holds too little.")
            return None
        with self._stopwatch.timing("sample"):
            return draw_batch(self.context.buffers, phase.buffer or "")

    @contextmanager
    def _keeping_faults(self, action: Action, batch: Any) -> Iterator[None]:
        """Around one update: the batch that made a number that is not finite is kept."""
        try:
            yield
        except NonFiniteError as error:
            folder = self.run_folder.faults / f"step-{self.counters.agent_steps:012d}"
            folder.mkdir(parents=True, exist_ok=True)
            save_tree(folder, "batch", batch)
            raise PaddockError(
                f"{error} in phase '{action.phase.name}', {action.hook}, after {self.counters.agent_steps:,} steps. "
                f"The batch that made it is kept in '{folder}'; the checkpoints before it are sound."
            ) from error

    def _evaluate(self) -> None:
        self._take_evaluation()
        settings, actor, counters = self.config.evaluation, self.workflow.actor(), asdict(self.counters)
        best, names = self._scores.best, self._policies.names()

        def measured(policy: ActorModule) -> dict[str, float]:
            given = self.make_eval_env, settings, self._evaluator, self._probes
            return measure(policy, *given, run=self.run_folder, counters=counters, best_score=best, policies=names)

        if settings.beside:
            self._beside.start(measured, actor, counters, self._entered or "")
            return
        with self._stopwatch.timing("evaluate"):
            results = measured(actor)
        self.home.check()
        self._judge(actor, results, counters)
        self.metrics.add(results)

    def _take_evaluation(self) -> None:
        """Wait for the evaluation beside training, if there is one, and log it at the step that it belongs to."""
        with self._stopwatch.timing("evaluate"):
            found = self._beside.take()
        if found is not None:
            self._judge(found.actor, found.results, found.counters)
            self._log_row(Row(found.counters, found.phase, self.seconds, found.results))

    def _judge(self, actor: ActorModule, results: dict[str, float], counters: Mapping[str, int]) -> None:
        """Keep what an evaluation says of the policy, and the policy where it is a good one."""
        score, steps = results.get(self.config.evaluation.metric), counters["agent_steps"]
        if score is not None:
            results["eval/kept"] = self._scores.kept(score)
        self.metrics.latest.update(results)
        self._last_evaluation = {**counters, "score": score}
        self.run_folder.event("evaluation", agent_steps=steps, **results)
        self._policies.keep_if_improved(actor, results, agent_steps=steps)
        if score is not None and self._scores.add(score):
            self._policies.export(actor, BEST, agent_steps=steps, metrics=dict(results))
            self._is_save_wanted = True  # once the scheduler knows that this evaluation is over

    def leave_out(self, seconds: float) -> None:
        """Time that is no training."""
        self._started += seconds
        self._last_save += seconds

    def _enter_phase(self, phase: PhaseConfig) -> None:
        self.context.controllers.select(phase.controller)
        for name, component in self.context.components.items():
            set_frozen(component, name in phase.freeze)
        if self.scheduler.is_at_phase_start:  # A resumed environment brings its weights along.
            for name, weight in self.config.reweighing(phase).items():
                self.context.experience.set_reward_weight(name, weight)
        self.run_folder.event("phase", phase=phase.name, agent_steps=self.counters.agent_steps)

    def _has_reached_limit(self) -> bool:
        training = self.config.training
        if self.ends_after is not None and self.counters.agent_steps >= self.ends_after:
            return True
        if training.total_steps is not None and self.counters.agent_steps >= training.total_steps:
            return True
        return training.max_seconds is not None and self.seconds >= training.max_seconds

    def _is_row_due(self) -> bool:
        """By steps, or by updates where that is wanted: while nothing is collected, only those move."""
        by_updates = self._is_log_due_by_updates
        # Both are asked, so that both go on counting.
        due = [self._is_log_due(self.counters.agent_steps), by_updates and by_updates(self.counters.updates)]
        return any(due)

    def _log(self, phase: str) -> None:
        self._take_evaluation()
        if means := self.metrics.flush():
            means |= self.monitor.take_sample()
            self.metrics.latest.update(means)
            self._log_row(Row(asdict(self.counters), phase, self.seconds, means))

    def _log_row(self, row: Row) -> None:
        self.home.check()
        for logger in self._loggers:
            logger.log(row)
        self.monitor.check(row.metrics, self.metrics.latest)

    def _is_checkpoint_due(self) -> bool:
        by_steps = self._is_save_due is not None and self._is_save_due(self.counters.agent_steps)
        every = self.config.checkpoint.every_seconds
        return (
            self._is_save_wanted or by_steps or (every is not None and time.perf_counter() - self._last_save >= every)
        )

    def save(self, **info: Any) -> Path:
        """Write a checkpoint, with more to be known of it if given."""
        self.home.check()
        self._take_evaluation()
        try:
            with self._stopwatch.timing("checkpoint"):
                path = self._write_checkpoint(info)
        except PaddockError:
            self.home.check()  # Where the whole folder was deleted meanwhile, that is what to say.
            raise
        self._last_save = time.perf_counter()
        self._is_save_wanted = False
        return path

    def _write_checkpoint(self, info: Mapping[str, Any]) -> Path:
        evaluation = self._last_evaluation or {}
        experience = self.context.experience
        is_scored = all(evaluation.get(name) == value for name, value in asdict(self.counters).items())
        return self.checkpoints.save(
            self.get_state(),
            self.context.buffers,
            agent_steps=self.counters.agent_steps,
            info={
                "workflow": self.workflow.kind,
                "is_exact": experience.is_exact,
                **({"inexact": list(experience.inexact)} if experience.inexact else {}),
                "learners": self.ranks.count,
                **info,
            },
            score=evaluation.get("score") if is_scored else None,
        )

    def get_state(self) -> dict[str, Any]:
        """All of the run's state but the buffers'."""
        context, by_updates = self.context, self._is_log_due_by_updates
        return {
            "counters": asdict(self.counters),
            "components": {name: part.state_dict() for name, part in context.components.items()},
            "optimizers": {name: part.state_dict() for name, part in context.optimizers.items()},
            "controllers": context.controllers.get_state(),
            "collector": context.experience.get_state(),
            "scheduler": self.scheduler.get_state(),
            "entered": self._entered,
            "workflow": self.workflow.get_state(),
            "metrics": self.metrics.get_state(),
            "random": get_random_state(),
            "cadences": {"log": self._is_log_due.get_state(), "log_by_updates": by_updates and by_updates.get_state()},
            "first_score": self._scores.first,
            "best_score": self._scores.best,
            "last_evaluation": self._last_evaluation,
            "seconds": self.seconds,
            "metrics_position": self._json.position(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint as if nothing had happened."""
        state, context = checkpoint.state, self.context
        if (given := checkpoint.info["workflow"]) != self.workflow.kind:
            raise InputError(
                f"checkpoint '{checkpoint.path}' was written by {given}, this run is {self.workflow.kind}; "
                "a checkpoint only fits the algorithm that wrote it."
            )
        for name, value in state["counters"].items():
            setattr(self.counters, name, value)
        for name, part in context.components.items():
            part.load_state_dict(state["components"][name])
        for name, part in context.optimizers.items():
            part.load_state_dict(state["optimizers"][name])
        for name, buffer in context.buffers.items():
            self.checkpoints.load_buffer(checkpoint, name, buffer)
            if not context.experience.is_exact:
                buffer.mark_discontinuity()
        if "controllers" in state:  # Not in checkpoints of format 1.
            context.controllers.set_state(state["controllers"])
        context.experience.set_state(state["collector"], agent_steps=self.counters.agent_steps)
        self.scheduler.set_state(state["scheduler"])
        self._entered = state.get("entered")  # Not in checkpoints of format 1.
        self.workflow.set_state(state["workflow"])
        self.metrics.set_state(state["metrics"])
        self._is_log_due.set_state(state["cadences"]["log"])
        if self._is_log_due_by_updates is not None:
            passed = state["cadences"].get("log_by_updates")  # Not in checkpoints of before.
            by_count = self.counters.updates // self._is_log_due_by_updates.period
            self._is_log_due_by_updates.set_state(by_count if passed is None else passed)
        if self._is_save_due is not None:
            self._is_save_due.set_state(self.counters.agent_steps // self._is_save_due.period)
        # A checkpoint from before there was a first score counts from the best one.
        self._scores = Scores(state.get("first_score", state["best_score"]), state["best_score"])
        self._last_evaluation = state["last_evaluation"]
        self._seconds_before = state["seconds"]
        rewind_log(self.run_folder.metrics_file, state["metrics_position"])
        set_random_state(state["random"])

    def _finish(self) -> Outcome:
        """Evaluate the final policy, save, and say how it went."""
        self._take_evaluation()
        asked = self.control.stop_requested_by
        phase = self.scheduler.current_phase() or list(self.config.training.phases.values())[-1]
        evaluates = any(
            hook.method == EVALUATE
            for one in self.config.training.phases.values()
            for hook in one.workflow_hooks.values()
        )
        seen = (self._last_evaluation or {}).get("updates")
        if evaluates and asked is None and seen != self.counters.updates:
            self._evaluate()
        if asked is None:  # Else the means go on to gather in the checkpoint, as if nobody had asked.
            self._log(phase.name)
        self.save()
        steps, latest = self.counters.agent_steps, dict(self.metrics.latest)
        self._policies.export(self.workflow.actor(), LATEST, agent_steps=steps, metrics=latest)
        status = "stopped" if asked else "finished"
        self.run_folder.event(status, agent_steps=self.counters.agent_steps, by=asked)
        seconds = self._write_ending(status, self.run_folder)
        table = self.diagnostics.table()
        if table:
            (self.run_folder.path / "profile.txt").write_text(table)
            log.warning("debug: where the updates' time went (also in profile.txt)\n%s", table)
        return Outcome(
            status=status,
            counters=self.counters,
            seconds=seconds,
            latest=dict(self.metrics.latest),
            best_score=self._scores.best,
            time_shares=self._stopwatch.shares(time.perf_counter() - self._started),
        )

    def save_by_hand(self, name: str | None) -> str:
        """Save everything, and the policy under a name of its own; which one."""
        self.save()
        metrics, steps = self.metrics.latest, self.counters.agent_steps
        return self._policies.save_by_hand(self.workflow.actor(), name, metrics, agent_steps=steps)

    def _write_ending(self, status: str, run: RunFolder, **more: Any) -> float:
        """Note how the run ended; gives the wall clock of its training as noted, so that there is one such number."""
        seconds = round(self.seconds, 3)
        run.write_manifest(
            status=status,
            ended=now(),
            **asdict(self.counters),
            seconds=seconds,
            best_score=self._scores.best,
            **more,
        )
        return seconds

    def fail(self, message: str) -> None:
        """Note in the run's folder why it ended."""
        try:
            run = self.home.last_words()
            if run is not None:
                run.event("failed", agent_steps=self.counters.agent_steps, error=message)
                self._write_ending("failed", run, error=message)
        except OSError as error:  # The disk that failed the run may not take its obituary either.
            log.warning("the failure could not be noted in '%s': %s", self.run_folder.path, error)

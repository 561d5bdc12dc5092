"""Measuring the policy of a run: everything that `evaluation` asks for, at once or in a thread beside training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

import torch

from paddock.core.own_random import OwnDraws
from paddock.evaluation.evaluator import EvaluationConfig, Evaluator, Probe, record_video
from paddock.evaluation.results import keep_drives, keep_result
from paddock.experiments.run import RunFolder
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv

Results = dict[str, float]


@dataclass(frozen=True)
class Measured:
    """The results of a policy, and where the run stood when it was that policy."""

    actor: ActorModule
    counters: Mapping[str, int]
    phase: str
    results: Results


def measure(
    actor: ActorModule,
    make_env: MakeEnv,
    settings: EvaluationConfig,
    evaluator: Evaluator,
    probes: Sequence[Probe],
    *,
    run: RunFolder,
    counters: Mapping[str, int],
    best_score: float | None,
    policies: set[str],
) -> Results:
    """Evaluate, probe and film a policy; what is worth keeping goes to the run's folder. policies: their names."""
    modes = {"eval/": True} if settings.deterministic else {}
    modes |= {"eval/stochastic_" if modes else "eval/": False} if settings.stochastic or not modes else {}
    results: Results = {}
    for prefix, deterministic in modes.items():
        found = evaluator(actor, make_env, episodes=settings.episodes, seed=settings.seed, deterministic=deterministic)
        results |= found.metrics(prefix)
        if prefix == "eval/":
            keep_result(run.results, evaluator, found, settings, counters, best_score=best_score)
            keep_drives(run.path, evaluator, found, counters["agent_steps"], policies)
    for probe in probes:
        results |= probe(actor, make_env, seed=settings.seed)
    if settings.video:
        file = run.videos / f"step-{counters['agent_steps']:012d}.mp4"
        getattr(evaluator, "record_video", record_video)(actor, make_env, file, seed=settings.seed)
    return results


class BesideTraining:
    """One evaluation at a time in a thread, of a frozen copy and with random numbers of its own: its results are those
    of an evaluation that training waits for."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[Measured] | None = None

    def start(
        self,
        measure_copy: Callable[[ActorModule], Results],
        actor: ActorModule,
        counters: Mapping[str, int],
        phase: str,
    ) -> None:
        assert self._under_way is None, "the evaluation before this one has not been taken"
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "paddock-evaluate", torch.set_num_threads, (torch.get_num_threads(),))
        frozen = copy.deepcopy(actor)

        def evaluated() -> Measured:
            with OwnDraws(torch.Generator()):
                return Measured(frozen, counters, phase, measure_copy(frozen))

        self._under_way = self._thread.submit(copy_context().run, evaluated)

    def take(self) -> Measured | None:
        """Wait for the evaluation under way; None where there is none."""
        under_way, self._under_way = self._under_way, None
        return None if under_way is None else under_way.result()

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.shutdown()


def refusal(until: Mapping[str, str | None]) -> str | None:
    """Why evaluations cannot run beside training, given the `until` of each phase by name."""
    for name, condition in until.items():
        if condition is not None and "eval/" in condition:
            return (
                f"evaluation.beside cannot be used while phase '{name}' ends by '{condition}', because results come "
                "later than the step they belong to; set it to false, or give the phase a duration in place of it"
            )
    return None

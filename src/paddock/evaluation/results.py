"""What an evaluation found, kept in the run's folder: every single result, and the protocol that gave it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.core.files import make_folder, replace_file
from paddock.core.results import TRACES, drives_folder
from paddock.evaluation.evaluator import EvaluationConfig, EvaluationResult, Evaluator


@dataclass
class Scores:
    """The first and the best score of a run's evaluations."""

    first: float | None = None
    best: float | None = None

    def add(self, score: float) -> bool:
        """Whether it is the best so far."""
        self.first = score if self.first is None else self.first
        is_best = self.best is None or score > self.best
        self.best = score if is_best else self.best
        return is_best

    def kept(self, score: float) -> float:
        """How much a score keeps of the best one before it, counted from the first; 1 where it is the best."""
        if self.first is None or self.best is None or score >= self.best or self.best == self.first:
            return 1.0
        return (score - self.first) / (self.best - self.first)


def keep_result(
    folder: Path,
    evaluator: Evaluator,
    result: EvaluationResult,
    settings: EvaluationConfig,
    counters: Mapping[str, int],
    *,
    best_score: float | None,
) -> None:
    """Write it as the latest result, and as the best one if no score was as good so far."""
    protocol = {"episodes": settings.episodes, "seed": settings.seed, "deterministic": settings.deterministic}
    score = result.metrics("eval/").get(settings.metric)
    is_best = score is not None and (best_score is None or score > best_score)
    for name in ["latest", "best"] if is_best else ["latest"]:
        write_result(folder, name, evaluator, result, protocol=protocol, counters=counters)


def write_result(
    folder: Path,
    name: str,
    evaluator: Evaluator,
    result: EvaluationResult,
    *,
    protocol: Mapping[str, Any],
    counters: Mapping[str, int],
) -> None:
    """Write `<folder>/<name>.json`. An evaluator with a method `traces(result)` adds them."""
    traces = getattr(evaluator, TRACES, None)
    values = {
        **counters,
        "protocol": dict(protocol),
        "metrics": result.metrics(),
        "details": result.details(),
        TRACES: traces(result) if traces is not None else None,
    }
    make_folder(folder)
    replace_file(folder / f"{name}.json", json.dumps(values).encode())


def keep_drives(run: Path, evaluator: Evaluator, result: EvaluationResult, agent_steps: int, kept: set[str]) -> None:
    """Keep what the policy did for later viewers, where the evaluator has a method `keep_drives`.

    kept: names of the run's policies, whose drives stay when there are too many.
    """
    keep = getattr(evaluator, "keep_drives", None)
    if keep is not None:
        keep(drives_folder(run), result, agent_steps=agent_steps, kept=kept)

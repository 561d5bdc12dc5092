"""What an evaluation found, kept in the run's folder: every single result, and the protocol that gave it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.core.files import make_folder, replace_file
from paddock.evaluation.evaluator import EvaluationConfig, Judge, Judgement


def keep_judgement(
    folder: Path,
    judge: Judge,
    judgement: Judgement,
    settings: EvaluationConfig,
    counters: Mapping[str, int],
    *,
    best_score: float | None,
) -> None:
    """Write it as the latest judgement, and as the best one if no score was as good so far."""
    protocol = {"episodes": settings.episodes, "seed": settings.seed, "deterministic": settings.deterministic}
    score = judgement.metrics("eval/").get(settings.metric)
    is_best = score is not None and (best_score is None or score > best_score)
    for name in ["latest", "best"] if is_best else ["latest"]:
        write_judgement(folder, name, judge, judgement, protocol=protocol, counters=counters)


def write_judgement(
    folder: Path,
    name: str,
    judge: Judge,
    judgement: Judgement,
    *,
    protocol: Mapping[str, Any],
    counters: Mapping[str, int],
) -> None:
    """Write `judgements/<name>.json`. A judge with a method `evidence(judgement)` adds what it saw."""
    evidence = getattr(judge, "evidence", None)
    values = {
        **counters,
        "protocol": dict(protocol),
        "metrics": judgement.metrics(),
        "details": judgement.details(),
        "evidence": evidence(judgement) if evidence is not None else None,
    }
    make_folder(folder)
    replace_file(folder / f"{name}.json", json.dumps(values).encode())

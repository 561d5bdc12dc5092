"""What an evaluation found, kept in the run's folder: every single result, and the protocol that gave it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paddock.core.files import replace_file
from paddock.experiments.run import RunFolder
from paddock.rollout.evaluation import Judge, Judgement


def write_judgement(
    run: RunFolder,
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
    run.judgements.mkdir(exist_ok=True)
    replace_file(run.judgements / f"{name}.json", json.dumps(values).encode())

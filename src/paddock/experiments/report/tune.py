"""The page about a search: how it went, which options mattered, and each option against the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna

from paddock import __version__
from paddock.experiments.campaigns.tune import Attempt, TuneConfig, importances
from paddock.experiments.display import number
from paddock.experiments.report.report import write_page


def write_tune_report(file: Path, config: TuneConfig, study: optuna.Study, attempts: Sequence[Attempt]) -> Path:
    """Write the page and give its path."""
    data = search_values(config, study, attempts)
    return write_page(file, title=f"Search: {config.name}", data=data, scripts=["charts.js", "tune.js"])


def search_values(config: TuneConfig, study: optuna.Study, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """A search as plain values."""
    finished = [one for one in attempts if one.status == "finished" and one.value is not None]
    sign = 1 if config.direction == "maximize" else -1
    best = max(finished, key=lambda one: sign * (one.value or 0.0), default=None)
    return {
        "name": config.name,
        "base": config.base_config,
        "metric": config.metric,
        "direction": config.direction,
        "seed": config.seed,
        "version": __version__,
        "written": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        "parameters": {name: {"is_log": one.scale == "log"} for name, one in config.parameters.items()},
        "importances": importances(study),
        "best": best.number if best else None,
        "trials": [
            {
                "number": one.number,
                "values": dict(one.trial.values),
                "status": one.status,
                "value": one.value,
                "run": one.summary.folder if one.summary else None,
                "steps": one.summary.agent_steps if one.summary else None,
            }
            for one in attempts
        ],
    }


def show_best(values: Mapping[str, Any]) -> None:
    """Print the best trial of a search, if one has finished."""
    if values["best"] is not None:
        best = values["trials"][values["best"]]
        print(f"best: trial {best['number']}, {values['metric']} {number(best['value'])}, run {best['run']}")
        print("      " + " ".join(f"{name}={value}" for name, value in best["values"].items()))

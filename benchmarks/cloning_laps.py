"""Cloning the classical driver: how many starts finish and how fast, over the number of demonstrated laps.

    python benchmarks/cloning_laps.py [--experiments bc_racing flow_racing] [--laps 1 3 10 30 100] [--folder DIR]

Trains each experiment once per number of laps and drives 64 standing starts, spread over the lap. The teacher drives
the same starts without noise. Runs that are in the folder already are not trained again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from paddock.config.compose import compose
from paddock.config.inheritance import settle
from paddock.config.schema import validate_target
from paddock.orchestration.launch import Request, new_run, resolve
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.teacher import drivers_at
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.drive import PolicyDriver, drive_laps, with_evaluation_rules
from paddock.rollout.actor import load_policy

STARTS, SEED = 64, 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", nargs="+", default=["bc_racing", "flow_racing"])
    parser.add_argument("--laps", type=int, nargs="+", default=[1, 3, 10, 30, 100])
    parser.add_argument("--folder", type=Path, default=Path("runs/cloning"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    values = settle(compose(options.experiments[0])).values
    environment = validate_target(values["environment"])
    assert isinstance(environment, RacingConfig)
    env = RacingVectorEnv(STARTS, config=with_evaluation_rules(environment))
    pace = values["buffers"]["demonstrations"]["demonstrator"]["pace"]
    print("| driver | laps | finished | mean lap | slower than the teacher |\n|---|---|---|---|---|")
    teacher = report("teacher", "", drive_laps(env, Teacher(env, pace), seed=SEED), None)
    for experiment in options.experiments:
        for laps in options.laps:
            policy = load_policy(trained(experiment, laps, options.folder))
            driver = PolicyDriver(policy, STARTS, seed=SEED, deterministic=True)
            report(experiment, str(laps), drive_laps(env, driver, seed=SEED), teacher)


class Teacher:
    """The classical driver at the pace of the demonstrations, without noise."""

    def __init__(self, env: RacingVectorEnv, pace: float) -> None:
        self._drivers = drivers_at(env, pace)

    def act(self, observation: Any, world: Any) -> np.ndarray:
        return self._drivers.act(world)


def report(name: str, laps: str, found: Any, teacher: float | None) -> float:
    """Print a row; gives the mean lap."""
    mean = float(np.nanmean(found.lap_time)) if found.finished.any() else float("nan")
    slower = "" if teacher is None else f"{100 * (mean / teacher - 1):+.1f} %"
    print(f"| {name} | {laps} | {100 * found.finished.mean():.1f} % | {mean:.2f} s | {slower} |", flush=True)
    return mean


def trained(experiment: str, laps: int, folder: Path) -> Path:
    """The newest policy of an experiment with so many laps, trained where there is none yet."""
    folder = folder / f"{experiment}-{laps}"
    if not (saved := sorted(folder.glob("*/policy/latest"))):
        overrides = [
            f"runs_dir={folder}", f"buffers.demonstrations.demonstrator.laps={laps}", "logging.tensorboard=false",
            "training.phases.clone.workflow_hooks.evaluate=null",
        ]  # fmt: skip
        config, _ = resolve(Request(experiment, overrides=overrides))
        with new_run(config, Console(quiet=True)) as orchestrator:
            orchestrator.run()
        saved = sorted(folder.glob("*/policy/latest"))
    return saved[-1]


if __name__ == "__main__":
    main()

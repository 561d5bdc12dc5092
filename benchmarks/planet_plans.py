"""Processor seconds of one PlaNet plan for several environments at once (dm-control's cartpole).

    python benchmarks/planet_plans.py [--environments 4] [--rounds 5] [--set KEY=VALUE ...]

Plans are the paper's, 1,000 candidates of 12 steps in 10 rounds; `--set` changes any option. To compare with another
version of the code, put its `src` first: PYTHONPATH=FOLDER/src python benchmarks/planet_plans.py. One thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console

from paddock.experiments.run import RunFolder
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve

PLAN = "controllers.available.cem.planner={horizon: 12, candidates: 1000, iterations: 10, elites: 100}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", dest="changes", nargs="*", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        quiet = ["logging.terminal=false", "logging.tensorboard=false", f"runs_dir={folder}"]
        request = Request("planet_dmc_cartpole", name="plans", overrides=[*quiet, PLAN, *options.changes])
        config, _ = resolve(request)
        run = RunFolder.create(Path(folder), "plans", config.model_dump(mode="json", by_alias=True))
        actor = build(config, run, Console(quiet=True)).workflow.context.controllers["cem"]
        torch.set_num_threads(1)
        seen, state = {"observation": torch.randn(options.environments, 5)}, actor.initial_state(options.environments)
        seconds = []
        with torch.inference_mode():
            for _ in range(options.rounds + 1):
                started = time.process_time()
                actor.act(seen, state, deterministic=True)
                seconds.append(time.process_time() - started)
    print(f"{statistics.median(seconds[1:]):.3f} s a plan, median of {options.rounds}")  # The first one warms up.


if __name__ == "__main__":
    main()

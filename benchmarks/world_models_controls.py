"""What the memory and the encoder of World Models are good for: five controls that share one trained run, scored side
by side on the same unseen starts. Only the random encoder learns a memory of its own, because latents differ.

    paddock train world_models_racing_camera --name camera
    python benchmarks/world_models_controls.py RUN --generations 30
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import torch
from world_models_scores import baselines, returns

import paddock
from paddock.orchestration.launch import Request, resolve
from paddock.racing.env.vector import RacingVectorEnv


def controls(run: str) -> dict[str, list[str]]:
    """What each control changes in the command line of the experiment; `run` has the trained encoder and memory."""
    both = f"initial_weights={{vae: {run}, memory: {run}}}"
    evolve = "preset=world_models_evolve"
    return {
        "trained memory": [evolve, both],
        "untrained memory": [evolve, f"initial_weights={{vae: {run}}}"],
        "latent only": [evolve, both, "components.controller.reads=nothing"],
        "latent and the one before": [evolve, both, "components.controller.reads=earlier_latent"],
        "random encoder": ["training.phases.converge_vae=null"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a finished run whose encoder and memory are taken")
    parser.add_argument("overrides", nargs="*", help="key=value, for all five")
    parser.add_argument("--experiment", default="world_models_racing_camera", help="the experiment of that run")
    parser.add_argument("--only", action="append", help="name of a control, once for each; all by default")
    parser.add_argument("--generations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--runs-dir", help="where to keep the five runs; they are deleted by default")
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    same = [*given.overrides, f"training.phases.evolve.duration_cycles={given.generations}", "threads=1"]
    environment = resolve(Request(given.experiment, overrides=given.overrides))[0].environment
    env = RacingVectorEnv(given.starts, config=environment)
    rows = [(name, f"{found.mean():.1f} +- {found.std():.1f}", "") for name, found in baselines(env).items()]
    with tempfile.TemporaryDirectory() as folder:
        for name, changes in controls(given.run).items():
            if given.only and name not in given.only:
                continue
            rows.append((name, *scored(name, env, given, [*same, *changes, f"runs_dir={given.runs_dir or folder}"])))
            print(*rows[-1], flush=True)
    print("| control | score | minutes |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def scored(name: str, env: RacingVectorEnv, given: argparse.Namespace, overrides: list[str]) -> tuple[str, str]:
    """A control's mean solution on the unseen starts, and the minutes that its run took."""
    began = time.perf_counter()
    run = paddock.train(given.experiment, name=name.replace(" ", "-"), seed=given.seed, overrides=overrides, quiet=True)
    minutes = (time.perf_counter() - began) / 60
    found: np.ndarray = returns(env, run.load("latest").act)
    return f"{found.mean():.1f} +- {found.std():.1f}", f"{minutes:.1f}"


if __name__ == "__main__":
    main()

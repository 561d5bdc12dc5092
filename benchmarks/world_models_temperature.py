"""The dream's score against reality's, by temperature: World Models evolved inside the dream at each of several
temperatures, from one memory a seed. Prints a table, and the mean over seeds.

    python benchmarks/world_models_temperature.py --seeds 1 2 3 4 5
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from paddock.evaluation.evaluator import evaluate
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve

TEMPERATURES = [0.1, 0.5, 1.0, 1.15, 1.3]
QUIET = ["logging.terminal=false", "logging.tensorboard=false", "threads=1"]


def orchestrator(folder: Path, seed: int, *overrides: str):
    """A run of the dodging task that is ready to begin."""
    options = [*QUIET, f"runs_dir={folder}", *overrides]
    config, _ = resolve(Request("world_models_dodge", seed=seed, overrides=options))
    values = config.model_dump(mode="json", by_alias=True)
    run = RunFolder.create(folder, f"dodge-{seed}", values)
    run.write_manifest(**manifest(values, seed=config.seed))
    return build(config, run, Console(quiet=True))


def scores(made, temperature: float, generations: int) -> dict[str, float]:
    """Evolve from zero at a temperature; the mean solution's score in that dream, and in reality."""
    workflow = made.workflow
    workflow.config.dream.__dict__["temperature"] = temperature
    workflow.controller.set_vector(torch.zeros(workflow.controller.parameter_count))
    fresh = type(workflow.search)(workflow.search.config, workflow.controller.get_vector().double().numpy(), seed=1)
    workflow.search = fresh
    phase = made.config.training.phases["evolve_in_dream"]
    for _ in range(generations):
        workflow.evolve_in_dream(phase=phase)
    with torch.inference_mode():
        returns, _ = workflow.dream_returns(workflow.dream_starts(200), temperature=temperature)
    real = evaluate(workflow.actor(), made.make_eval_env, episodes=100, seed=1000, deterministic=True)
    return {"dream": float(returns.mean()), "reality": float(real.returns.mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--temperatures", type=float, nargs="+", default=TEMPERATURES)
    parser.add_argument("--generations", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[float, list[dict[str, float]]] = {one: [] for one in given.temperatures}
    for seed in given.seeds:
        with tempfile.TemporaryDirectory() as folder:
            made = orchestrator(Path(folder), seed, "training.phases.evolve_in_dream.duration_cycles=1")
            made.run()
            for temperature in given.temperatures:
                found[temperature].append(scores(made, temperature, given.generations))
                print(json.dumps({"seed": seed, "temperature": temperature, **found[temperature][-1]}), flush=True)
    print("| temperature | dream | reality |\n|---|---|---|")
    for temperature, rows in found.items():
        cells = [[row[name] for row in rows] for name in ("dream", "reality")]
        print(f"| {temperature} | " + " | ".join(f"{np.mean(cell):.1f} +- {np.std(cell):.1f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()

"""Where a generation of World Models spends its time, and CMA-ES beside pycma. Run it on a quiet machine.

python benchmarks/world_models_speed.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from paddock.components.controllers.cma_es import CMAES, CMAESConfig
from paddock.environments.calls import as_dict
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve

QUIET = ["logging.terminal=false", "logging.tensorboard=false", "threads=1"]


def best_of(task: Callable[[], object], times: int) -> float:
    """Processor seconds of the quickest of several runs: other processes are not counted."""
    found = []
    for _ in range(times):
        began = time.process_time()
        task()
        found.append(time.process_time() - began)
    return min(found)


def cma_seconds(covariance: str, size: int, population: int, generations: int) -> float:
    """Of an ask and a tell, as a mean over generations: decompositions come now and then."""
    config = CMAESConfig(_target_="x", population=population, std=0.1, covariance=covariance)
    search, fitness = CMAES(config, np.zeros(size), seed=1), np.random.default_rng(0).standard_normal(population)

    def some() -> None:
        for _ in range(generations):
            search.ask()
            search.tell(fitness)

    return best_of(some, 3) / generations


def pycma_seconds(size: int, population: int, generations: int) -> float:
    import cma

    options = {"popsize": population, "verbose": -9, "seed": 1}
    search = cma.CMAEvolutionStrategy(np.zeros(size), 0.1, options)
    fitness = list(np.random.default_rng(0).standard_normal(population))

    def some() -> None:
        for _ in range(generations):
            search.tell(search.ask(), fitness)

    return best_of(some, 3) / generations


def generation_shares(experiment: str, steps: int) -> dict[str, float]:
    """Processor seconds of a generation of `steps` steps, and of the simulator and the encoder alone."""
    with tempfile.TemporaryDirectory() as folder:
        options = [*QUIET, f"runs_dir={folder}", "buffers.replay.capacity=1000", f"workflow.max_episode_steps={steps}"]
        config, _ = resolve(Request(experiment, overrides=options))
        values = config.model_dump(mode="json", by_alias=True)
        run = RunFolder.create(Path(folder), "speed", values)
        run.write_manifest(**manifest(values, seed=1))
        made = build(config, run, Console(quiet=True))
        workflow, env = made.workflow, made.context.experience.env
        observation, _ = env.reset(seed=1)
        action = np.zeros(env.action_space.shape, np.float32)
        seen = {name: torch.from_numpy(np.array(part)) for name, part in as_dict(observation).items()}
        simulator = best_of(lambda: [env.step(action) for _ in range(steps)], 3)
        with torch.inference_mode():
            encoder = steps * best_of(lambda: [workflow.vae.encode(seen) for _ in range(10)], 3) / 10
        phase = config.training.phases["evolve"]
        generation = best_of(lambda: workflow.evolve(phase=phase), 3)
        search = workflow.search
        evolution = best_of(lambda: search.tell(search.ask().sum(1)), 5)
        env.close()
    return {"simulator": simulator, "encoder": encoder, "generation": generation, "cma": evolution}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", default="world_models_racing_camera")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--generations", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    shares = generation_shares(given.experiment, given.steps)
    print({name: round(value, 4) for name, value in shares.items()})
    print(f"generation / (simulator + encoder): {shares['generation'] / (shares['simulator'] + shares['encoder']):.2f}")
    print(f"share of CMA-ES: {shares['cma'] / shares['generation']:.2%}")
    for covariance in ("none", "diagonal", "full"):
        print(f"CMA-ES, {covariance}: {1e3 * cma_seconds(covariance, 867, 64, given.generations):.2f} ms a generation")
    print(f"pycma: {1e3 * pycma_seconds(867, 64, given.generations):.2f} ms a generation")


if __name__ == "__main__":
    main()

"""Scores side by side on the same unseen starts: chance, evolved controllers, the classical driver.

python benchmarks/world_models_scores.py world_models_mini RUN ...
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import paddock
from paddock.orchestration.launch import Request, resolve
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import ClassicalAtTheWheel

SEED = 4242  # of starts that neither evolution nor evaluation has seen


def returns(env: RacingVectorEnv, act) -> np.ndarray:
    """Of the first episode in each copy; `act(observation)` gives actions [N, 2] of the environment."""
    observation, _ = env.reset(seed=SEED)
    total, is_running = np.zeros(env.num_envs), np.ones(env.num_envs, bool)
    while is_running.any():
        observation, reward, terminated, truncated, _ = env.step(act(observation))
        total += reward * is_running
        is_running &= ~(terminated | truncated)
    return total


def baselines(env: RacingVectorEnv) -> dict[str, np.ndarray]:
    """Returns of chance and of the classical driver."""
    draws, driver = np.random.default_rng(0), ClassicalAtTheWheel(env)
    return {
        "random actions": returns(env, lambda seen: draws.uniform(-1, 1, (env.num_envs, 2))),
        "classical driver": returns(env, lambda seen: driver.act(seen, env.world)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment")
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--starts", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    config, _ = resolve(Request(given.experiment))
    env = RacingVectorEnv(given.starts, config=config.environment)
    for name, found in baselines(env).items():
        print(f"{name}: {found.mean():.1f}")
    scores = []
    for run in given.runs:
        agent = paddock.load(run, which="latest")
        found = returns(env, agent.act)
        agent.reset()
        scores.append(found.mean())
        print(f"{run}: {found.mean():.1f} +- {found.std():.1f}")
    if scores:
        print(f"mean of {len(scores)} runs: {np.mean(scores):.1f} (std {np.std(scores):.1f})")


if __name__ == "__main__":
    main()

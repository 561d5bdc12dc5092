"""PPO on the racing world, end to end, beside Stable-Baselines3's PPO on the same environment in one process.

    pip install -c constraints.txt --group benchmarks
    python benchmarks/racing_throughput.py [--seconds 15] [--rounds 3] [key=value ...]

Two peers: Stable-Baselines3 as its users run it (8 copies of `paddock/Racing-v0`, its default settings), and with all
cars in one batch behind its VecEnv interface, with the rollout, minibatch and passes that Paddock uses. All take turns.
Rates are by the wall clock and by the processor time; where other programs use the cores, trust the latter, and give
the peer one thread (`--threads 1`): threads that wait for each other at every operation stall there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from rich.console import Console
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

import paddock.environments  # noqa: F401  makes paddock/Racing-v0 known
from paddock.orchestration.launch import Request, new_run, resolve

COPIES = 8
WITHOUT_EVALUATION = (
    "training.phases=[{name: train, buffer: rollout, workflow_hooks: "
    "[{collect: {steps: '${workflow.rollout_steps}'}}, update]}]"
)


Rates = tuple[float, float]  # steps per second of wall clock, and of processor time


def paddock_rate(seconds: float, seed: int, overrides: list[str]) -> tuple[Rates, dict[str, float]]:
    """Agent steps per second, and where the time went."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            f"training.max_seconds={seconds}",
            "training.total_steps=1_000_000_000",
            WITHOUT_EVALUATION,
            "logging.terminal=false",
            "logging.tensorboard=false",
            f"runs_dir={folder}",
            *overrides,
        ]
        config, _ = resolve(Request("racing", seed=seed, overrides=settings))
        with new_run(config, Console(quiet=True)) as orchestrator:
            used = time.process_time()
            outcome = orchestrator.run()
            used = time.process_time() - used
    steps = outcome.counters.agent_steps
    return (steps / outcome.seconds, steps / used), outcome.time_shares


class Batch(VecEnv):
    """The batched racing environment behind Stable-Baselines3's interface; its infos say only what PPO reads."""

    def __init__(self, cars: int, **options: Any) -> None:
        self.batch = gym.make_vec(
            "paddock/Racing-v0", num_envs=cars, vectorization_mode="vector_entry_point", **options
        )
        super().__init__(cars, self.batch.single_observation_space, self.batch.single_action_space)
        self.actions: np.ndarray = np.zeros(0)

    def reset(self) -> np.ndarray:
        return self.batch.reset(seed=0)[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observation, reward, terminated, truncated, info = self.batch.step(self.actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(terminated | truncated):
            infos[row] = {
                "terminal_observation": info["final_obs"][row],
                "TimeLimit.truncated": bool(truncated[row] and not terminated[row]),
            }
        return observation, reward, terminated | truncated, infos

    def close(self) -> None:
        self.batch.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs  # PPO asks only for the render mode

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class Clock(BaseCallback):
    """Ends learning after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.until = time.perf_counter() + seconds

    def _on_step(self) -> bool:
        return time.perf_counter() < self.until


def peer_rate(seconds: float, make: Callable[[], PPO]) -> Rates:
    """Agent steps per second of a Stable-Baselines3 model."""
    model = make()
    started, used = time.perf_counter(), time.process_time()
    model.learn(1_000_000_000, callback=Clock(seconds))
    steps = model.num_timesteps
    return steps / (time.perf_counter() - started), steps / (time.process_time() - used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of the peer that has all cars in a batch")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    config, _ = resolve(Request("racing", overrides=options.overrides))
    cars, learning = config.environment.num_envs, config.workflow
    same = {
        "n_steps": learning.rollout_steps // cars,
        "batch_size": learning.minibatch_size,
        "n_epochs": learning.epochs,
    }

    def usual() -> PPO:
        torch.set_num_threads(1)
        copies = make_vec_env("paddock/Racing-v0", n_envs=COPIES, env_kwargs={"observation": "course"})
        return PPO("MlpPolicy", copies, device="cpu")

    def batched() -> PPO:
        torch.set_num_threads(options.threads)
        return PPO("MlpPolicy", Batch(cars, observation="course"), device="cpu", **same)

    rates: dict[str, list[Rates]] = {"paddock": [], "sb3, 8 copies": [], f"sb3, {cars} in a batch": []}
    paddock_rate(3.0, 0, options.overrides)  # Warm up: imports, compilation.
    shares: dict[str, float] = {}
    for seed in range(options.rounds):
        rate, shares = paddock_rate(options.seconds, seed, options.overrides)
        for name, value in zip(
            rates, [rate, peer_rate(options.seconds, usual), peer_rate(options.seconds, batched)], strict=True
        ):
            rates[name].append(value)
    for clock, kind in enumerate(("wall clock", "processor")):
        ours = statistics.median(rate[clock] for rate in rates["paddock"])
        for name, found in rates.items():
            values = [rate[clock] for rate in found]
            median, rounds = statistics.median(values), [round(value) for value in values]
            print(f"{kind:<11} {name:<24} {median:>9,.0f} steps/s   1/{ours / median:.1f}   rounds: {rounds}")
    print("paddock's time:", ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()))


if __name__ == "__main__":
    main()

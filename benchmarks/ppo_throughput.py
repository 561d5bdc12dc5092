"""PPO on CartPole, end to end, beside Stable-Baselines3 with the same hyper-parameters, and sbx (if told where it is).

    pip install -c constraints.txt --group benchmarks
    python benchmarks/ppo_throughput.py [--steps 65536] [--rounds 3] [--sbx PYTHON]

They take turns, sbx in a process of its own, so that a noisy machine is noisy for all; ratios are of medians, by the
wall clock and by the processor time, which is the one to trust where other programs use the cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console

from paddock.config.compose import compose
from paddock.config.validate import validate
from paddock.experiments.run import RunFolder
from paddock.orchestration.build import build
from paddock.orchestration.schema import ExperimentConfig

COPIES, ROLLOUT, MINIBATCH, EPOCHS = 8, 8 * 2048, 64, 10


Rates = tuple[float, float]  # steps per second of wall clock, and of processor time
SBX = """
import os, sys, time
steps, seed, threads, copies, rollout, minibatch, epochs = map(int, sys.argv[1:])
if threads == 1:  # XLA cannot be told in another way.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from sbx import PPO
from stable_baselines3.common.env_util import make_vec_env
env = make_vec_env("CartPole-v1", n_envs=copies, seed=seed)
model = PPO("MlpPolicy", env, n_steps=rollout // copies, batch_size=minibatch, n_epochs=epochs, seed=seed)
model.learn(rollout)  # compiles
began = time.perf_counter(), time.process_time()
model.learn(steps)
print(steps / (time.perf_counter() - began[0]), steps / (time.process_time() - began[1]))
"""


def paddock(steps: int, seed: int, *overrides: str) -> tuple[Rates, dict[str, float]]:
    """Environment steps per second, and the shares of time."""
    settings = [
        f"environment.num_envs={COPIES}",
        f"workflow.rollout_steps={ROLLOUT}",
        f"workflow.minibatch_size={MINIBATCH}",
        f"workflow.epochs={EPOCHS}",
        f"training.total_steps={steps}",
        f"seed={seed}",
        "checkpoint.every_steps=null",
        "logging.terminal=false",
        "training.phases=[{name: train, buffer: rollout, workflow_hooks: "
        f"[{{collect: {{steps: {ROLLOUT}}}}}, update]}}]",
        *overrides,
    ]
    composed = compose(overrides=settings)
    config = validate(composed.values, ExperimentConfig, composed.origins)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder), "benchmark", config.model_dump(mode="json", by_alias=True))
        orchestrator = build(config, run, Console(quiet=True))
        started = time.perf_counter(), time.process_time()
        outcome = orchestrator.run()
    return _rates(outcome.counters.agent_steps, *started), outcome.time_shares


def _rates(steps: int, started: float, processor_started: float) -> Rates:
    return steps / (time.perf_counter() - started), steps / (time.process_time() - processor_started)


def stable_baselines3(steps: int, seed: int) -> Rates:
    """Environment steps per second with the same settings, its own defaults otherwise."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env("CartPole-v1", n_envs=COPIES, seed=seed)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=ROLLOUT // COPIES,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        device="cpu",
        seed=seed,
    )
    started = time.perf_counter(), time.process_time()
    model.learn(steps)
    return _rates(model.num_timesteps, *started)


def sbx(python: str, steps: int, seed: int, threads: int) -> Rates:
    """Likewise, without the time that it compiles."""
    numbers = (steps, seed, threads, COPIES, ROLLOUT, MINIBATCH, EPOCHS)
    command = [python, "-c", SBX, *map(str, numbers)]
    environment = {**os.environ, "PYTHONPATH": ""}
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    wall, processor = map(float, printed.split())
    return wall, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4 * ROLLOUT)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="measure Paddock with compiled losses, too")
    parser.add_argument("--sbx", help="a Python that has sbx-rl")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    variants = {"paddock": ()} | ({"paddock, compiled": ("workflow.compile=on",)} if options.compile else {})
    rates: dict[str, list[Rates]] = {name: [] for name in [*variants, "stable-baselines3"]}
    if options.sbx:
        rates["sbx"] = []
    shares: dict[str, float] = {}
    for overrides in variants.values():
        paddock(ROLLOUT, 0, *overrides)  # Warm up: imports, compilation.
    for seed in range(options.rounds):
        for name, overrides in variants.items():
            rate, shares = paddock(options.steps, seed, *overrides)
            rates[name].append(rate)
        rates["stable-baselines3"].append(stable_baselines3(options.steps, seed))
        if options.sbx:
            rates["sbx"].append(sbx(options.sbx, options.steps, seed, options.threads))
    for clock, kind in enumerate(("wall clock", "processor")):
        peer = statistics.median(rate[clock] for rate in rates["stable-baselines3"])
        for name, found in rates.items():
            values = [rate[clock] for rate in found]
            median, rounds = statistics.median(values), [round(value) for value in values]
            print(f"{kind:<11} {name:<20} {median:>9,.0f} steps/s   {median / peer:.2f}x   rounds: {rounds}")
    print("paddock's time:", ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()))


if __name__ == "__main__":
    main()

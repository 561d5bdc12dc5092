"""Collectors on Ray against the local collector and against RLlib's env runners, and what a round costs.

    python benchmarks/cluster.py                 # everything; RLlib only where `ray[rllib]` is installed
    python benchmarks/cluster.py collectors overhead --turns 3

Local and Ray take turns in one run, so that a machine that others use slows both; ratios are of medians.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console

from paddock.distributed.ray.cluster import Cluster
from paddock.distributed.ray.collectors import weights_of
from paddock.orchestration.launch import Request, new_run, resolve

CARS, STEPS = 1_024, 32  # of a worker; vector steps of a round
QUIET = ["logging.terminal=false", "logging.tensorboard=false"]


@contextlib.contextmanager
def made(experiment: str, *options: str):
    """The context of a run that is not started."""
    with tempfile.TemporaryDirectory() as folder:
        config, _ = resolve(Request(experiment, overrides=[*QUIET, f"runs_dir={Path(folder)}", *options]))
        with new_run(config, Console(quiet=True)) as run:
            yield run.context
            run.context.experience.close()


def rate(context, steps: int) -> float:
    """Decisions a second of one round."""
    began = time.perf_counter()
    result = context.experience.collect(context.controllers.active, context.buffers["rollout"], steps)
    return result.steps / (time.perf_counter() - began)


def collectors(turns: int) -> None:
    """Transitions a second: the local collector with all cars, and two workers with half of them each."""
    torch.set_num_threads(1)
    cars, steps = 2 * CARS, 2 * CARS * STEPS
    options = (f"environment.num_envs={cars}", f"workflow.rollout_steps={steps}")
    with made("racing", *options) as local, made("racing", *options, "experience=ray", "experience.workers=2") as ray:
        rates: dict[str, list[float]] = {"local": [], "ray x2": []}
        for turn in range(turns + 1):
            for name, context in (("local", local), ("ray x2", ray)):
                measured = rate(context, steps)
                if turn:  # The first one starts workers and compiles.
                    rates[name].append(measured)
    found = {name: statistics.median(values) for name, values in rates.items()}
    for name, value in found.items():
        print(f"racing, {cars} cars, {name:7s} {value:12,.0f} transitions/s")
    print(f"ratio ray x2 / local    {found['ray x2'] / found['local']:6.2f}  (aim: 0.90)")


def overhead(turns: int) -> None:
    """Milliseconds that a synchronous round with 256 small transitions takes beyond the workers' collecting."""
    options = ("environment.num_envs=8", "workflow.rollout_steps=256", "experience=ray", "experience.workers=2")
    with made("ppo_cartpole", *options) as context:
        experience, actor, sink = context.experience, context.controllers.active, context.buffers["rollout"]
        experience.collect(actor, sink, 256)
        beyond, weights = [], []
        for _ in range(20 * turns):
            began = time.perf_counter()
            experience.collect(actor, sink, 256)
            whole = time.perf_counter() - began
            beyond.append(whole - max(one.seconds for one in experience._reports.values()))
            began = time.perf_counter()
            experience.team.ray.put(weights_of(actor))
            weights.append(time.perf_counter() - began)
    ranked = sorted(beyond)
    print(f"overhead of a round, 256 transitions: median {1e3 * statistics.median(beyond):.1f} ms, fastest tenth "
          f"{1e3 * ranked[len(ranked) // 10]:.1f} ms  (aim: 10 ms)")  # fmt: skip
    print(f"weights of ppo_cartpole into the object store: {1e3 * statistics.median(weights):.2f} ms")


def racing_for_rllib(options):
    """The racing world of the `racing` experiment as RLlib takes it: one car, or `num_envs` in one batch, no infos."""
    import gymnasium

    from paddock.racing.env.vector import RacingEnv, RacingVectorEnv

    if "num_envs" not in options:
        return RacingEnv(observation="course")

    class WithoutInfos(gymnasium.vector.VectorWrapper):
        def reset(self, **arguments):
            return super().reset(**arguments)[0], {}

        def step(self, actions):
            return *super().step(actions)[:4], {}

    return WithoutInfos(RacingVectorEnv(options["num_envs"], observation="course"))


def rllib(turns: int) -> None:
    """Transitions a second of two workers on the same environments, here and by RLlib's env runners."""
    try:
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.tune import register_env
    except ImportError as error:
        print(f"RLlib is not installed ({error}); its column is left out.")
        return
    cartpole = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2, num_envs_per_env_runner=4)
    register_env("racing", racing_for_rllib)
    racing = PPOConfig().environment("racing").env_runners(
        num_env_runners=2, num_envs_per_env_runner=CARS, gym_env_vectorize_mode="vector_entry_point"
    )  # fmt: skip
    beside_rllib("ppo_cartpole", 8, 4_096, cartpole, turns)
    beside_rllib("racing", 2 * CARS, 2 * CARS * STEPS, racing, turns)


def beside_rllib(experiment: str, environments: int, steps: int, config, turns: int) -> None:
    """Both in turns: rounds of as many steps, half of the environments in each of two workers."""
    algorithm, half = config.build_algo(), steps // 2
    options = (f"environment.num_envs={environments}", f"workflow.rollout_steps={steps}")
    rates: dict[str, list[float]] = {"paddock": [], "rllib": []}
    with made(experiment, *options, "experience=ray", "experience.workers=2") as context:
        for turn in range(turns + 1):
            here = rate(context, steps)
            began = time.perf_counter()
            taken = algorithm.env_runner_group.foreach_env_runner(
                lambda runner: sum(len(one) for one in runner.sample(num_timesteps=half)), local_env_runner=False
            )
            there = sum(taken) / (time.perf_counter() - began)
            if turn:
                rates["paddock"].append(here)
                rates["rllib"].append(there)
    algorithm.stop()
    found = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{experiment}, {environments} environments, 2 workers: {found['paddock']:,.0f} here, {found['rllib']:,.0f} "
          f"by RLlib, ratio {found['paddock'] / found['rllib']:.1f}  (aim: 5)")  # fmt: skip


PARTS = {"collectors": collectors, "overhead": overhead, "rllib": rllib}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    cluster = Cluster(None, cpus=4)
    for name in arguments.parts or PARTS:
        PARTS[name](arguments.turns)
    cluster.close()


if __name__ == "__main__":
    main()

"""How fast the off-policy algorithms learn from replay, beside Stable-Baselines3 and (if told where it is) sbx.

    pip install -c constraints.txt --group benchmarks
    python benchmarks/off_policy_throughput.py [sac] [dqn] [redq] [replay] [checkpoint] [--rounds 5] [--threads 1]
        [--compile] [--sbx /path/to/python-with-sbx-rl]

An update is everything from drawing a batch to the last parameter. The contestants take turns in one process (sbx in
one of its own, meanwhile idle), so that a noisy machine is noisy for all; what is compared are medians of rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from paddock.buffers.prioritized import PrioritizedBuffer, PrioritizedConfig
from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.specs import ArraySpec, Spec
from paddock.experiments.run import RunFolder
from paddock.orchestration.build import build
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore
from paddock.orchestration.launch import Request, resolve
from paddock.orchestration.orchestrator import Orchestrator

FILLED = 5_000
SPEC = Spec(
    observation={"observation": ArraySpec(shape=(17,), dtype="float32")},
    action=ArraySpec(shape=(6,), dtype="float32", low=-1.0, high=1.0),
)
SAC = ["components.policy.network.hidden=[256, 256]", "components.critics.hidden=[256, 256]"]
BATCH = ["buffers.replay.batch_size=256"]
DQN = [  # What Stable-Baselines3's DQN is, with the same network.
    "workflow.double=false",
    "components.action_values.dueling=false",
    "components.action_values.network.hidden=[64, 64]",
    "buffers.replay.batch_size=32",
    "buffers.replay.n_step=1",
    "workflow.tau=1.0",
    "workflow.target_update_interval=250",
]
UNIFORM = [
    "buffers.replay._target_=paddock.buffers.uniform.UniformBuffer",
    "~buffers.replay.alpha=0.6",
    "~buffers.replay.eps=1e-06",
]
Work = Callable[[int], None]

SBX = """
import sys, time
from sbx import SAC
options = {"policy_kwargs": {"net_arch": [256, 256]}, "buffer_size": 100_000}
model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=100, **options)
model.learn(300)
model.train(256, 50)
print("ready", flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    model.train(256, int(line))
    import jax
    jax.block_until_ready(model.policy.actor_state.params)
    print(time.perf_counter() - started, flush=True)
"""


def prepared(experiment: str, *overrides: str) -> Orchestrator:
    """An experiment whose replay holds random steps."""
    quiet = ["logging.terminal=false", "logging.tensorboard=false", f"threads={torch.get_num_threads()}"]
    folder = Path(tempfile.mkdtemp())
    config, _ = resolve(Request(experiment, overrides=[*quiet, f"runs_dir={folder}", *overrides]))
    run = RunFolder.create(folder, "benchmark", config.model_dump(mode="json", by_alias=True))
    orchestrator = build(config, run, Console(quiet=True))
    orchestrator.context.controllers.select("random")
    orchestrator.workflow.collect_step(FILLED, phase=config.training.phases["seed"])
    return orchestrator


def updates(orchestrator: Orchestrator, hook: str = "update") -> Work:
    """Draw a batch and learn from it, so many times."""
    update, phase = getattr(orchestrator.workflow, hook), orchestrator.config.training.phases["joint"]
    buffer = orchestrator.context.buffers["replay"]

    def work(count: int) -> None:
        for _ in range(count):
            update(buffer.sample(), phase=phase)
            orchestrator.counters.updates += 1

    return work


def stable_baselines3(kind: str) -> Work:
    """The peer's own `train`, on a replay of random steps."""
    import stable_baselines3
    from stable_baselines3.common.logger import configure

    name = {"SAC": "Pendulum-v1", "DQN": "CartPole-v1"}[kind]
    options = {"policy_kwargs": {"net_arch": [256, 256]}} if kind == "SAC" else {"target_update_interval": 1_000}
    model = getattr(stable_baselines3, kind)(
        "MlpPolicy", name, buffer_size=100_000, learning_starts=FILLED + 1, device="cpu", **options
    )
    model.set_logger(configure(None, []))
    model.learn(FILLED)
    return lambda count: model.train(gradient_steps=count, batch_size=256 if kind == "SAC" else 32)


class Sbx:
    """The JAX rewrite, in a Python of its own."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", SBX], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()).strip() != "ready":
            assert line, "sbx did not start; does this Python have sbx-rl?"

    def __call__(self, count: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        self._process.stdout.readline()


def race(title: str, contestants: dict[str, Work], *, count: int, rounds: int, peer: str) -> None:
    """Turns of `count` updates each; prints updates per second with their ratio to the peer, and the same by this
    process's own time, which other processes disturb less."""
    for work in contestants.values():
        work(5)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    processor: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            started, used = time.perf_counter(), time.process_time()
            work(count)
            seconds[name].append((time.perf_counter() - started) / count)
            processor[name].append((time.process_time() - used) / count)
    base, own_base = (statistics.median(values[peer]) for values in (seconds, processor))
    for name, values in seconds.items():
        median, own = statistics.median(values), statistics.median(processor[name])
        speed = f"{1 / median:>7,.0f} updates/s {base / median:5.2f}x   processor {1e3 * own:6.2f} ms"
        speed += "" if isinstance(contestants[name], Sbx) else f" {own_base / own:5.2f}x"
        print(f"{title}: {name:<21} {speed}   rounds: {[round(1 / value) for value in values]}", flush=True)


def measure_sac(options: argparse.Namespace) -> None:
    plain = prepared("sac_pendulum", *SAC, *BATCH)
    contestants = {"stable-baselines3": stable_baselines3("SAC"), "paddock": updates(plain)}
    if options.compile:
        contestants["paddock, compiled"] = updates(prepared("sac_pendulum", *SAC, *BATCH, "workflow.compile=true"))
    if options.sbx:
        contestants["sbx"] = Sbx(options.sbx)
    race("SAC", contestants, count=40, rounds=options.rounds, peer="stable-baselines3")


def measure_dqn(options: argparse.Namespace) -> None:
    contestants = {
        "stable-baselines3": stable_baselines3("DQN"),
        "paddock, the same": updates(prepared("dqn_cartpole", *UNIFORM, *DQN)),
        "paddock, prioritized": updates(prepared("dqn_cartpole", *DQN)),
    }
    if options.compile:
        compiled = prepared("dqn_cartpole", *UNIFORM, *DQN, "workflow.compile=true")
        contestants["paddock, compiled"] = updates(compiled)
    race("DQN", contestants, count=200, rounds=options.rounds, peer="stable-baselines3")


def measure_redq(options: argparse.Namespace) -> None:
    """The critics' update alone: ten and two of them."""
    compiled = ["workflow.compile=true"] if options.compile else []
    ten = prepared("redq_pendulum", *SAC, *BATCH, *compiled)
    two = prepared("redq_pendulum", *SAC, *BATCH, *compiled, "components.critics.ensemble_size=2")
    contestants = {"10 critics": updates(ten, "update_critics"), "2 critics (SAC's)": updates(two, "update_critics")}
    race("REDQ", contestants, count=30, rounds=options.rounds, peer="2 critics (SAC's)")


def filled(kind: type[UniformBuffer], config: UniformConfig, copies: int, rows: int) -> UniformBuffer:
    """A buffer with `rows` random vector steps."""
    buffer, random = kind(config, SPEC, copies), np.random.default_rng(0)
    observation = random.random((64, copies, 17), np.float32)
    flags = np.zeros(copies, bool)
    for row in range(rows):
        buffer.add(
            {
                "observation": {"observation": observation[row % 64]},
                "next_observation": {"observation": observation[(row + 1) % 64]},
                "action": random.random((copies, 6), np.float32),
                "reward": random.random(copies, np.float32),
                "terminated": flags,
                "truncated": flags,
                "valid": ~flags,
            }
        )
    return buffer


def measure_replay(options: argparse.Namespace) -> None:
    """Batches of 256 from a million transitions of 17 + 6 numbers."""
    for name, kind, schema, more in [
        ("uniform", UniformBuffer, UniformConfig, {}),
        ("uniform, 3 steps", UniformBuffer, UniformConfig, {"n_step": 3, "gamma": 0.99}),
        ("prioritized", PrioritizedBuffer, PrioritizedConfig, {}),
    ]:
        config = schema(_target_="benchmark", capacity=1_000_000, batch_size=256, **more)
        buffer = filled(kind, config, 64, 1_000_000 // 64)
        draws = []
        for _ in range(2_000):
            started = time.perf_counter()
            batch = buffer.sample()
            draws.append(time.perf_counter() - started)
        text = f"sampling, {name}: {1e6 * statistics.median(draws):.0f} us (best {1e6 * min(draws):.0f})"
        if isinstance(buffer, PrioritizedBuffer):
            index, error, changes = batch["index"], torch.rand(256), []
            for _ in range(500):
                started = time.perf_counter()
                buffer.update_priorities(index, error)
                changes.append(time.perf_counter() - started)
            text += f"; giving 256 errors back: {1e6 * statistics.median(changes):.0f} us"
        print(text, flush=True)


def measure_checkpoint(options: argparse.Namespace) -> None:
    """A million transitions whole, and again with ten thousand new ones."""
    for name, kind, schema in [
        ("uniform", UniformBuffer, UniformConfig),
        ("prioritized", PrioritizedBuffer, PrioritizedConfig),
    ]:
        config = schema(_target_="benchmark", capacity=1_000_000, batch_size=256)
        buffer = filled(kind, config, 64, 1_000_000 // 64)
        more = filled(kind, schema(_target_="benchmark", capacity=20_000, batch_size=256), 64, 1)
        step = more.gather(np.zeros(64, np.int64), np.arange(64))
        vector = {key: value.numpy() for key, value in step.items() if isinstance(value, torch.Tensor)}
        vector |= {key: {k: v.numpy() for k, v in step[key].items()} for key in ("observation", "next_observation")}
        vector["valid"] = np.ones(64, bool)
        whole, again = [], []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                store = CheckpointStore(Path(folder) / "checkpoints", CheckpointConfig())
                for number, times in enumerate([whole, again]):
                    started = time.perf_counter()
                    store.save({}, {"replay": buffer}, agent_steps=number, info={}, score=None)
                    times.append(time.perf_counter() - started)
                    for _ in range(10_000 // 64):
                        buffer.add(vector)
        first, second = statistics.median(whole), statistics.median(again)
        print(
            f"checkpoint, {name}: whole {first:.2f} s, 10k new {second:.3f} s: {100 * second / first:.1f} %", flush=True
        )


MEASURES = {
    "sac": measure_sac,
    "dqn": measure_dqn,
    "redq": measure_redq,
    "replay": measure_replay,
    "checkpoint": measure_checkpoint,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"of {', '.join(MEASURES)}; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="measure compiled updates, too")
    parser.add_argument("--sbx", help="a Python that has sbx-rl")
    options = parser.parse_args()
    if unknown := set(options.what) - MEASURES.keys():
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    torch.set_num_threads(options.threads)
    for name in options.what or MEASURES:
        MEASURES[name](options)


if __name__ == "__main__":
    main()

"""How fast the off-policy algorithms learn from replay, beside Stable-Baselines3 and (if told where it is) sbx.

    pip install -c constraints.txt --group benchmarks
    python benchmarks/off_policy_throughput.py [sac] [dqn] [redq] [replay] [checkpoint] [--rounds 5] [--threads 1]
        [--compile] [--sb3 PYTHON] [--sbx PYTHON]

An update is everything from drawing a batch to the last parameter. The contestants take turns (peers in a
process of their own, meanwhile idle), so that a noisy machine is noisy for all; what is compared are medians of rounds.
"""

from __future__ import annotations

import argparse
import os
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

# Each line that a peer gets is a number of updates, each line that it writes the seconds and the processor's seconds.
ANSWERS = """
print("ready", flush=True)
for line in sys.stdin:
    started, used = time.perf_counter(), time.process_time()
    train(int(line))
    print(time.perf_counter() - started, time.process_time() - used, flush=True)
"""
SBX = """
import sys, time
import jax
from sbx import SAC
options = {"policy_kwargs": {"net_arch": [256, 256]}, "buffer_size": 100_000}
model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=100, **options)
model.learn(300)
def train(count):
    model.train(256, count)
    jax.block_until_ready(model.policy.actor_state.params)
train(5)
"""
STABLE_BASELINES3 = """
import sys, time
import stable_baselines3, torch
from stable_baselines3.common.logger import configure
kind, threads, filled = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
name, batch = {"SAC": ("Pendulum-v1", 256), "DQN": ("CartPole-v1", 32)}[kind]
options = {"policy_kwargs": {"net_arch": [256, 256]}} if kind == "SAC" else {"target_update_interval": 1_000}
model = getattr(stable_baselines3, kind)(
    "MlpPolicy", name, buffer_size=100_000, learning_starts=filled + 1, device="cpu", **options
)
model.set_logger(configure(None, []))
model.learn(filled)
def train(count):
    model.train(gradient_steps=count, batch_size=batch)
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


class Peer:
    """Another library's own `train`, in a Python of its own: nothing that Paddock sets for its process is set there.
    With one thread it has one core, as XLA cannot be told in another way."""

    def __init__(self, python: str, program: str, *arguments: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [python, "-c", program + ANSWERS, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if threads == 1:
            os.sched_setaffinity(self._process.pid, {min(os.sched_getaffinity(0))})
        while (line := self._answer()).strip() != "ready":
            assert line, f"{python} did not start; does it have what the peer needs?"

    def __call__(self, count: int) -> tuple[float, float]:
        assert self._process.stdin is not None
        print(count, file=self._process.stdin, flush=True)
        seconds, processor = self._answer().split()
        return float(seconds), float(processor)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def stable_baselines3(kind: str, options: argparse.Namespace) -> Peer:
    arguments = (kind, str(options.threads), str(FILLED))
    return Peer(options.sb3, STABLE_BASELINES3, *arguments, threads=options.threads)


def timed(work: Work, count: int) -> tuple[float, float]:
    """Seconds, and the processor's seconds, of so many updates."""
    if isinstance(work, Peer):
        return work(count)
    started, used = time.perf_counter(), time.process_time()
    work(count)
    return time.perf_counter() - started, time.process_time() - used


def race(title: str, contestants: dict[str, Work | Peer], *, count: int, rounds: int, peer: str) -> None:
    """Turns of `count` updates each; prints updates per second with their ratio to the peer, and the same by the
    processor's own time, which other processes disturb less: the median of rounds, and the fastest one."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for work in contestants.values():
        timed(work, 5)
    for _ in range(rounds):
        for name, work in contestants.items():
            found[name].append(timed(work, count))

    def numbers(name: str) -> tuple[float, float, float]:
        seconds, processor = zip(*found[name], strict=True)
        return statistics.median(seconds) / count, statistics.median(processor) / count, min(processor) / count

    base = numbers(peer)
    for name in contestants:
        wall, own, fastest = numbers(name)
        print(
            f"{title}: {name:<21} {1 / wall:>7,.0f} updates/s {base[0] / wall:5.2f}x   processor {1e3 * own:6.2f} ms "
            f"{base[1] / own:5.2f}x   fastest {1e3 * fastest:6.2f} ms {base[2] / fastest:5.2f}x",
            flush=True,
        )


def products(*stacks: int) -> Work:
    """Nothing but so many products of 256 x 256 matrices at a time, in this order: what an update cannot do without."""
    matrices = {size: torch.randn(size, 256, 256) for size in stacks}

    def work(count: int) -> None:
        for size in stacks * count:
            torch.bmm(matrices[size], matrices[size])

    return work


def critic_products(critics: int) -> tuple[int, ...]:
    """The policy's layer, that of two targets, and of each critic one forward and two backward."""
    return (1, 2, critics, critics, critics)


POLICY_PRODUCTS = (1, 2, 2, 1, 1)  # The policy, both critics, both back to their inputs, and the policy back.


def measure_sac(options: argparse.Namespace) -> None:
    plain = prepared("sac_pendulum", *SAC, *BATCH)
    contestants: dict[str, Work | Peer] = {
        "stable-baselines3": stable_baselines3("SAC", options),
        "paddock": updates(plain),
    }
    if options.compile:
        contestants["paddock, compiled"] = updates(prepared("sac_pendulum", *SAC, *BATCH, "workflow.compile=on"))
    contestants["products alone"] = products(*critic_products(2), *POLICY_PRODUCTS)
    if options.sbx:
        contestants["sbx"] = Peer(options.sbx, SBX, threads=options.threads)
    race("SAC", contestants, count=40, rounds=options.rounds, peer="stable-baselines3")


def measure_dqn(options: argparse.Namespace) -> None:
    contestants: dict[str, Work | Peer] = {
        "stable-baselines3": stable_baselines3("DQN", options),
        "paddock, the same": updates(prepared("dqn_cartpole", *UNIFORM, *DQN)),
        "paddock, prioritized": updates(prepared("dqn_cartpole", *DQN)),
    }
    if options.compile:
        compiled = prepared("dqn_cartpole", *UNIFORM, *DQN, "workflow.compile=on")
        contestants["paddock, compiled"] = updates(compiled)
    race("DQN", contestants, count=200, rounds=options.rounds, peer="stable-baselines3")


def measure_redq(options: argparse.Namespace) -> None:
    """The critics' update alone: ten and two of them."""
    fewer = "components.critics.ensemble_size=2"
    ten, two = prepared("redq_pendulum", *SAC, *BATCH), prepared("redq_pendulum", *SAC, *BATCH, fewer)
    contestants: dict[str, Work | Peer] = {
        "10 critics": updates(ten, "update_critics"),
        "2 critics (SAC's)": updates(two, "update_critics"),
        "10, products alone": products(*critic_products(10)),
        "2, products alone": products(*critic_products(2)),
    }
    if options.compile:
        on = prepared("redq_pendulum", *SAC, *BATCH, "workflow.compile=on")
        contestants["10, compiled"] = updates(on, "update_critics")
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
    parser.add_argument("--sb3", default=sys.executable, help="a Python that has stable-baselines3")
    parser.add_argument("--sbx", help="a Python that has sbx-rl")
    options = parser.parse_args()
    if unknown := set(options.what) - MEASURES.keys():
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    torch.set_num_threads(options.threads)
    for name in options.what or MEASURES:
        MEASURES[name](options)


if __name__ == "__main__":
    main()

"""What replay costs: sampling sequences of pictures, checkpoints of a large buffer, memory over a million steps.

    python benchmarks/buffers.py [--rounds 5] [sampling checkpoints memory]

Sampling: 16 x 64 rows of 64x64 colour pictures, from memory and from disk. Checkpoints: a million vector transitions
(17 numbers observed, 6 acted), written whole, then again after 10,000 new ones. Medians of rounds. Memory: a million
pictures (12 GB) pass through a buffer on disk that keeps 200,000 of them, with a batch for every 200; what the process
has for itself (resident, less what it shares with the files), after every hundred thousand.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from paddock.buffers.disk import DiskBuffer, DiskConfig
from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.specs import ArraySpec, Spec
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore

COPIES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000, help="pictures in the buffer that is sampled")
    parser.add_argument("parts", nargs="*", choices=["sampling", "checkpoints", "memory"])
    arguments = parser.parse_args()
    parts = {
        "sampling": lambda: sampling(arguments.rounds, arguments.rows),
        "checkpoints": lambda: checkpoints(arguments.rounds),
        "memory": memory,
    }
    for name in arguments.parts or parts:
        print(json.dumps(parts[name](), indent=1))


def picture_spec() -> Spec:
    picture = ArraySpec(shape=(64, 64, 3), dtype="uint8")
    return Spec(observation={"image": picture}, action=ArraySpec(shape=(2,), dtype="float32"), is_dict=True)


def memory() -> dict[str, list[float]]:
    """MB after every hundred thousand of a million pictures."""
    spec, process, found = picture_spec(), psutil.Process(), []
    options: dict[str, Any] = {"_target_": "it", "capacity": 200_000, "batch_size": 16, "length": 64}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        buffer = DiskBuffer(DiskConfig(**options, folder=folder, segment_steps=2_048), spec, COPIES)
        fill(buffer, spec, 1_000)
        for _ in range(10):
            for _ in range(500):
                fill(buffer, spec, 200)
                buffer.sample()
            held = process.memory_info()
            found.append(round((held.rss - held.shared) / 1e6, 1))
    return {"memory of its own after every 100,000 pictures (MB)": found}


def sampling(rounds: int, rows: int) -> dict[str, float]:
    """Milliseconds a batch of 16 x 64."""
    spec = picture_spec()
    options: dict[str, Any] = {"_target_": "it", "capacity": rows, "batch_size": 16, "length": 64}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        buffers = {
            "memory": SequenceBuffer(SequenceConfig(**options), spec, COPIES),
            "disk": DiskBuffer(DiskConfig(**options, folder=folder), spec, COPIES),
        }
        for buffer in buffers.values():
            fill(buffer, spec, rows)
        return {
            f"sample 16 x 64 pictures from {name} (ms)": 1_000 * median(buffer.sample, 20 * rounds)
            for name, buffer in buffers.items()
        }


def checkpoints(rounds: int) -> dict[str, float]:
    """Seconds of writing a million transitions whole, and of the next checkpoint with 10,000 more."""
    spec = Spec(
        observation={"observation": ArraySpec(shape=(17,), dtype="float32")},
        action=ArraySpec(shape=(6,), dtype="float32"),
    )
    million = 1_000_000
    buffers = {
        "uniform": UniformBuffer(UniformConfig(_target_="it", capacity=million, batch_size=256), spec, COPIES),
        "sequence": SequenceBuffer(
            SequenceConfig(_target_="it", capacity=million, batch_size=16, length=64), spec, COPIES
        ),
    }
    results = {}
    for name, buffer in buffers.items():
        fill(buffer, spec, million)
        whole, more = [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                store = CheckpointStore(Path(folder), CheckpointConfig())
                whole.append(save(store, buffer, 1))
                fill(buffer, spec, 10_000)
                more.append(save(store, buffer, 2))
        results[f"checkpoint of a million, {name}: whole (s)"] = statistics.median(whole)
        results[f"checkpoint of a million, {name}: 10,000 new (s)"] = statistics.median(more)
        results[f"checkpoint of a million, {name}: ratio"] = statistics.median(
            new / all_of_it for new, all_of_it in zip(more, whole, strict=True)
        )
    return results


def save(store: CheckpointStore, buffer: Any, number: int) -> float:
    started = time.perf_counter()
    store.save({}, {"replay": buffer}, agent_steps=number, info={}, score=None)
    return time.perf_counter() - started


def fill(buffer: Any, spec: Spec, rows: int) -> None:
    """Endless episodes of noise, the same few steps over and over."""
    random = np.random.default_rng(0)
    observations = [
        {
            name: random.integers(256, size=(COPIES, *part.shape)).astype(part.dtype)
            for name, part in spec.observation.items()
        }
        for _ in range(8)
    ]
    no, yes = np.zeros(COPIES, bool), np.ones(COPIES, bool)
    action = random.random((COPIES, *spec.action.shape)).astype(spec.action.dtype)
    reward = random.random(COPIES).astype(np.float32)
    for step in range(rows // COPIES):
        buffer.add(
            {
                "observation": observations[step % 8],
                "next_observation": observations[(step + 1) % 8],
                "action": action,
                "reward": reward,
                "terminated": no,
                "truncated": no,
                "valid": yes,
            }
        )


def median(function: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()

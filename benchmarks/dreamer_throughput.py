"""Gradient steps a second of DreamerV3 (1M, vectors, 16 x 64), beside a plain torch one and (if told where) sheeprl's
and JAX scans.

    python benchmarks/dreamer_throughput.py [--rounds 5] [--updates 3] [--threads 2] [--sheeprl PYTHON] [--jax PYTHON]

A step is one update of world model, policy and value from a batch that is there. The contestants take turns, so that a
noisy machine is noisy for all; what is compared are medians of rounds. JAX runs the recurrent parts alone (posteriors
along sequences forward and backward, and imagination), so it is compared with those parts of Paddock's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from dreamer_plain import PlainDreamer
from rich.console import Console

from paddock.experiments.run import RunFolder
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve
from paddock.workflows.world_model_update import prepare_batch

OBSERVATION, ACTION, B, T = 24, 6, 16, 64  # the walker of dm-control
# What every contestant does: a dream from every state, values learned along the replay too, numbers in symlog.
UNTUNED = [
    f"buffers.replay.batch_size={B}",
    f"buffers.replay.length={T + 1}",
    "workflow.imagination_starts=null",
    "workflow.replay_value_coef=0.3",
    "components.world_model.encoder.standardize=false",
    "components.world_model.encoder.symlog=true",
]


def make_dreamer(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Paddock's workflow as it is without any tuning to dm-control, and a batch from its own replay."""
    overrides = ["logging.terminal=false", "logging.tensorboard=false", f"runs_dir={folder}", *UNTUNED]
    config, _ = resolve(Request("dreamer_dmc_walker", name="throughput", overrides=overrides))
    run = RunFolder.create(folder, "throughput", config.model_dump(mode="json", by_alias=True))
    workflow = build(config, run, Console(quiet=True)).workflow
    phase = config.training.phases["seed"]
    workflow.context.controllers.select("random")
    workflow.collect_step(1_200, phase=phase)
    batch = workflow.context.buffers["replay"].sample()
    assert batch["reward"].shape == (B, T + 1), f"the batch has {tuple(batch['reward'].shape)} rewards"
    return workflow, batch


def timed(work: Callable[[], Any], times: int) -> tuple[float, float]:
    """Seconds each, and the processor's seconds, which other processes disturb less."""
    started, used = time.perf_counter(), time.process_time()
    for _ in range(times):
        work()
    return (time.perf_counter() - started) / times, (time.process_time() - used) / times


def recurrent_parts(workflow: Any, batch: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """What the scans do: the posterior along sequences with its gradient, and imagination without."""
    model = workflow.model
    sample = prepare_batch(batch, workflow.context.spec.action, skip=1)
    action, is_first = sample["previous_actions"], sample["is_first"]
    seen = torch.randn(T, B, model.encoder.outputs)

    def learn() -> None:
        latents = model.rssm.observe_sequence(model.initial(B), seen, action, is_first)
        model.rssm.stochastic.kl(latents["posterior"], latents["prior"]).mean().backward()

    start = {name: torch.randn(B * T, part.shape[1]) for name, part in model.initial(1).items()}

    @torch.no_grad()
    def imagine() -> None:
        workflow.imagine(start, horizon=workflow.config.horizon)

    return {"model": learn, "imagine": imagine}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jax", help="a Python that has jax")
    parser.add_argument("--sheeprl", help="a Python that has sheeprl")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workflow, batch = make_dreamer(Path(folder))
        torch.set_num_threads(options.threads)
        plain = PlainDreamer(OBSERVATION, ACTION)
        rows = [torch.randn(B, T, OBSERVATION), torch.randn(B, T, ACTION).clamp(-1, 1), torch.randn(B, T)]
        rows += [torch.ones(B, T), torch.zeros(B, T)]
        contestants = {
            "paddock": lambda: workflow.update(batch, phase=None),
            "plain torch": lambda: plain.update(*rows),
            **{f"paddock {name}": part for name, part in recurrent_parts(workflow, batch).items()},
        }
        compare(contestants, options)


class Peer:
    """A script in another Python that gets a number of updates on a line, and answers with seconds."""

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        command = [python, str(Path(__file__).with_name(script)), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while not self._read().startswith("ready"):
            pass

    def seconds(self, updates: int) -> dict[str, tuple[float, float]]:
        assert self.process.stdin is not None
        print(updates, file=self.process.stdin, flush=True)
        return json.loads(self._read())

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} ended early")
        return line


def compare(contestants: dict[str, Callable[[], Any]], options: argparse.Namespace) -> None:
    """Take turns, then print medians."""
    peers = []
    if options.jax:
        peers.append(Peer(options.jax, "dreamer_scan.py"))
    if options.sheeprl:
        peers.append(Peer(options.sheeprl, "dreamer_sheeprl.py", str(options.threads)))
    spent: dict[str, list[tuple[float, float]]] = {}
    for work in contestants.values():  # The first time is never like the others.
        work()
    for _ in range(options.rounds):
        for name, work in contestants.items():
            spent.setdefault(name, []).append(timed(work, options.updates))
        for peer in peers:
            for name, seconds in peer.seconds(options.updates).items():
                spent.setdefault(name, []).append(seconds)
    middle = {name: [statistics.median(kind) for kind in zip(*pairs, strict=True)] for name, pairs in spent.items()}
    for name, (seconds, processor) in middle.items():
        least = min(own for _, own in spent[name])
        print(f"{name:16s} {1 / seconds:7.2f} /s   processor {processor:6.3f} s (least {least:.3f})")
    whole, parts = dict.fromkeys(("plain torch", "sheeprl"), "paddock"), ("model", "imagine")
    for other, ours in {**whole, **{f"jax {part}": f"paddock {part}" for part in parts}}.items():
        if other in middle:
            wall, own = (theirs / mine for theirs, mine in zip(middle[other], middle[ours], strict=True))
            print(f"{ours} / {other}: {wall:.2f}x, by the processor's time {own:.2f}x")
    for peer in peers:
        peer.process.terminate()


if __name__ == "__main__":
    main()

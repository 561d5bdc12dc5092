"""Updates and plans a second of TD-MPC2, beside the authors' code (if told where) on the same processor.

    python benchmarks/tdmpc_throughput.py [--size 5m] [--rounds 5] [--threads 1] [--official FOLDER --python PYTHON]

FOLDER is a copy of the folder `tdmpc2` of github.com/nicklashansen/tdmpc2, PYTHON an interpreter with torch and
tensordict. The device that is written into the copy is changed; nothing else is. The contestants take turns, and
processor seconds are compared, so that a busy machine is busy for all; what is given are medians of rounds. An update
is of model, critics and policy from a batch that is there (256 windows of 3 steps); a plan is one decision of one
environment (512 sequences of 3 steps, 6 rounds), of a task with 5 observed numbers and 1 action.
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
from rich.console import Console

from paddock.experiments.run import RunFolder
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve

PUBLISHED = [
    "controllers.available.mppi.planner.candidates=512",
    "controllers.available.mppi.planner.iterations=6",
    "controllers.available.mppi.planner.elites=64",
    "controllers.available.mppi.proposals=24",
]


def make_ours(folder: Path, size: str, *changes: str) -> dict[str, Callable[[], Any]]:
    """One update and one plan of Paddock's workflow on dm-control's cartpole."""
    overrides = ["logging.terminal=false", "logging.tensorboard=false", f"runs_dir={folder}", f"tdmpc_size={size}"]
    request = Request("tdmpc2_dmc_cartpole_swingup", name="throughput", overrides=[*overrides, *PUBLISHED, *changes])
    config, _ = resolve(request)
    run = RunFolder.create(folder, "throughput", config.model_dump(mode="json", by_alias=True))
    workflow = build(config, run, Console(quiet=True)).workflow
    phase = config.training.phases["seed"]
    workflow.context.controllers.select("random")
    workflow.collect_step(1_200, phase=phase)
    batch = workflow.context.buffers["replay"].sample()
    actor = workflow.context.controllers["mppi"]
    seen = {"observation": torch.randn(1, 5)}
    state = actor.initial_state(1)

    @torch.inference_mode()
    def plan() -> None:
        actor.act(seen, state, deterministic=False)

    return {"update": lambda: workflow.update(batch, phase=phase), "plan": plan}


class Official:
    """The authors' code in a process of its own."""

    def __init__(self, python: str, folder: Path, size: str, threads: int) -> None:
        script = Path(__file__).with_name("tdmpc_official.py")
        command = [python, str(script), str(folder), size, str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while "ready" not in self._answer():
            pass

    def seconds(self, name: str, times: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {times}\n")
        self._process.stdin.flush()
        return float(json.loads(self._answer())["seconds"])

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return line
        raise SystemExit("the official code ended without an answer")


def processor_seconds(work: Callable[[], Any], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=["1m", "5m"], default="5m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=4, help="updates or plans of a round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--official", type=Path, help="folder tdmpc2 of the authors' repository")
    parser.add_argument("--python", help="interpreter for it")
    options = parser.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bfloat16 = "controllers.available.mppi.precision=bfloat16"
        ours = make_ours(Path(folder), options.size)
        contestants = {f"paddock {name}": work for name, work in ours.items()}
        contestants["paddock plan bfloat16"] = make_ours(Path(folder), options.size, bfloat16)["plan"]
        torch.set_num_threads(options.threads)
        official = None
        if options.official is not None:
            official = Official(options.python, options.official, options.size, options.threads)
        for _ in range(options.rounds + 1):
            for name, work in contestants.items():
                found.setdefault(name, []).append(processor_seconds(work, options.times))
            for name in ("update", "plan") if official is not None else ():
                found.setdefault(f"official {name}", []).append(official.seconds(name, options.times))
    medians = {name: statistics.median(each[1:]) for name, each in found.items()}  # The first round warms up.
    for name, seconds in medians.items():
        rival = medians.get(f"official {name.split()[1]}")
        ratio = "" if rival is None else f"  {rival / seconds:5.2f} x official"
        print(f"{name:24s} {1 / seconds:8.2f} / s{ratio}")


if __name__ == "__main__":
    main()

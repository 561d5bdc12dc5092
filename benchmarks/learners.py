"""Two learners on two cores beside one on one core: updates a second of DreamerV3 (1M, vectors, 16 x 64).

    python benchmarks/learners.py [--rounds 7] [--updates 3] [--learners 2]

Both take turns, so that a noisy machine is noisy for both, and what is compared are medians of rounds. On a machine
whose cores are taken by other programs two processes wait for each other, and the wall clock says little; the
processor time of the busiest rank is what an update takes on cores of its own, communication included.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from dreamer_throughput import UNTUNED
from rich.console import Console

from paddock.experiments.run import RunFolder
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve


def make_run(folder: Path, learners: int) -> tuple[Any, Any, dict[str, Any]]:
    """An orchestrator, its phase and a batch of its replay; all learners have one thread of torch."""
    overrides = ["logging.terminal=false", "logging.tensorboard=false", f"runs_dir={folder}", *UNTUNED]
    overrides += [f"learners={learners}", "threads=1"]
    config, _ = resolve(Request("dreamer_dmc_walker", name=f"learners-{learners}", overrides=overrides))
    run = RunFolder.create(folder, config.name, config.model_dump(mode="json", by_alias=True))
    made = build(config, run, Console(quiet=True))
    made.context.controllers.select("random")
    phase = config.training.phases["joint"]
    made.workflow.collect_step(1_200, phase=phase)
    return made, phase, made.context.buffers["replay"].sample()


def measure(contestant: tuple[Any, Any, dict[str, Any]], updates: int) -> tuple[float, float]:
    """Seconds of an update by the wall clock, and of processor time by the busiest rank."""
    run, phase, batch = contestant
    processes = [psutil.Process()]
    processes += [
        one for one in processes[0].children() if run.ranks.count > 1 and "follower" in " ".join(one.cmdline())
    ]
    before, started = [_processor_time(one) for one in processes], time.perf_counter()
    for _ in range(updates):
        with run.ranks.updating(run.workflow, "update", batch, phase) as moved:
            run.workflow.update(moved, phase=phase)
    wall = (time.perf_counter() - started) / updates
    return wall, max(_processor_time(one) - then for one, then in zip(processes, before, strict=True)) / updates


def _processor_time(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--learners", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        contestants = {count: make_run(Path(folder), count) for count in (1, options.learners)}
        found: dict[int, list[tuple[float, float]]] = {count: [] for count in contestants}
        try:
            for contestant in contestants.values():
                measure(contestant, 1)  # Ranks meet, memory is taken.
            for _ in range(options.rounds):
                for count, contestant in contestants.items():
                    found[count].append(measure(contestant, options.updates))
        finally:
            for run, _, _ in contestants.values():
                run.ranks.close()
    report(found)


def report(found: dict[int, list[tuple[float, float]]]) -> None:
    """Medians, and the ratios of one learner to several."""
    one, several = found
    for place, name in enumerate(("wall clock", "processor time of the busiest rank")):
        alone, shared = (statistics.median(each[place] for each in found[count]) for count in (one, several))
        ratio = statistics.median(a[place] / b[place] for a, b in zip(found[one], found[several], strict=True))
        print(
            f"{name}: {one} learner {alone * 1e3:.0f} ms, {several} learners {shared * 1e3:.0f} ms, ratio {ratio:.2f}"
        )


if __name__ == "__main__":
    main()

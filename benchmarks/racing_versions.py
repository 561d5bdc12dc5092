"""Two versions of Paddock on `racing`, in turns: steps per second of wall clock, and of processor time.

    git worktree add /tmp/before COMMIT
    python benchmarks/racing_versions.py --before /tmp/before [--seconds 10] [--rounds 3] [key=value ...]

Each version trains in a process of its own, without evaluation. The first round of each warms its caches and does not
count. Overrides are for the version of this tree; the other one runs by its defaults. Where other programs use the
cores, the processor time is the one to trust; it does not know the second core, though.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
WITHOUT_EVALUATION = (
    "training.phases=[{name: train, buffer: rollout, workflow_hooks: "
    "[{collect: {steps: '${workflow.rollout_steps}'}}, update]}]"
)


def measured(seconds: float, seed: int, overrides: list[str]) -> dict[str, float]:
    """In this process: steps per second of wall clock and of processor time, and the shares of the phases."""
    from rich.console import Console

    from paddock.orchestration.launch import Request, new_run, resolve

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
            started = time.process_time()
            outcome = orchestrator.run()
            used = time.process_time() - started
    steps = outcome.counters.agent_steps
    return {"wall": steps / outcome.seconds, "processor": steps / used, **outcome.time_shares}


def in_a_process(tree: Path, seconds: float, seed: int, overrides: list[str]) -> dict[str, float]:
    """`measured` of the sources of another tree."""
    command = [sys.executable, __file__, "--measure", str(seed), "--seconds", str(seconds), *overrides]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tree).stdout
    return json.loads(output.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a tree of the other version")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", type=int, metavar="SEED", help="only this version, in this process, as JSON")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measured(options.seconds, options.measure, options.overrides)))
        return
    if options.before is None:
        parser.error("--before TREE: the version to compare with, such as a git worktree.")
    sides = {"before": (options.before.resolve(), []), "now": (HERE, options.overrides)}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for seed in range(options.rounds + 1):
        for name, (tree, overrides) in sides.items():
            result = in_a_process(tree, options.seconds if seed else 2.0, seed, overrides)
            if seed:
                found[name].append(result)
    for kind in ("wall", "processor"):
        medians = {name: statistics.median(one[kind] for one in results) for name, results in found.items()}
        rounds = {name: [round(one[kind]) for one in results] for name, results in found.items()}
        print(f"{kind:<10} {medians['now'] / medians['before']:.2f}x  medians {medians}  rounds {rounds}")
    shares = {name: found["now"][-1][name] for name in ("collect", "update", "checkpoint", "loop")}
    print("now:", ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()))


if __name__ == "__main__":
    main()

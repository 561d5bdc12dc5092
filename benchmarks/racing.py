"""The claims about `racing`, rerun: N seeds trained for a wall-clock budget, then judged, beside the classical driver.

    python benchmarks/racing.py [--seeds 5] [--seconds 60] [--experiment racing] [key=value ...]
    python benchmarks/racing.py --seconds 300 training.total_steps=40_000_000

Prints a row a seed: steps, steps/s, where the time went, finishes of 64 standing starts spread over the lap, best and
mean flying lap over the reference lap. Run it on a quiet machine; two cores are what the claims are about.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile

from rich.console import Console

from paddock.orchestration.launch import Request, new_run, resolve
from paddock.orchestration.orchestrator import Outcome
from paddock.orchestration.subject import find_subject
from paddock.racing.laps.drive import Laps

COLUMNS = (
    "seed      steps  steps/s  seconds  update  collect  evaluate  finished  best lap   ratio  mean ratio  wheels off"
)


def train(experiment: str, seed: int, overrides: list[str], runs_dir: str) -> tuple[Outcome, Laps]:
    """One run from scratch; its outcome, and the laps of its best policy from fresh starts."""
    settings = [*overrides, f"runs_dir={runs_dir}", "logging.terminal=false", "logging.tensorboard=false"]
    config, _ = resolve(Request(experiment, seed=seed, overrides=settings))
    with new_run(config, Console(quiet=True)) as orchestrator:
        outcome = orchestrator.run()
        subject = find_subject(str(orchestrator.run_folder.path), orchestrator.run_folder.path.parent)
    laps = subject.evaluator(subject.actor, subject.make_env, episodes=64, seed=2000, deterministic=True)
    assert isinstance(laps, Laps)
    return outcome, laps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--experiment", default="racing")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    print(COLUMNS)
    ratios = []
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            overrides = [f"training.max_seconds={options.seconds}", *options.overrides]
            outcome, laps = train(options.experiment, seed, overrides, folder)
        found, shares = laps.metrics(""), outcome.time_shares
        steps, seconds = outcome.counters.agent_steps, outcome.seconds
        parts = "".join(f"{100 * shares[name]:8.0f}%" for name in ("update", "collect", "evaluate"))
        timed = ""
        if laps.finished.any():
            timed = f"{found['best_lap']:10.3f} {found['best_ratio']:7.4f} {found['ratio']:11.4f}"
        done = f"{laps.finished.sum():>6}/{len(laps.track)} {timed} {found['wheels_off']:9.1f} s"
        print(f"{seed:4} {steps:10,} {steps / seconds:8,.0f} {seconds:8.1f}{parts} {done}", flush=True)
        ratios.append(found.get("best_ratio", float("inf")))
    print(f"best ratio: median {statistics.median(ratios):.4f}, worst {max(ratios):.4f}")


if __name__ == "__main__":
    main()

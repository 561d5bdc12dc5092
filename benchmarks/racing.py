"""The claims about `racing`, rerun: N seeds trained for a wall-clock budget, then judged, beside the classical driver.

    python benchmarks/racing.py [--seeds 1-5] [--seconds 60] [--experiment racing] [key=value ...]
    python benchmarks/racing.py --seeds 101-103 --seconds 300 training.total_steps=100_000_000
    python benchmarks/racing.py --seeds 101-103 training.total_steps=100_000_000 environment.track=Monza.csv

Prints a row a seed: steps, steps/s, where the time went, finishes of 64 standing starts spread over the lap, how many
of the laps were clean (all wheels on the road at all times), best and mean flying lap and best clean one over the
reference lap, of the best policy of the run. Run it on a quiet machine; two cores are what the claims are about.
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
    "seed       steps  steps/s  seconds  update  collect  evaluate  finished  clean  best lap   ratio  mean ratio"
    "  clean ratio  wheels off"
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


def seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-5"), help="one, or the first and the last: 101-103")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--experiment", default="racing")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    print(COLUMNS)
    ratios, clean_ratios = [], []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            overrides = [f"training.max_seconds={options.seconds}", *options.overrides]
            outcome, laps = train(options.experiment, seed, overrides, folder)
        found, shares = laps.metrics(""), outcome.time_shares
        steps, seconds = outcome.counters.agent_steps, outcome.seconds
        parts = "".join(f"{100 * shares[name]:8.0f}%" for name in ("update", "collect", "evaluate"))
        clean = int((laps.finished & laps.clean).sum())
        timed = f"{'':31}"
        if laps.finished.any():
            timed = f"{found['best_lap']:10.3f} {found['best_ratio']:8.4f} {found['ratio']:11.4f}"
        cleanest = f"{found['clean_ratio']:12.4f}" if clean else f"{'':12}"
        done = f"{laps.finished.sum():>6}/{len(laps.track)} {clean:6}{timed} {cleanest} {found['wheels_off']:9.1f} s"
        print(f"{seed:4} {steps:11,} {steps / seconds:8,.0f} {seconds:8.1f}{parts} {done}", flush=True)
        ratios.append(found.get("best_ratio", float("inf")))
        clean_ratios.append(found.get("clean_ratio", float("inf")))
    for name, values in (("best ratio", ratios), ("best clean ratio", clean_ratios)):
        print(f"{name}: median {statistics.median(values):.4f}, worst {max(values):.4f}")


if __name__ == "__main__":
    main()

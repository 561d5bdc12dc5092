"""What the off-policy algorithms learn, by seed: the shipped experiments to their end.

python benchmarks/off_policy_learning.py [--experiments sac_pendulum,dqn_cartpole] [--seeds 1,2,3]

Each is judged as it says itself (episodes or flying laps, deterministic, from fixed seeds). "Reached at" is the first
evaluation of a run that is at least as good as its last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

EXPERIMENTS = ["sac_pendulum", "redq_pendulum", "dqn_cartpole", "sac_dmc_cartpole_swingup"]


def train(experiment: str, seed: str, folder: str) -> dict:
    """How one run ended, with all of its evaluations."""
    command = [sys.executable, "-m", "paddock", "train", experiment, "--seed", seed, "--json"]
    outcome = json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)
    events = (Path(folder) / outcome["run"] / "events.jsonl").read_text().splitlines()
    outcome["evaluations"] = [event for event in map(json.loads, events) if event["event"] == "evaluation"]
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", default=",".join(EXPERIMENTS))
    parser.add_argument("--seeds", default="1,2,3")
    options = parser.parse_args()
    for experiment in options.experiments.split(","):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = [train(experiment, seed, folder) for seed in options.seeds.split(",")]
        metric = "eval/pace" if "eval/pace" in outcomes[0]["metrics"] else "eval/return"
        final = [outcome["metrics"][metric] for outcome in outcomes]
        first = [
            next(event["agent_steps"] for event in outcome["evaluations"] if event[metric] >= value)
            for outcome, value in zip(outcomes, final, strict=True)
        ]
        best = [outcome["best_score"] for outcome in outcomes]
        seconds = statistics.median(outcome["seconds"] for outcome in outcomes)
        print(
            f"{experiment}: {metric} after {outcomes[0]['agent_steps']:,} steps {[round(value, 3) for value in final]} "
            f"(mean {statistics.mean(final):.3f}), reached at {first}; best {[round(value, 3) for value in best]}; "
            f"{seconds:.0f} s a run",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""What PPO learns, by seed: the shipped experiments to their end, judged on 20 deterministic episodes.

python benchmarks/ppo_learning.py [--experiments ppo_cartpole,ppo_pendulum] [--seeds 1,2,3,4,5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

EXPERIMENTS = ["ppo_cartpole", "ppo_pendulum", "ppo_lunarlander"]


def train(experiment: str, seed: str, folder: str) -> dict:
    """The final evaluation of one run."""
    command = [sys.executable, "-m", "paddock", "train", experiment, "--seed", seed, "--json"]
    return json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", default=",".join(EXPERIMENTS))
    parser.add_argument("--seeds", default="1,2,3,4,5")
    options = parser.parse_args()
    for experiment in options.experiments.split(","):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = [train(experiment, seed, folder) for seed in options.seeds.split(",")]
        final = [outcome["metrics"]["eval/return"] for outcome in outcomes]
        best = [outcome["best_score"] for outcome in outcomes]
        seconds = statistics.median(outcome["seconds"] for outcome in outcomes)
        print(
            f"{experiment}: {outcomes[0]['agent_steps']:,} steps, {seconds:.0f} s a run; final evaluation "
            f"{[round(value, 1) for value in final]} (mean {statistics.mean(final):.1f}); best "
            f"{[round(value, 1) for value in best]}",
            flush=True,
        )


if __name__ == "__main__":
    main()

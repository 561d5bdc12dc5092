"""Short fixed-seed runs and a hash of what they learned: the proof that a refactor changed no number.

    python benchmarks/fingerprints.py [--before CLONE] [--experiment NAME ...]

Runs each experiment for a few updates through the command line and hashes every parameter of its last checkpoint,
whatever the parameters are called. With --before the same runs are made with the source of another clone (a git
worktree of an older commit, say), and the two hashes stand side by side; the exit code is 1 where any differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

HERE = Path(__file__).parents[1]
STEPS = {  # agent steps: past the seed phase, so that everything has been updated
    "ppo_cartpole": 8_192,
    "racing": 131_072,
    "sac_pendulum": 1_200,
    "dqn_cartpole": 2_000,
    "redq_pendulum": 1_050,
    "dreamer_cartpole": 1_060,
    "planet_dmc_cartpole": 1_300,
    "latent_actor_racing": 10_064,
}


def fingerprint(experiment: str, source: Path) -> str:
    """A hash of the parameters that the experiment has after a few updates, made with the code in `source`."""
    with tempfile.TemporaryDirectory() as folder:
        steps = f"training.total_steps={STEPS[experiment]}"
        command = ["train", experiment, "--name", "run", "--seed", "7", steps, "logging.tensorboard=false"]
        environment = {**os.environ, "PYTHONPATH": str(source / "src")}
        done = subprocess.run(
            [sys.executable, "-m", "paddock", *command], cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"{experiment} failed with the code in '{source}':\n{done.stderr[-2_000:]}")
        checkpoint = next(Path(folder).glob("runs/*/checkpoints/latest"))
        return parameters_digest(checkpoint)


def parameters_digest(checkpoint: Path) -> str:
    """A hash over all arrays of all components, independent of their names and order."""
    arrays = load_file(checkpoint / "state.safetensors")
    state = json.loads((checkpoint / "state.json").read_bytes())
    digests = sorted(
        hashlib.sha256(f"{arrays[key].shape}".encode() + arrays[key].tobytes()).hexdigest()
        for key in _array_keys(state["components"])
    )
    assert digests, checkpoint
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def _array_keys(node: object) -> list[str]:
    if not isinstance(node, dict):
        return []
    if "__array__" in node:
        return [node["__array__"]]
    return [key for child in node.values() for key in _array_keys(child)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a clone whose code is compared with this one's")
    parser.add_argument("--experiment", action="append", choices=list(STEPS))
    options = parser.parse_args()
    differing = 0
    for experiment in options.experiment or STEPS:
        now = fingerprint(experiment, HERE)
        line = f"{experiment:<24} {now}"
        if options.before:
            before = fingerprint(experiment, options.before.resolve())
            differing += before != now
            line = f"{experiment:<24} before {before}  now {now}  {'identical' if before == now else 'DIFFERENT'}"
        print(line, flush=True)
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()

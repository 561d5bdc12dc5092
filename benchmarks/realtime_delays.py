"""Policies of the fast simulator in real time: what training with the delays, and an action buffer, is worth.

    python benchmarks/realtime_delays.py train --runs runs --seeds 1     three policies for each seed
    python benchmarks/realtime_delays.py drive --runs runs --seeds 1     their laps, in virtual and in real time
    python benchmarks/realtime_delays.py laps --policy RUN/policy/best   any policy in real time, as it was trained

A policy trained without delay (`none`), one with the delays but without an action buffer (`delay`) and one with both
(`both`) drive one flying lap from each of a few standing starts on `racing_realtime`, each start in processes of its
own, all of them side by side; and from 64 starts in virtual time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from paddock.racing.env.config import RacingConfig, racing_config
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.drive import PolicyDriver, drive_laps, with_evaluation_rules
from paddock.racing.realtime.laps import drive_in_real_time
from paddock.racing.realtime.racing_realtime import realtime_config
from paddock.rollout.actor import ActorModule, load_policy, read_description
from paddock.rollout.episodes import evaluation_mode

DELAYS = {"elastic": True, "action": 0.1, "jitter": 0.02}
TRAINED = {
    "none": [],
    "delay": [
        *(f"environment.delays.{key}={value}" for key, value in DELAYS.items()),
        "environment.sensing.last_actions=0",
    ],
    "both": [
        *(f"environment.delays.{key}={value}" for key, value in DELAYS.items()),
        "environment.sensing.last_actions=4",
    ],
}
SEED = 1000


def train(runs: Path, seeds: list[int], steps: int, kinds: list[str]) -> None:
    """Every kind of policy with every seed, one after another."""
    for seed in seeds:
        for kind in kinds:
            command = [
                sys.executable,
                "-m",
                "paddock",
                "train",
                "racing",
                "--name",
                f"{kind}-{seed}",
                "--seed",
                str(seed),
            ]
            command += ["--runs-dir", str(runs), f"training.total_steps={steps}", *TRAINED[kind]]
            subprocess.run(command, check=True)


def policy_of(runs: Path, kind: str, seed: int, which: str) -> Path:
    """The newest run's policy: `latest` as training left it, `best` by the evaluations of training."""
    return sorted(runs.glob(f"{kind}-{seed}-*"))[-1] / "policy" / which


def subject(folder: Path, *, is_as_trained: bool = False) -> tuple[ActorModule, RacingConfig]:
    """A policy, and the environment it was trained in, with the delays that all of them meet or with its own."""
    known = set(RacingConfig.model_fields) - {"target_", "num_envs"}
    saved = {key: value for key, value in read_description(folder)["environment"].items() if key in known}
    return load_policy(folder), racing_config(**(saved if is_as_trained else {**saved, "delays": DELAYS}))


def in_virtual_time(folder: Path, starts: int) -> dict[str, Any]:
    actor, config = subject(folder)
    env = RacingVectorEnv(starts, config=with_evaluation_rules(config))
    with evaluation_mode(actor, SEED):
        laps = drive_laps(env, PolicyDriver(actor, starts, seed=SEED, deterministic=True), seed=SEED)
    return {"finished": int(laps.finished.sum()), "starts": starts, "ratios": laps.ratio[laps.finished].tolist()}


def one_start(folder: Path, start: int, starts: int, clock: str, *, is_as_trained: bool) -> dict[str, Any]:
    """One start by the clock; `timed_out` of its steps were too late for the grid."""
    torch.set_num_threads(1)
    actor, config = subject(folder, is_as_trained=is_as_trained)
    with evaluation_mode(actor, SEED):
        laps, notes = drive_in_real_time(
            actor, realtime_config(config, clock=clock), starts=starts, seed=SEED, only=start
        )
    ratio = float(laps.ratio[0])
    return {"ratio": ratio if np.isfinite(ratio) else None, "distance": float(laps.distance[0]), **notes[0]}


def by_the_clock(folder: Path, starts: int, clock: str, *, is_as_trained: bool = False) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "start", "--policy", str(folder), "--starts", str(starts), "--clock", clock]
    command += ["--as-trained"] * is_as_trained
    started = [
        subprocess.Popen([*command, "--start", str(start)], stdout=subprocess.PIPE, text=True)
        for start in range(starts)
    ]
    return [json.loads(process.communicate()[0]) for process in started]


def drive(runs: Path, seeds: list[int], starts: int, kinds: list[str], which: str) -> None:
    """A row for every policy, as JSON lines."""
    for seed in seeds:
        for kind in kinds:
            folder = policy_of(runs, kind, seed, which)
            fast = in_virtual_time(folder, 64)
            same = [one for one in by_the_clock(folder, starts, "virtual") if one["ratio"]]
            timed = by_the_clock(folder, starts, "wall")
            done = [one for one in timed if one["ratio"]]
            row = {
                "trained": kind,
                "seed": seed,
                "virtual": f"{fast['finished']}/64",
                "virtual_ratio": round(float(np.mean(fast["ratios"])), 4) if fast["ratios"] else None,
                "real": f"{len(done)}/{starts}",
                "real_ratio": round(float(np.mean([one["ratio"] for one in done])), 4) if done else None,
                "same_starts_virtual": f"{len(same)}/{starts}",
                "same_starts_virtual_ratio": round(float(np.mean([one["ratio"] for one in same])), 4) if same else None,
                "steps": sum(one["steps"] for one in timed),
                "overruns": sum(one["overruns"] for one in timed),
                "timed_out": sum(one["timed_out"] for one in timed),
                "late_by_median_ms": round(1000 * float(np.median([one["late_by"] for one in timed])), 2),
            }
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "drive", "laps", "start"])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--kinds", nargs="+", choices=list(TRAINED), default=list(TRAINED))
    parser.add_argument("--which", choices=["latest", "best"], default="latest", help="policy of a run")
    parser.add_argument("--steps", type=int, default=8_000_000, help="of training")
    parser.add_argument("--starts", type=int, default=4, help="in real time")
    parser.add_argument("--policy", type=Path, help="of laps and of one start")
    parser.add_argument("--as-trained", action="store_true", help="with the delays of the policy's training")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--clock", choices=["wall", "virtual"], default="wall")
    given = parser.parse_args()
    if given.what == "train":
        train(given.runs, given.seeds, given.steps, given.kinds)
    elif given.what == "drive":
        drive(given.runs, given.seeds, given.starts, given.kinds, given.which)
    elif given.what == "laps":
        for row in by_the_clock(given.policy, given.starts, given.clock, is_as_trained=True):
            print(json.dumps(row))
    else:
        is_own = given.as_trained
        print(json.dumps(one_start(given.policy, given.start, given.starts, given.clock, is_as_trained=is_own)))


if __name__ == "__main__":
    main()

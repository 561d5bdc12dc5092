"""The reward variants on equal footing: the same seeds, steps and circuit; laps with confidence intervals.

    python benchmarks/racing_rewards.py [--seeds 5] [--steps 8000000] [--track serpent ...] [key=value ...]

Every variant (with --combinations the four of the baseline, too) is trained on the default circuit, and judged there
and on circuits it has never seen. Intervals are 95 % over seeds, by Student's t.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from racing import train
from scipy import stats

from paddock.orchestration.judge import find_subject
from paddock.rollout.racing_laps import Laps

UNSEEN = ["harbour", "serpent", "procedural:10000", "procedural:10001"]
VARIANTS = {name: [] for name in ("racing", "baseline", "time_optimal", "racing_line")}
COMBINATIONS = {
    f"baseline, {name}": [f"reward.combination={name}"] for name in ("path", "path_speed", "path_collision")
}


def interval(values: list[float]) -> str:
    """Mean and half width of the 95 % confidence interval; values that do not exist are left out and counted."""
    known = np.array([value for value in values if np.isfinite(value)])
    missing = len(values) - len(known)
    if not len(known):
        return "no lap"
    half = stats.t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.nan
    return f"{known.mean():.4f} ± {half:.4f}" + (f" ({missing} without a lap)" if missing else "")


def unseen_laps(runs_dir: Path, name: str, tracks: list[str]) -> Laps:
    """Eight starts on each track."""
    overrides = [f"environment.track=[{','.join(tracks)}]", "environment.procedural=0"]
    subject = find_subject(name, runs_dir, overrides=overrides)
    laps = subject.judge(subject.actor, subject.make_env, episodes=8 * len(tracks), seed=2000, deterministic=True)
    assert isinstance(laps, Laps)
    return laps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8_000_000)
    parser.add_argument("--track", action="append", help="a track to judge on beside the one of training")
    parser.add_argument("--combinations", action="store_true")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    tracks = options.track or UNSEEN
    variants = VARIANTS | (COMBINATIONS if options.combinations else {})
    print(f"{'variant':<24} {'training track: best ratio':<34} {'mean ratio':<26} finish  unseen: mean ratio, finish")
    for name, changes in variants.items():
        best, mean, finish, unseen, unseen_finish = [], [], [], [], []
        for seed in range(1, options.seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                overrides = [f"training.total_steps={options.steps}", "training.max_seconds=null", *changes]
                experiment = name.partition(",")[0]
                _, laps = train(experiment, seed, [*overrides, *options.overrides], folder)
                away = unseen_laps(Path(folder), experiment, tracks).metrics("")
            found = laps.metrics("")
            best.append(found.get("best_ratio", np.nan))
            mean.append(found.get("ratio", np.nan))
            finish.append(found["finish_rate"])
            unseen.append(away.get("ratio", np.nan))
            unseen_finish.append(away["finish_rate"])
        print(
            f"{name:<24} {interval(best):<34} {interval(mean):<26} {np.mean(finish):5.0%}   {interval(unseen)}, "
            f"{np.mean(unseen_finish):.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""The reward variants on equal footing: the same seeds, steps and circuit; laps with confidence intervals.

    python benchmarks/racing_rewards.py [--seeds 5] [--steps 8000000] [--folder runs/rewards] [--track serpent ...]
                                        [key=value ...]

Every variant is `racing` with another reward set (with --combinations the four of the baseline, too), trained on the
default circuit, and judged there, the best and the final policy, and on circuits it has never seen. Intervals are 95 %
over seeds, by Student's t. With --folder runs are kept, and one that is there already is judged and not trained again.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy import stats

from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import Request, new_run, resolve
from paddock.orchestration.subject import find_subject
from paddock.racing.laps.drive import Laps

UNSEEN = ["harbour", "serpent", "procedural:10000", "procedural:10001"]
VARIANTS = {name: [f"reward={name}"] for name in ("racing", "baseline", "time_optimal", "racing_line")}
COMBINATIONS = {
    f"baseline_{name}": ["reward=baseline", f"reward.combination={name}"]
    for name in ("path", "path_speed", "path_collision")
}


def interval(values: list[float]) -> str:
    """Mean and half width of the 95 % confidence interval; values that do not exist are left out and counted."""
    known = np.array([value for value in values if np.isfinite(value)])
    missing = len(values) - len(known)
    if not len(known):
        return "no lap"
    half = stats.t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.nan
    return f"{known.mean():.4f} ± {half:.4f}" + (f" ({missing} without a lap)" if missing else "")


def trained(name: str, seed: int, overrides: list[str], folder: Path) -> RunFolder:
    """The finished run of a variant and a seed: the one in the folder, or a new one."""
    label = f"{name}-seed{seed}"
    found = [RunFolder(path) for path in folder.glob(f"{label}-*") if path.is_dir()]
    finished = [run for run in found if run.read_manifest().get("status") == "finished"]
    if finished:
        return finished[-1]
    quiet = ["logging.terminal=false", "logging.tensorboard=false", f"runs_dir={folder}"]
    config, _ = resolve(Request("racing", name=label, seed=seed, overrides=[*overrides, *quiet]))
    with new_run(config, Console(quiet=True)) as orchestrator:
        orchestrator.run()
        return orchestrator.run_folder


def judged(run: RunFolder, episodes: int, *, which: str = "best", tracks: list[str] | None = None) -> dict[str, float]:
    """What a policy of the run does from starts that training did not use, where it was trained or on other tracks."""
    elsewhere = [f"environment.track=[{','.join(tracks)}]", "environment.procedural=0"] if tracks else []
    subject = find_subject(str(run.path), run.path.parent, which=which, overrides=elsewhere)
    laps = subject.evaluator(subject.actor, subject.make_env, episodes=episodes, seed=2000, deterministic=True)
    assert isinstance(laps, Laps)
    return laps.metrics("")


def report(name: str, runs: list[RunFolder], tracks: list[str]) -> None:
    """A row over the seeds: the best policies, how many starts the best and the final ones finish, unseen tracks."""
    best, final = ([judged(run, 64, which=which) for run in runs] for which in ("best", "latest"))
    away = [judged(run, 8 * len(tracks), tracks=tracks) for run in runs]
    ratios = {key: interval([found.get(key, np.nan) for found in best]) for key in ("best_ratio", "ratio")}
    finished = [" ".join(f"{found['finish_rate']:4.0%}" for found in kind) for kind in (best, final)]
    print(
        f"{name:<24} {ratios['best_ratio']:<34} {ratios['ratio']:<26} {finished[0]:<20} {finished[1]:<20} "
        f"{np.mean([found['finish_rate'] for found in away]):.0%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8_000_000)
    parser.add_argument("--folder", type=Path, help="where runs are kept; a temporary folder if not given")
    parser.add_argument("--track", action="append", help="a track to judge on beside the one of training")
    parser.add_argument("--combinations", action="store_true")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    variants = VARIANTS | (COMBINATIONS if options.combinations else {})
    print(
        f"{'variant':<24} {'best ratio':<34} {'mean ratio':<26} {'finish, best policy':<20} {'final policy':<20} unseen"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name, changes in variants.items():
            overrides = [f"training.total_steps={options.steps}", *changes, *options.overrides]
            runs = [trained(name, seed, overrides, folder) for seed in range(1, options.seeds + 1)]
            report(name, runs, options.track or UNSEEN)


if __name__ == "__main__":
    main()

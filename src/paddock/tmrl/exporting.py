"""Policies and trajectories of Paddock as files that TMRL loads."""

from __future__ import annotations

from pathlib import Path

from paddock.core.errors import InputError
from paddock.environments.trackmania.trajectory import SUFFIX, load_trajectory
from paddock.experiments.run import RunFolder
from paddock.rollout.actor import load_policy
from paddock.tmrl import policies
from paddock.tmrl.rewards import write_reward


def export_tmrl(given: str, target: Path | None, *, runs_dir: Path, which: str = "best", trusts: bool = False) -> Path:
    """Write a trajectory's file as `reward.pkl`, or a run's or a folder's policy as `.tmod`. Returns the file."""
    path = Path(given).expanduser()
    if path.suffix == SUFFIX and path.is_file():
        target = _checked(target or Path("reward.pkl"), ".pkl")
        write_reward(load_trajectory(path), target)
        return target
    folder, name = path, path.name
    if not (path / "policy.json").is_file():
        run = RunFolder.find(runs_dir, given)
        found = run.policy_folder(which)
        if found is None:
            raise InputError(f"run '{run.name}' has no saved policy yet.")
        folder, name = found, run.name
    actor = load_policy(folder, trusts=trusts)
    target = _checked(target or Path(f"{name}{policies.SUFFIX}"), policies.SUFFIX)
    policies.write_policy(actor, target)
    return target


def _checked(target: Path, suffix: str) -> Path:
    if target.suffix != suffix:
        raise InputError(f"TMRL's file for this ends with {suffix}; given: '{target}'.")
    if target.exists():
        raise InputError(f"'{target}' exists already; give another --to, or remove it first.")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target

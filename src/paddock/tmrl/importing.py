"""A folder of TMRL's (`~/TmrlData`) as an experiment, a trajectory and policies of Paddock."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from paddock.components.temperature import Temperature, TemperatureConfig
from paddock.config.compose import choices, compose
from paddock.config.inheritance import settle
from paddock.core.errors import InputError
from paddock.core.files import make_folder, replace_file
from paddock.core.trust import sign
from paddock.environments.trackmania.trajectory import save_trajectory
from paddock.rollout.actor import PolicyActor, read_description
from paddock.tmrl.checkpoints import TrainingState, read_checkpoint
from paddock.tmrl.configuration import Translation, read_configuration
from paddock.tmrl.critics import critics_from
from paddock.tmrl.layouts import Layout
from paddock.tmrl.policies import POLICY, checked_weights, make_actor, policy_config, policy_from_weights, read_policy
from paddock.tmrl.rewards import read_reward

MOST_FILES = 1_000
KINDS = {"config.json": "configuration", ".pkl": "reward", ".tmod": "policy", ".tcpt": "checkpoint"}


@dataclass
class Imported:
    """What became of a folder. problems: a sentence for each file that could not be read."""

    folder: Path
    experiment: Path | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    trajectories: list[str] = field(default_factory=list)
    policies: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        return {**values, "folder": str(self.folder), "experiment": str(self.experiment) if self.experiment else None}


def import_tmrl(source: Path, target: Path, packages: tuple[str, ...] = ()) -> Imported:
    """Read a folder or a single file of TMRL's, and write what Paddock uses to `target`.

    packages: of the person's own, whose objects in a `.tcpt` are read as data; nothing of them is run.
    """
    files = _files(source.expanduser())
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"'{target}' is there already; give another folder with --to, or remove it.")
    done = Imported(target)
    found: list[Translation] = []
    _each(files["configuration"], done, lambda path: found.append(read_configuration(path)))
    translation = found[0] if found else None
    make_folder(target)
    work = _Import(done, translation, packages)
    _each(files["reward"], done, work.take_reward)
    _each(files["policy"], done, work.take_policy)
    _each(files["checkpoint"], done, work.take_checkpoint)
    if translation is not None:
        work.write_experiment(translation)
    replace_file(target / "report.json", json.dumps(done.to_dict(), indent=2).encode())
    return done


def _files(source: Path) -> dict[str, list[Path]]:
    """The files of each kind; of a folder as TMRL lays it out, or flat."""
    kinds: dict[str, list[Path]] = {kind: [] for kind in KINDS.values()}
    if source.is_file():
        candidates = [source]
    elif source.is_dir():
        places = [source, *(source / name for name in ("config", "reward", "weights", "checkpoints"))]
        candidates = sorted(path for place in places if place.is_dir() for path in place.iterdir())
    else:
        raise InputError(f"'{source}' is neither TMRL's folder (~/TmrlData) nor a file of it.")
    for path in candidates:
        kind = KINDS.get(path.name) or KINDS.get(path.suffix)
        if kind is not None and path.name != "data.pkl":
            kinds[kind].append(path)
    count = sum(map(len, kinds.values()))
    if not 0 < count <= MOST_FILES:
        raise InputError(f"'{source}' has {count} files of TMRL's; 1 to {MOST_FILES:,} can be imported at once.")
    return kinds


def _each(paths: list[Path], done: Imported, take: Callable[[Path], Any]) -> None:
    """Every file for itself: one that is refused does not keep the others out."""
    for path in paths:
        try:
            take(path)
        except InputError as error:
            done.problems.append(str(error))


class _Import:
    """Writes what was read."""

    def __init__(self, done: Imported, translation: Translation | None, packages: tuple[str, ...]) -> None:
        self.done, self.folder, self.packages = done, done.folder, packages
        self.translation = translation
        self.told = translation.layout if translation is not None else None

    def take_reward(self, path: Path) -> None:
        trajectory = read_reward(path)
        target = self.folder / f"{_plain(path.stem)}.safetensors"
        save_trajectory(trajectory, target)
        self.done.trajectories.append(str(target))
        if self.translation is not None and len(self.done.trajectories) == 1:
            self.translation.values["environment.trajectory"] = str(target.resolve())

    def take_policy(self, path: Path) -> None:
        actor, layout = read_policy(path, self.told)
        self._save(actor, layout, path, ["policy"])

    def take_checkpoint(self, path: Path) -> None:
        state = read_checkpoint(path, self.packages)
        weights = checked_weights(state.networks["actor"], str(path))
        actor, layout = policy_from_weights(weights, str(path), self.told)
        more = _learning_parts(state, layout)
        actor = make_actor(actor.parts[POLICY], actor.spec, **more)
        self._save(actor, layout, path, ["policy", *more], counters=state.counters, memory=state.samples)

    def _save(self, actor: PolicyActor, layout: Layout, path: Path, components: list[str], **more: Any) -> None:
        suffix = "-checkpoint" if path.suffix == ".tcpt" else ""
        folder = self.folder / "policies" / f"{_plain(path.stem)}{suffix}"
        actor.save(folder, environment_of(layout, self.translation))
        sign(folder, read_description(folder))
        row = {"source": str(path), "folder": str(folder), "interface": layout.interface, "components": components}
        self.done.policies.append({**row, **more, "hidden": actor.parts[POLICY].config.hidden})  # type: ignore[union-attr]

    def write_experiment(self, translation: Translation) -> None:
        """The YAML, with the trajectory and the newest weights of the run beside it."""
        values = translation.values
        chosen = _newest(self.done.policies, translation.name)
        if chosen is not None:
            config = policy_config(translation.layout, chosen["hidden"]).to_dict()
            values["components.policy"] = {name: config[name] for name in ("_target_", "parts", "scales", "hidden")}
            folder = str(Path(chosen["folder"]).resolve())
            values["initial_weights"] = dict.fromkeys(chosen["components"], folder)
        self.done.rows = [asdict(row) for row in translation.rows]
        self.done.experiment = self.folder / f"{translation.name}.yaml"
        replace_file(self.done.experiment, translation.to_yaml().encode())


def _learning_parts(state: TrainingState, layout: Layout) -> dict[str, Any]:
    """The components of SAC beside the policy that the weights of a checkpoint fit. A run's target critics begin as its
    critics, so those of the checkpoint are not needed."""
    found: dict[str, Any] = {"critics": critics_from(state.networks, layout)}
    if state.log_alpha is not None and math.isfinite(state.log_alpha):
        config = TemperatureConfig(_target_="paddock.components.temperature.Temperature")
        temperature = Temperature(config, layout.spec())
        with torch.no_grad():
            temperature.log.fill_(state.log_alpha)
        found["temperature"] = temperature
    return {name: part for name, part in found.items() if part is not None}


def _newest(policies: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """What a run of this name goes on with: its checkpoint, the trainer's copy, the worker's."""
    for wanted in (f"{name}_t-checkpoint", f"{name}_t", name):
        for one in policies:
            if Path(one["folder"]).name == wanted:
                return one
    return None


def environment_of(layout: Layout, translation: Translation | None) -> dict[str, Any] | None:
    """The environment that a policy is for; None where this Paddock has no TrackMania."""
    base = translation.base if translation is not None else f"trackmania_{'full' if layout.has_images else 'lidar'}_sac"
    if base not in choices("experiment"):
        return None
    given = (
        translation.values.items()
        if translation is not None
        else [
            ("environment.interface", layout.interface),
            ("environment.numbers", "tmrl"),
        ]
    )
    options = [f"{key}={json.dumps(value)}" for key, value in given if key.startswith("environment.")]
    return settle(compose(base, overrides=options)).values["environment"]


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[:100].strip("-.") or "unnamed"

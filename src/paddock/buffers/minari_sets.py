"""Minari datasets as episodes and back, bit for bit: both hold actions in the environment's range.

Marks and labels of steps travel in Minari's infos, what a set says of itself and of its episodes in Minari's metadata.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from paddock.buffers.episodes import LARGEST_SET, MARKS, Description, Episode, episode_of, misfit
from paddock.buffers.rows import Rows, split_episodes
from paddock.core.errors import InputError, did_you_mean
from paddock.core.lazy import require
from paddock.core.reading import DamagedError, parse_json, read_json
from paddock.core.specs import ArraySpec, Spec

MINARI = "minari:"
PLAIN = "observation"
LABELS, OWN = "labels", "paddock"
SPACES = ("observation_space", "action_space")


def read_minari_episodes(name: str, spec: Spec) -> Iterator[Episode]:
    """The episodes of a dataset on this machine; `spec` says how the agent sees and acts."""
    dataset = open_minari(name)
    for at in range(dataset.total_episodes):
        (information,) = dataset.storage.get_episode_metadata([at])
        (found,) = dataset.iterate_episodes([at])
        episode = _episode_of(found, information, spec)
        if reason := misfit(episode, spec):
            raise InputError(f"episode {at} of dataset '{MINARI}{name}' does not fit: {reason}.")
        yield episode


def open_minari(name: str) -> Any:
    """A dataset on this machine. Its files are checked first: one that says no spaces would have Minari make the
    environment that it names, which runs code of the dataset's maker."""
    minari = require("minari", extra="minari", purpose=f"dataset '{MINARI}{name}'")
    known = _known(minari)
    if name not in known:
        raise InputError(
            f"there is no Minari dataset '{name}' on this machine.{did_you_mean(name, known)} "
            f"There are: {', '.join(sorted(known)) or 'none'}. Download it first: minari download {name}"
        )
    folder = Path(minari.storage.local.get_dataset_path(name)) / "data"
    try:
        metadata = read_json(folder / "metadata.json")
    except DamagedError as error:
        raise InputError(f"dataset '{MINARI}{name}' cannot be read: its metadata.json: {error.reason}.") from error
    if not isinstance(metadata, dict) or not all(isinstance(metadata.get(key), str) for key in SPACES):
        raise InputError(f"dataset '{MINARI}{name}' does not say its spaces; it cannot be read without running code.")
    if metadata.get("data_format") != "hdf5":
        raise InputError(f"dataset '{MINARI}{name}' is stored as {metadata.get('data_format')}; only hdf5 is read.")
    _check_file(folder / "main_data.hdf5", name)
    try:
        return minari.load_dataset(name)
    except (ValueError, KeyError, OSError, AssertionError, NotImplementedError) as error:
        raise InputError(f"dataset '{MINARI}{name}' cannot be read: {type(error).__name__}: {error}.") from error


def description_of(dataset: Any, spec: Spec) -> Description:
    """What a dataset says of itself, where it was exported from here."""
    own = dataset.storage.metadata.get(OWN)
    own = own if isinstance(own, dict) else {}
    environment, time_step = own.get("environment"), own.get("time_step")
    return Description(
        spec,
        environment if isinstance(environment, dict) else None,
        float(time_step) if isinstance(time_step, int | float) else None,
    )


def write_minari_episodes(name: str, episodes: Iterable[Episode], description: Description, **about: Any) -> Any:
    """Make a dataset of episodes; `about` goes to Minari (author, algorithm_name, ...)."""
    minari = require("minari", extra="minari", purpose="writing a Minari dataset")
    if not re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", name):
        raise InputError(f"'{name}' is no name of a Minari dataset; write it as group/name-v0.")
    if name in _known(minari):
        raise InputError(f"there is a Minari dataset '{name}' already; choose another name, or delete it first.")
    kept, spec = list(episodes), description.spec
    if not kept:
        raise InputError(f"dataset '{name}' cannot be made: there is no whole episode to put into it.")
    made = [
        minari.data_collector.EpisodeBuffer(id=number, **_fields_of(episode, spec))
        for number, episode in enumerate(kept)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # What else a description might say.
        dataset = minari.create_dataset_from_buffers(
            name,
            made,
            observation_space=_observation_space(spec),
            action_space=_action_space(spec.action),
            jpeg_encoding=False,  # Pictures stay exactly what they were.
            **about,
        )
    dataset.storage.update_episode_metadata([{OWN: json.dumps(dict(episode.information))} for episode in kept])
    own = {"environment": description.environment, "time_step": description.time_step}
    dataset.storage.update_metadata({OWN: own})
    return dataset


def write_minari(name: str, files: Iterable[Rows], spec: Spec, **about: Any) -> Any:
    """Make a dataset of the rows of a recording."""
    episodes = [episode_of(rows, spec, {}) for file in files for rows in split_episodes(file)]
    return write_minari_episodes(name, episodes, Description(spec), **about)


def _known(minari: Any) -> Collection[str]:
    """The names of the datasets on this machine. A folder among them that is none stops Minari itself."""
    try:
        found: Collection[str] = minari.list_local_datasets()
    except (TypeError, ValueError, KeyError, OSError) as error:
        folder = minari.storage.local.get_dataset_path("")
        raise InputError(
            f"Minari cannot list the datasets in '{folder}': {type(error).__name__}: {error}. "
            "Move away the folder that holds no whole dataset."
        ) from error
    return found


def _check_file(file: Path, name: str) -> None:
    """Refuse what leads to other files, and what would not fit into memory."""
    h5py = require("h5py", extra="minari", purpose=f"dataset '{MINARI}{name}'")
    total = 0

    def visit(group: Any) -> None:
        nonlocal total
        for key in group:
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise InputError(f"dataset '{MINARI}{name}': '{key}' is a link to another place, which is not read.")
            child = group[key]
            if isinstance(child, h5py.Group):
                visit(child)
            elif child.external or child.is_virtual:
                raise InputError(f"dataset '{MINARI}{name}': '{key}' lies in another file, which is not read.")
            else:
                total += child.size * child.dtype.itemsize

    try:
        with h5py.File(file, "r") as opened:
            visit(opened)
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, RecursionError) as error:
        raise InputError(f"dataset '{MINARI}{name}' cannot be read: {error}.") from error
    if total > LARGEST_SET:
        raise InputError(
            f"dataset '{MINARI}{name}' has {total / 2**30:.1f} GiB; at most {LARGEST_SET / 2**30:.0f} GiB are read."
        )


def _episode_of(found: Any, metadata: Mapping[str, Any], spec: Spec) -> Episode:
    parts = found.observations if isinstance(found.observations, dict) else {PLAIN: found.observations}
    if parts.keys() != spec.observation.keys():
        raise InputError(f"the dataset observes {sorted(parts)}, the environment {sorted(spec.observation)}.")
    for part, values in parts.items():
        expected, given = spec.observation[part].shape, np.asarray(values).shape[1:]
        if given != expected:
            raise InputError(f"'{part}' has shape {given} in the dataset and {expected} in the environment.")
    infos = found.infos or {}
    steps = len(found.rewards)
    marks = {name: np.asarray(infos[name])[1:].astype(bool) for name in MARKS if len(infos.get(name, ())) == steps + 1}
    labels = np.asarray(infos[LABELS])[1:] if LABELS in infos and len(infos[LABELS]) == steps + 1 else None
    rewards = np.asarray(found.rewards)
    return Episode(
        observations={name: np.asarray(values).astype(spec.observation[name].dtype) for name, values in parts.items()},
        actions=np.asarray(found.actions).astype(spec.action.dtype),
        rewards=rewards if rewards.dtype.kind == "f" else rewards.astype(np.float32),
        terminations=np.asarray(found.terminations).astype(bool),
        truncations=np.asarray(found.truncations).astype(bool),
        labels=None if labels is None or not marks.keys() & set(MARKS) else labels.astype(spec.action.dtype),
        marks=marks,
        information=_information(metadata),
    )


def _information(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        own = parse_json(str(metadata.get(OWN, "{}")))
    except ValueError:
        own = {}
    own = own if isinstance(own, dict) else {}
    return own if OWN in metadata or metadata.get("seed") is None else {"seed": int(metadata["seed"])}


def _fields_of(episode: Episode, spec: Spec) -> dict[str, Any]:
    def after_reset(values: np.ndarray) -> np.ndarray:
        """Minari has an info of the reset before those of the steps."""
        return np.concatenate([np.zeros_like(values[:1]), values])

    infos = {name: after_reset(values) for name, values in episode.marks.items()}
    if episode.labels is not None:
        infos[LABELS] = after_reset(episode.labels)
    parts = dict(episode.observations)
    seed = episode.information.get("seed")
    return {
        "observations": parts if spec.is_dict else parts[PLAIN],
        "actions": episode.actions,
        "rewards": episode.rewards,
        "terminations": episode.terminations,
        "truncations": episode.truncations,
        "infos": infos or None,
        "seed": seed if isinstance(seed, int) else None,
    }


def _observation_space(spec: Spec) -> spaces.Space:
    parts: dict[str, spaces.Space] = {name: _box(part) for name, part in spec.observation.items()}
    return spaces.Dict(parts) if spec.is_dict else parts[PLAIN]


def _action_space(spec: ArraySpec) -> spaces.Space:
    return spaces.Discrete(spec.choices) if spec.choices is not None else _box(spec)


def _box(spec: ArraySpec) -> spaces.Box:
    dtype = np.dtype(spec.dtype)
    low: Any
    high: Any
    low, high = spec.bounds()
    if not np.issubdtype(dtype, np.floating):
        limits = np.iinfo(dtype)
        low = limits.min if spec.low is None else low
        high = limits.max if spec.high is None else high
    return spaces.Box(low, high, spec.shape, dtype.type)

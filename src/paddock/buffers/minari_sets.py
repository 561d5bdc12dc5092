"""Minari datasets as rows and back. Rows hold actions in the policy's range, datasets in the environment's."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from paddock.buffers.rows import OBSERVATION, Rows
from paddock.core.errors import InputError, did_you_mean
from paddock.core.lazy import require
from paddock.core.specs import ArraySpec, Spec

PLAIN = "observation"


def read_minari(name: str, spec: Spec) -> Iterator[Rows]:
    """The rows of each episode of a dataset on this machine; `spec` says how the agent sees and acts."""
    minari = require("minari", extra="minari", purpose=f"dataset 'minari:{name}'")
    known = minari.list_local_datasets()
    if name not in known:
        raise InputError(
            f"there is no Minari dataset '{name}' on this machine.{did_you_mean(name, known)} "
            f"There are: {', '.join(sorted(known)) or 'none'}. Download it first: minari download {name}"
        )
    dataset = minari.load_dataset(name)
    for episode in dataset.iterate_episodes():
        yield _rows_of(episode, spec)


def write_minari(name: str, files: Iterable[Rows], spec: Spec, **description: Any) -> Any:
    """Make a dataset of rows, e.g. of a recording; `description` goes to Minari (author, algorithm_name, ...)."""
    minari = require("minari", extra="minari", purpose="writing a Minari dataset")
    buffer_type = minari.data_collector.EpisodeBuffer
    episodes = [
        buffer_type(id=number, **_episode_of(rows, spec))
        for number, rows in enumerate(rows for file in files for rows in split_episodes(file))
    ]
    if not episodes:
        raise InputError(f"dataset '{name}' cannot be made: there is no whole episode to put into it.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # What else a description might say.
        return minari.create_dataset_from_buffers(
            name,
            episodes,
            observation_space=_observation_space(spec),
            action_space=_action_space(spec.action),
            jpeg_encoding=False,  # Pictures stay exactly what they were.
            **description,
        )


def split_episodes(rows: Rows) -> Iterator[Rows]:
    """Rows of one episode after the other."""
    begins = np.flatnonzero(rows["is_first"])
    for start, stop in zip(begins, [*begins[1:], len(rows["is_first"])], strict=True):
        yield {name: values[start:stop] for name, values in rows.items()}


def _rows_of(episode: Any, spec: Spec) -> Rows:
    parts = episode.observations if isinstance(episode.observations, dict) else {PLAIN: episode.observations}
    if parts.keys() != spec.observation.keys():
        raise InputError(f"the dataset observes {sorted(parts)}, the environment {sorted(spec.observation)}.")
    count = len(episode.rewards) + 1
    rows: Rows = {}
    for name, values in parts.items():
        expected = spec.observation[name]
        array = np.asarray(values)
        if array.shape != (count, *expected.shape):
            raise InputError(
                f"'{name}' has shape {array.shape[1:]} in the dataset and {expected.shape} in the environment."
            )
        rows[f"{OBSERVATION}{name}"] = array.astype(expected.dtype)
    action = to_policy(np.asarray(episode.actions), spec.action)
    rows["action"] = np.concatenate([action, np.zeros_like(action[:1])])
    rows["reward"] = np.concatenate([[0], episode.rewards]).astype(np.float32)
    rows["is_first"] = np.arange(count) == 0
    rows["terminated"] = np.concatenate([[False], episode.terminations]).astype(bool)
    # An episode that ends with neither flag was cut off by whoever recorded it.
    rows["truncated"] = (np.arange(count) == count - 1) & ~rows["terminated"]
    return rows


def _episode_of(rows: Rows, spec: Spec) -> dict[str, Any]:
    parts = {name: rows[f"{OBSERVATION}{name}"] for name in spec.observation}
    return {
        "observations": parts if spec.is_dict else parts[PLAIN],
        "actions": to_environment(rows["action"][:-1], spec.action),
        "rewards": rows["reward"][1:],
        "terminations": rows["terminated"][1:],
        "truncations": rows["truncated"][1:],
    }


def to_policy(action: np.ndarray, spec: ArraySpec) -> np.ndarray:
    """An environment's actions in the policy's range: [-1, 1] for a bounded Box."""
    if spec.is_discrete or spec.low is None or spec.high is None:
        return action.astype(spec.dtype)
    low, high = spec.bounds()
    return ((action - (high + low) / 2) / ((high - low) / 2)).astype(spec.dtype)


def to_environment(action: np.ndarray, spec: ArraySpec) -> np.ndarray:
    """The inverse of `to_policy`; policies may reach beyond the bounds, environments may not."""
    if spec.is_discrete or spec.low is None or spec.high is None:
        return action
    low, high = spec.bounds()
    return (np.clip(action, -1, 1) * (high - low) / 2 + (high + low) / 2).astype(spec.dtype)


def _observation_space(spec: Spec) -> spaces.Space:
    parts: dict[str, spaces.Space] = {name: _box(part) for name, part in spec.observation.items()}
    return spaces.Dict(parts) if spec.is_dict else parts[PLAIN]


def _action_space(spec: ArraySpec) -> spaces.Space:
    return spaces.Discrete(spec.choices) if spec.choices is not None else _box(spec)


def _box(spec: ArraySpec) -> spaces.Box:
    low, high = spec.bounds() if np.issubdtype(spec.dtype, np.floating) else (0, 255)
    return spaces.Box(low, high, spec.shape, np.dtype(spec.dtype).type)

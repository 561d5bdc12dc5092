"""Episodes as LeRobot datasets (format v3.0), with pyarrow alone; `lerobot_reading.py` reads them.

A frame is a step: what was seen before it, the action, the reward. What LeRobot has no place for travels as columns
that it passes over: the observation after the last step, how an episode ended, marks and labels of steps, and what a
set says of itself. Pictures are stored inside the tables as PNG, which loses nothing.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from paddock.buffers.episodes import MARKS, Description, Episode
from paddock.core.errors import InputError
from paddock.core.files import make_folder, write_synced
from paddock.core.lazy import require
from paddock.core.specs import ArraySpec, Spec

VERSION = "v3.0"
INFO, STATS, TASKS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
CHUNK_FILES = 1000  # files in a folder
FILE_BYTES = 100 * 2**20  # of data, after which a new file begins
STATE, ACTION, REWARD, DONE, TRUNCATED = "observation.state", "action", "next.reward", "next.done", "next.truncated"
LABEL = "label"
OWN = "paddock"  # the key of what only this project knows
LAST = f"{OWN}/last/"  # before a part's name, in the table of episodes: the observation after the last step
QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
COLUMNS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
TASK = "drive"


def part_name(name: str, spec: ArraySpec, only: bool) -> str:
    """What LeRobot calls a part of the observation."""
    if is_picture(spec):
        return f"observation.images.{name}"
    return STATE if only else f"observation.{name}"


def is_picture(spec: ArraySpec) -> bool:
    return spec.dtype == "uint8" and len(spec.shape) == 3 and spec.shape[-1] in (1, 3)


# --- writing ---


def write_lerobot(folder: Path, episodes: Sequence[Episode], description: Description, *, task: str = TASK) -> None:
    """Make a dataset in a new folder."""
    pyarrow = require("pyarrow", extra="lerobot", purpose="writing a LeRobot dataset")
    if not episodes:
        raise InputError(f"dataset '{folder}' cannot be made: there is no whole episode to put into it.")
    if (folder / "meta").exists():
        raise InputError(f"there is a LeRobot dataset in '{folder}' already; choose another folder.")
    columns = _Columns(description.spec, any(episode.labels is not None for episode in episodes))
    rate = round(1.0 / (description.time_step or 0.05))
    make_folder(folder / "meta")
    rows = _write_data(pyarrow, folder, episodes, columns, rate)
    _write_episodes(pyarrow, folder, episodes, rows, columns, task)
    _write_tables(pyarrow, folder, episodes, description, columns, rate, task)
    write_synced(folder / STATS, json.dumps(_joined_stats(episodes, columns)).encode())


class _Columns:
    """The features of a dataset, and the arrays [T, ...] of an episode under their names."""

    def __init__(self, spec: Spec, has_labels: bool) -> None:
        self.spec, self.has_labels = spec, has_labels
        plain = [name for name, part in spec.observation.items() if not is_picture(part)]
        self.parts = {name: part_name(name, part, plain == [name]) for name, part in spec.observation.items()}

    def features(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, feature in self.parts.items():
            found[feature] = _feature(self.spec.observation[name])
        found[ACTION] = _feature(self.spec.action)
        if self.has_labels:
            found[LABEL] = _feature(self.spec.action)
        found[REWARD] = {"dtype": "float64", "shape": [1], "names": None}
        for name in (DONE, TRUNCATED, *MARKS):
            found[name] = {"dtype": "bool", "shape": [1], "names": None}
        for name in COLUMNS:
            found[name] = {"dtype": "float32" if name == "timestamp" else "int64", "shape": [1], "names": None}
        return found

    def arrays(self, episode: Episode) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for name, feature in self.parts.items():
            found[feature] = episode.observations[name][:-1]
        found[ACTION] = episode.actions
        if self.has_labels:
            found[LABEL] = episode.actions if episode.labels is None else episode.labels
        found[REWARD] = episode.rewards.astype(np.float64)
        found[DONE], found[TRUNCATED] = episode.terminations, episode.truncations
        nothing = np.zeros(len(episode), bool)
        return found | {name: episode.marks.get(name, nothing) for name in MARKS}

    def stats(self, episode: Episode) -> dict[str, dict[str, list[Any]]]:
        return {name: _stats(values) for name, values in self.arrays(episode).items()}

    def last(self, episode: Episode) -> dict[str, Any]:
        """The observation after the last step, as the table of episodes holds it."""
        last = {feature: episode.observations[name][-1] for name, feature in self.parts.items()}
        pictures = {self.parts[name] for name, part in self.spec.observation.items() if is_picture(part)}
        return {
            f"{LAST}{name}": _png(values) if name in pictures else values.reshape(-1).tolist()
            for name, values in last.items()
        }


def _feature(part: ArraySpec) -> dict[str, Any]:
    if is_picture(part):
        return {"dtype": "image", "shape": list(part.shape), "names": ["height", "width", "channels"]}
    return {"dtype": part.dtype, "shape": list(part.shape) or [1], "names": None}


def _write_data(
    pyarrow: Any, folder: Path, episodes: Sequence[Episode], columns: _Columns, rate: int
) -> list[tuple[int, int, int]]:
    """Write all frames; gives chunk, file and first row of each episode."""
    places: list[tuple[int, int, int]] = []
    pending: list[Any] = []
    file, size, total = 0, 0, 0
    for number, episode in enumerate(episodes):
        table = _table(pyarrow, columns, episode, number, total, rate)
        if pending and size + table.nbytes > FILE_BYTES:
            _write_table(pyarrow, folder, DATA, file, pending)
            pending, size, file = [], 0, file + 1
        places.append((file // CHUNK_FILES, file % CHUNK_FILES, total))
        pending.append(table)
        size, total = size + table.nbytes, total + len(episode)
    _write_table(pyarrow, folder, DATA, file, pending)
    return places


def _table(pyarrow: Any, columns: _Columns, episode: Episode, number: int, first: int, rate: int) -> Any:
    count = len(episode)
    frames = np.arange(count, dtype=np.int64)
    found = {name: _column(pyarrow, values) for name, values in columns.arrays(episode).items()}
    found["timestamp"] = pyarrow.array((frames / rate).astype(np.float32))
    own = {"frame_index": frames, "episode_index": np.full(count, number), "index": first + frames}
    found |= {name: pyarrow.array(values) for name, values in own.items()}
    found["task_index"] = pyarrow.array(np.zeros(count, np.int64))
    return pyarrow.table(found)


def _column(pyarrow: Any, values: np.ndarray) -> Any:
    """Numbers as they are, vectors as lists of a fixed size, pictures as PNG."""
    if values.dtype == np.uint8 and values.ndim == 4:
        pictures = [{"bytes": _png(picture), "path": None} for picture in values]
        return pyarrow.array(pictures, pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())]))
    if values.ndim == 1:
        return pyarrow.array(values)
    flat = np.ascontiguousarray(values).reshape(-1)
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), int(np.prod(values.shape[1:])))


def _png(picture: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture[..., 0] if picture.shape[-1] == 1 else picture).save(file, format="PNG")
    return file.getvalue()


def _write_table(pyarrow: Any, folder: Path, pattern: str, file: int, tables: list[Any]) -> None:
    parquet = require("pyarrow.parquet", extra="lerobot", purpose="writing a LeRobot dataset")
    path = folder / pattern.format(chunk_index=file // CHUNK_FILES, file_index=file % CHUNK_FILES)
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.concat_tables(tables), path, write_page_checksum=True)


def _write_episodes(
    pyarrow: Any,
    folder: Path,
    episodes: Sequence[Episode],
    places: list[tuple[int, int, int]],
    columns: _Columns,
    task: str,
) -> None:
    rows = []
    for number, (episode, (chunk, file, first)) in enumerate(zip(episodes, places, strict=True)):
        found = columns.stats(episode)
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [task],
            "length": len(episode),
            "dataset_from_index": first,
            "dataset_to_index": first + len(episode),
            "data/chunk_index": chunk,
            "data/file_index": file,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        row |= {f"stats/{name}/{kind}": values for name, one in found.items() for kind, values in one.items()}
        has = {"labels": episode.labels is not None, "marks": sorted(episode.marks)}
        own = {"information": dict(episode.information), "reward": str(episode.rewards.dtype), **has}
        rows.append(row | columns.last(episode) | {OWN: json.dumps(own)})
    _write_table(pyarrow, folder, EPISODES, 0, [pyarrow.Table.from_pylist(rows)])


def _write_tables(
    pyarrow: Any,
    folder: Path,
    episodes: Sequence[Episode],
    description: Description,
    columns: _Columns,
    rate: int,
    task: str,
) -> None:
    parquet = require("pyarrow.parquet", extra="lerobot", purpose="writing a LeRobot dataset")
    # The text is the index of a pandas table, which is how LeRobot reads it.
    index = {"index_columns": ["__index_level_0__"], "columns": [], "pandas_version": "2.0.0"}
    tasks = pyarrow.table({"task_index": pyarrow.array([0]), "__index_level_0__": pyarrow.array([task])})
    parquet.write_table(tasks.replace_schema_metadata({b"pandas": json.dumps(index).encode()}), folder / TASKS)
    own = {
        "spec": description.spec.to_dict(),
        "environment": None if description.environment is None else dict(description.environment),
        "time_step": description.time_step,
    }
    info = {
        "codebase_version": VERSION,
        "robot_type": OWN,
        "fps": rate,
        "features": columns.features(),
        "total_episodes": len(episodes),
        "total_frames": sum(len(episode) for episode in episodes),
        "total_tasks": 1,
        "chunks_size": CHUNK_FILES,
        "data_files_size_in_mb": FILE_BYTES // 2**20,
        "video_files_size_in_mb": 200,
        "data_path": DATA,
        "video_path": None,
        "splits": {"train": f"0:{len(episodes)}"},
        OWN: own,
    }
    write_synced(folder / INFO, json.dumps(info, indent=4).encode())


def _stats(values: np.ndarray) -> dict[str, list[Any]]:
    """Of each number; of pictures, of each channel from 0 to 1, shaped [C, 1, 1]."""
    if values.ndim == 4:
        channels = values.reshape(-1, values.shape[-1]) / 255.0
        return {kind: [[[one]] for one in found] for kind, found in _measures(channels).items()} | {
            "count": [len(values)]
        }
    flat = np.asarray(values, np.float64).reshape(len(values), -1)
    return {**_measures(flat), "count": [len(values)]}


def _measures(values: np.ndarray) -> dict[str, list[float]]:
    found = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0)}
    found |= {name: np.quantile(values, share, axis=0) for name, share in QUANTILES.items()}
    return {name: np.atleast_1d(one).tolist() for name, one in found.items()}


def _joined_stats(episodes: Sequence[Episode], columns: _Columns) -> dict[str, Any]:
    arrays = [columns.arrays(episode) for episode in episodes]
    return {name: _stats(np.concatenate([one[name] for one in arrays])) for name in arrays[0]}

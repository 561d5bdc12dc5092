"""LeRobot datasets (format v3.0) as episodes: those that `lerobot_sets.py` wrote bit for bit, those of others as far as
they say. A dataset is data from elsewhere: paths that it names are not used, and sizes are limited."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from paddock.buffers.episodes import LARGEST_SET, MARKS, Description, Episode, misfit
from paddock.buffers.lerobot_sets import (
    ACTION,
    DATA,
    DONE,
    EPISODES,
    INFO,
    LABEL,
    LAST,
    OWN,
    REWARD,
    TRUNCATED,
    part_name,
)
from paddock.core.errors import InputError
from paddock.core.lazy import require
from paddock.core.reading import open_regular, parse_json, read_json
from paddock.core.specs import ArraySpec, Spec

VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
IMAGES = "observation.images."
OBSERVATION = "observation."
LARGEST_PICTURE = 2**26  # bytes
MOST_INDEX = 10**6
Columns = Mapping[str, Any]
DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OSError)


def read_lerobot(folder: Path) -> tuple[Description, Iterator[Episode]]:
    """What a dataset is, and its episodes in their order."""
    if not (folder / INFO).exists():
        raise InputError(
            f"'{folder}' is no LeRobot dataset: it has no {INFO}. Name the folder of one, or minari:NAME for a Minari "
            "dataset on this machine."
        )
    info = read_json(folder / INFO)
    if not isinstance(info, dict) or not str(info.get("codebase_version", "")).startswith("v3."):
        given = info.get("codebase_version") if isinstance(info, dict) else None
        raise InputError(
            f"the LeRobot dataset '{folder}' is of version {given}; v3.0 is read. Convert it with LeRobot."
        )
    try:
        description = _description(info)
    except (*DAMAGE, msgspec.ValidationError) as error:
        raise InputError(f"the LeRobot dataset '{folder}' is damaged: {type(error).__name__}: {error}.") from error
    return description, _Reader(folder, info, description).episodes()


def _description(info: Columns) -> Description:
    own = info.get(OWN)
    if isinstance(own, dict):
        time_step = None if own.get("time_step") is None else float(own["time_step"])
        environment = own.get("environment")
        return Description(
            Spec.from_dict(own["spec"]), environment if isinstance(environment, dict) else None, time_step
        )
    features = info["features"]
    parts = {
        name.removeprefix(IMAGES).removeprefix(OBSERVATION): _part(feature)
        for name, feature in features.items()
        if name.startswith(OBSERVATION)
    }
    action = _part(features[ACTION])
    if list(parts) == ["state"]:
        spec = Spec(observation={"observation": parts["state"]}, action=action)
    else:
        spec = Spec(observation=dict(sorted(parts.items())), action=action, is_dict=True)
    return Description(spec, None, 1.0 / float(info["fps"]))


def _part(feature: Columns) -> ArraySpec:
    shape = tuple(int(size) for size in feature["shape"])
    if feature["dtype"] in ("image", "video"):
        if shape[0] in (1, 3) and shape[-1] not in (1, 3):  # Some are described with the channels in front.
            shape = (*shape[1:], shape[0])
        return ArraySpec(shape=shape, dtype="uint8", low=0.0, high=255.0)
    return ArraySpec(shape=shape, dtype=str(np.dtype(feature["dtype"])))


class _Reader:
    """Reads one episode after the other; the table of one file of frames is kept at a time."""

    def __init__(self, folder: Path, info: Columns, description: Description) -> None:
        self._folder, self._info, self._spec = folder, info, description.spec
        self._is_own = isinstance(info.get(OWN), dict)
        plain = [name for name, part in self._spec.observation.items() if part.dtype != "uint8" or len(part.shape) != 3]
        self._features = {name: part_name(name, part, plain == [name]) for name, part in self._spec.observation.items()}
        self._table: tuple[tuple[int, int], Any] | None = None
        self._read = 0

    def episodes(self) -> Iterator[Episode]:
        number = 0
        files = sorted((self._folder / "meta" / "episodes").glob("chunk-*/file-*.parquet"))
        if not files:
            raise InputError(f"the LeRobot dataset '{self._folder}' has no table of episodes ({EPISODES}).")
        for file in files:
            for row in self._load(file).to_pylist():
                try:
                    episode = self._episode(row)
                    reason = misfit(episode, self._spec)
                except InputError:
                    raise
                except DAMAGE as error:
                    reason = f"{type(error).__name__}: {error}"
                if reason:
                    raise InputError(f"episode {number} of the LeRobot dataset '{self._folder}' is damaged: {reason}.")
                yield episode
                number += 1
        if self._is_own and number != self._info.get("total_episodes"):
            raise InputError(
                f"the LeRobot dataset '{self._folder}' is damaged: it has {number} episodes and says "
                f"{self._info.get('total_episodes')}."
            )

    def _episode(self, row: Columns) -> Episode:
        length = int(row["length"])
        frames = self._frames(row, length)
        arrays = {name: self._observation(name, frames, row, length) for name in self._features}
        action = _array(frames[ACTION], self._spec.action)
        if not self._is_own:
            return _others(arrays, action, frames)
        own = parse_json(row[OWN])
        last = {name: self._last(name, row[f"{LAST}{feature}"]) for name, feature in self._features.items()}
        return Episode(
            observations={name: np.concatenate([values, last[name][None]]) for name, values in arrays.items()},
            actions=action,
            rewards=_numbers(frames[REWARD]).astype(np.dtype(str(own["reward"]))),
            terminations=_numbers(frames[DONE]).astype(bool),
            truncations=_numbers(frames[TRUNCATED]).astype(bool),
            labels=_array(frames[LABEL], self._spec.action) if own["labels"] else None,
            marks={name: _numbers(frames[name]).astype(bool) for name in MARKS if name in own["marks"]},
            information=dict(own["information"]),
        )

    def _frames(self, row: Columns, length: int) -> Any:
        """The rows of one episode, found by their own numbers: a dataset's indices may count from elsewhere."""
        place = (_index(row["data/chunk_index"]), _index(row["data/file_index"]))
        if self._table is None or self._table[0] != place:
            self._table = place, self._load(self._folder / DATA.format(chunk_index=place[0], file_index=place[1]))
        table = self._table[1]
        numbers = _numbers(table["episode_index"])
        found = np.flatnonzero(numbers == row["episode_index"])
        if len(found) != length or not length or found[-1] - found[0] + 1 != length:
            raise ValueError(f"its table has {len(found)} frames in place of {length}")
        frames = table.slice(int(found[0]), length)
        if not np.array_equal(_numbers(frames["frame_index"]), np.arange(length)):
            raise ValueError("its frames are not in their order")
        return frames

    def _observation(self, name: str, frames: Any, row: Columns, length: int) -> np.ndarray:
        feature, part = self._features[name], self._spec.observation[name]
        kind = self._info["features"][feature]["dtype"]
        if kind == "video":
            return self._video(feature, part, row, length)
        if kind == "image":
            return np.stack([_picture(one["bytes"], part) for one in frames[feature].to_pylist()])
        return _array(frames[feature], part)

    def _last(self, name: str, values: Any) -> np.ndarray:
        part = self._spec.observation[name]
        if isinstance(values, bytes):
            return _picture(values, part)
        return np.array(values, part.dtype).reshape(part.shape)

    def _video(self, feature: str, part: ArraySpec, row: Columns, length: int) -> np.ndarray:
        import av

        chunk, file = (_index(row[f"videos/{feature}/{kind}_index"]) for kind in ("chunk", "file"))
        path = self._folder / VIDEO.format(video_key=feature, chunk_index=chunk, file_index=file)
        begin, rate = float(row[f"videos/{feature}/from_timestamp"]), float(self._info["fps"])
        self._count(length * part.size)
        found: list[np.ndarray] = []
        with open_regular(path) as opened, av.open(opened, "r") as video:
            for frame in video.decode(video=0):
                if frame.time is not None and frame.time >= begin - 0.5 / rate and len(found) < length:
                    if (frame.height, frame.width) != part.shape[:2]:
                        raise ValueError(f"'{path.name}' has pictures of {frame.width} x {frame.height}")
                    found.append(frame.to_ndarray(format="rgb24"))
        if len(found) != length:
            raise ValueError(f"'{path.name}' has {len(found)} pictures in place of {length}")
        return np.stack(found)

    def _load(self, file: Path) -> Any:
        """A table, once it is known how large it is."""
        parquet = require("pyarrow.parquet", extra="lerobot", purpose="reading a LeRobot dataset")
        try:
            with open_regular(file, limit=LARGEST_SET) as opened:
                table = parquet.ParquetFile(opened, page_checksum_verification=True)
                groups = table.metadata.num_row_groups
                self._count(sum(table.metadata.row_group(at).total_byte_size for at in range(groups)))
                return table.read()
        except InputError:
            raise
        except DAMAGE as error:  # pyarrow's own errors are among them
            raise InputError(f"'{file}' of a LeRobot dataset cannot be read: {str(error).splitlines()[0]}") from error

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > LARGEST_SET:
            raise InputError(
                f"the LeRobot dataset '{self._folder}' has more than {LARGEST_SET / 2**30:.0f} GiB, which are not read."
            )


def _others(arrays: Mapping[str, np.ndarray], action: np.ndarray, frames: Any) -> Episode:
    """An episode of another program: its last frame is only what followed the one before."""
    steps = len(action) - 1
    names = set(frames.column_names)
    reward = _numbers(frames[REWARD]) if REWARD in names else np.zeros(steps + 1)
    ended = bool(_numbers(frames[DONE])[-1]) if DONE in names else False
    flags = np.zeros((2, steps), bool)
    if steps:
        flags[0 if ended else 1, -1] = True
    return Episode(
        observations=dict(arrays),
        actions=action[:-1],
        rewards=np.asarray(reward[:-1], np.float32).reshape(-1),
        terminations=flags[0],
        truncations=flags[1],
        information={"driver": "LeRobot"},
    )


def _numbers(column: Any) -> np.ndarray:
    return np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False))


def _array(column: Any, part: ArraySpec) -> np.ndarray:
    """A column of numbers or of lists as an array [T, ...]."""
    chunk = column.combine_chunks()
    lists = hasattr(chunk, "flatten") and hasattr(chunk.type, "value_type")
    values = chunk.flatten() if lists else chunk
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(part.dtype).reshape(len(column), *part.shape)


def _picture(content: bytes, part: ArraySpec) -> np.ndarray:
    if len(content) > LARGEST_PICTURE:
        raise ValueError("a picture is too large")
    with Image.open(io.BytesIO(content)) as opened:
        if (opened.height, opened.width) != part.shape[:2]:
            raise ValueError(f"a picture is of {opened.width} x {opened.height}")
        return np.asarray(opened.convert("L" if part.shape[-1] == 1 else "RGB"), np.uint8).reshape(part.shape)


def _index(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value <= MOST_INDEX:
        raise ValueError(f"{value!r} is no number of a file")
    return value

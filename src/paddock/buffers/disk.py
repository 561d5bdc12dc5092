"""Replay larger than memory: sealed runs of rows lie in files that are mapped, only the newest ones are in memory."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from paddock.buffers.rows import RingStorage, Rows, as_transitions
from paddock.buffers.segments import Segment
from paddock.buffers.sequence import Batch, SequenceBuffer, SequenceConfig, segment_name
from paddock.core.specs import Spec
from paddock.core.trees import open_tree, save_tree


class DiskConfig(SequenceConfig):
    """Options of a buffer on disk; `folder` is where its files go while the run lasts."""

    folder: str
    length: int = 2
    sample_as: Literal["sequences", "transitions"] = "sequences"
    segment_steps: int = 8_192

    def memory(self, spec: Spec, num_envs: int) -> int:
        """Bytes in memory: only the rows that are not in a file yet."""
        return min(self.capacity, max(self.segment_steps, num_envs)) * self.row_bytes(spec)


class DiskBuffer(SequenceBuffer):
    """A sequence buffer whose rows lie in files. A checkpoint links to the sealed ones; nothing is written twice.

    With `sample_as: transitions` batches are those of a uniform replay: windows of two rows, as transitions [N, ...].
    """

    config: DiskConfig
    _storage: DiskStorage

    def __init__(self, config: DiskConfig, spec: Spec, num_envs: int) -> None:
        if config.sample_as == "transitions":
            config = config.model_copy(update={"length": 2, "crosses_episodes": False})
        super().__init__(config, spec, num_envs)

    def sample(
        self, batch: int | None = None, length: int | None = None, generator: torch.Generator | None = None
    ) -> Batch:
        windows = super().sample(batch, length, generator)
        return windows if self.config.sample_as == "sequences" else as_transitions(windows)

    def adopt_segment(self, folder: Path, name: str) -> None:
        """Take a sealed segment of a checkpoint as its own, without reading it."""
        self._storage.adopt(folder, name)

    def _load_rows(self, tree: Any) -> None:
        """The newest rows, which are in memory."""
        numbers = tree["start"] + np.arange(len(tree["rows"]["reward"]))
        self._storage.fill(np.full(len(numbers), tree["copy"]), numbers, tree["rows"])

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._storage.clear()

    def _make_storage(self, fields: Mapping[str, tuple[tuple[int, ...], str]]) -> DiskStorage:
        return DiskStorage(fields, self.rows, self.segment_rows, self.num_envs, Path(self.config.folder))

    def _sealed_segment(self, copy: int, number: int) -> Segment:
        return replace(super()._sealed_segment(copy, number), folder=self._storage.folder)


class DiskStorage:
    """Rows as `RingStorage` has them, of which whole segments are written out and mapped."""

    def __init__(
        self,
        fields: Mapping[str, tuple[tuple[int, ...], str]],
        rows: int,
        segment_rows: int,
        num_envs: int,
        home: Path,
    ) -> None:
        self.rows, self.segment_rows = rows, segment_rows
        self._open = RingStorage(fields, segment_rows, num_envs)
        self._sealed: dict[tuple[int, int], Rows] = {}
        self.folder = _folder_of_this_process(home)
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, copies: np.ndarray, numbers: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        """Append rows; a segment that this completes goes to the disk."""
        self.fill(copies, numbers, rows)
        for copy, number in zip(copies, numbers, strict=True):
            if (number + 1) % self.segment_rows == 0:
                self._seal(int(copy), int(number) // self.segment_rows)

    def fill(self, copies: np.ndarray, numbers: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        """Put rows into the open segment."""
        self._open.write(copies, numbers, rows)

    def read(self, copies: np.ndarray, numbers: np.ndarray, names: list[str] | None = None) -> Rows:
        """Rows of any shape: `copies` and `numbers` are broadcast against each other."""
        copies, numbers = np.broadcast_arrays(copies, numbers)
        segments, places = np.divmod(numbers, self.segment_rows)
        chosen = {name: self._open.arrays[name] for name in names or self._open.arrays}
        found = {name: np.empty((*numbers.shape, *array.shape[2:]), array.dtype) for name, array in chosen.items()}
        for copy, segment in np.unique(np.stack([copies.ravel(), segments.ravel()]), axis=1).T.tolist():
            where = np.nonzero((copies == copy) & (segments == segment))
            source = self._sealed.get((copy, segment))
            for name, values in found.items():
                rows = self._open.arrays[name][copy] if source is None else source[name]
                values[where] = rows[places[where]]
        return found

    def adopt(self, folder: Path, name: str) -> None:
        for suffix in (".json", ".safetensors"):
            target = self.folder / f"{name}{suffix}"
            target.unlink(missing_ok=True)
            try:
                os.link(folder / target.name, target)
            except OSError:  # No hard links between these places.
                shutil.copy2(folder / target.name, target)
        self._map(name)

    def clear(self) -> None:
        self._sealed.clear()

    def _seal(self, copy: int, number: int) -> None:
        name = segment_name(copy, number)
        start = number * self.segment_rows
        rows = {field: array[copy] for field, array in self._open.arrays.items()}
        save_tree(self.folder, name, {"copy": copy, "start": start, "rows": rows})
        self._map(name)
        self._forget(copy, number - -(-self.rows // self.segment_rows))

    def _map(self, name: str) -> None:
        tree = open_tree(self.folder, name)
        self._sealed[tree["copy"], tree["start"] // self.segment_rows] = tree["rows"]

    def _forget(self, copy: int, number: int) -> None:
        """Drop a segment that has left the buffer; a checkpoint's link to its files keeps them there."""
        if self._sealed.pop((copy, number), None) is not None:
            for suffix in (".json", ".safetensors"):
                (self.folder / f"{segment_name(copy, number)}{suffix}").unlink(missing_ok=True)


def _folder_of_this_process(home: Path) -> Path:
    """A new folder; those that killed processes left behind are removed."""
    home.mkdir(parents=True, exist_ok=True)
    for leftover in home.glob("replay-*"):
        owner = leftover.name.split("-")[1]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(leftover, ignore_errors=True)
    for number in range(1_000_000):
        folder = home / f"replay-{os.getpid()}-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("no free name")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

"""Replay of sequences, for world models and recurrent policies: windows [B, T, ...] of consecutive rows.

What a row holds is told in `rows.py`. Observations are stored once, pictures as uint8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from paddock.buffers.rows import RingStorage, RowBuilder, nested, row_fields
from paddock.buffers.segments import Segment
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec

Batch = dict[str, Any]
TRIES = 20


class SequenceConfig(TargetSchema):
    """Options of a sequence buffer."""

    capacity: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    length: int = Field(ge=1)
    crosses_episodes: bool = True
    segment_steps: int = Field(default=32_768, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _without_extras(cls, values: Any) -> Any:
        """Configurations of before name `extras`, and always none of them."""
        if isinstance(values, dict) and values.get("extras") == {}:
            return {name: value for name, value in values.items() if name != "extras"}
        return values

    def memory(self, spec: Spec, num_envs: int) -> int:
        """Bytes that the buffer takes."""
        return self.capacity * self.row_bytes(spec)

    def row_bytes(self, spec: Spec) -> int:
        fields = [*row_fields(spec).values(), ((), "int64")]
        return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in fields)


class SequenceBuffer:
    """Each copy's stream of rows in a ring of its own; `capacity` counts the rows of all copies together.

    A window may run over the end of an episode into the next one (`is_first` marks where), or never does so
    (`crosses_episodes: false`; episodes shorter than the window are then never seen).
    """

    keeps_streams = True  # Columns hold one environment's steps each, in their order.

    def __init__(self, config: SequenceConfig, spec: Spec, num_envs: int) -> None:
        self.config = config
        self.num_envs = num_envs
        self.rows = max(-(-config.capacity // num_envs), config.length + 1)
        self.segment_rows = max(config.segment_steps // num_envs, 1)
        # Which episode of its stream a row belongs to tells at once whether a window crosses an end.
        fields = {**row_fields(spec), "episode": ((), "int64")}
        self._storage = self._make_storage(fields)
        self._builder = RowBuilder(spec, num_envs)
        self.totals = np.zeros(num_envs, np.int64)
        self._episodes = np.zeros(num_envs, np.int64)
        # How long the running episode is, and the newest row that ended a window within one episode.
        self._run = np.zeros(num_envs, np.int64)
        self._last_whole = np.full(num_envs, -1, np.int64)

    @property
    def oldest(self) -> np.ndarray:
        """The number of the oldest row still there, for each copy."""
        return np.maximum(self.totals - self.rows, 0)

    def __len__(self) -> int:
        return int((self.totals - self.oldest).sum())

    def add(self, transition: Mapping[str, Any]) -> None:
        """Store one step of all copies."""
        for copies, rows in self._builder.build(transition):
            self._count_episodes(copies, rows["is_first"])
            self._storage.write(copies, self.totals[copies], {**rows, "episode": self._episodes[copies]})
            self.totals[copies] += 1

    def extend(self, copy: int, rows: Mapping[str, np.ndarray]) -> None:
        """Append complete rows [N, ...] to one copy's stream; they go on with its episode until one begins."""
        is_first, count = rows["is_first"], len(rows["is_first"])
        numbers = self.totals[copy] + np.arange(count)
        episodes = self._episodes[copy] + is_first.cumsum()
        self._storage.write(np.full(count, copy), numbers, {**rows, "episode": episodes})
        places = np.arange(count)
        begun = np.maximum.accumulate(np.where(is_first, places, -1))
        longest = np.where(begun >= 0, places - begun, self._run[copy] + places) + 1
        if len(whole := np.flatnonzero(longest >= self.config.length)):
            self._last_whole[copy] = numbers[whole[-1]]
        self.totals[copy] += count
        self._episodes[copy], self._run[copy] = episodes[-1], longest[-1]

    def can_sample(self) -> bool:
        if len(self) < self.config.batch_size * self.config.length:
            return False
        if self.config.crosses_episodes:
            return bool(self._start_counts(self.config.length).any())
        return bool((self._last_whole >= self.oldest + self.config.length - 1).any())

    def sample(
        self, batch: int | None = None, length: int | None = None, generator: torch.Generator | None = None
    ) -> Batch:
        """`batch` windows of `length` rows, every possible start equally likely, as tensors [B, T, ...].

        Keys: `observation` by part, `action`, `reward`, `is_first`, `terminated`, `truncated`, and
        `index` int64 [B, T, 2]: copy and number of each row.
        """
        copies, starts = self._draw(batch or self.config.batch_size, length or self.config.length, generator)
        return self.gather(copies, starts, length or self.config.length)

    def gather(self, copies: np.ndarray, starts: np.ndarray, length: int) -> Batch:
        """The windows of `length` rows that begin at the given row numbers."""
        numbers = starts[:, None] + np.arange(length)
        rows = self._storage.read(copies[:, None], numbers)
        rows.pop("episode")
        # A stream that was cut by a discontinuity has no end of its own where the next episode begins.
        is_cut = rows["is_first"][:, 1:] & ~rows["terminated"][:, :-1]
        rows["truncated"][:, :-1] |= is_cut
        batch = nested(_tensors(rows))
        batch["index"] = torch.from_numpy(np.stack(np.broadcast_arrays(copies[:, None], numbers), -1))
        return batch

    def read(self, copies: np.ndarray, numbers: np.ndarray, names: list[str] | None = None) -> dict[str, np.ndarray]:
        """The fields (all, or those named) of any rows that are there; the arguments are broadcast to each other."""
        return self._storage.read(copies, numbers, names)

    def episode_starts(self, copy: int) -> np.ndarray:
        """Bool [K]: which of one copy's rows, from the oldest on, begin an episode."""
        numbers = np.arange(self.oldest[copy], self.totals[copy])
        return self._storage.read(np.array(copy), numbers, ["is_first"])["is_first"]

    def mark_discontinuity(self) -> None:
        """The environments start afresh: what comes next does not follow from the newest rows."""
        self._builder.restart()

    def get_state(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "totals": self.totals.copy(),
            "episodes": self._episodes.copy(),
            "run": self._run.copy(),
            "last_whole": self._last_whole.copy(),
            "builder": self._builder.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Prepare for `load_segment`; rows newer than the checkpoint are not seen."""
        assert state["rows"] == self.rows, "the buffer's capacity cannot change in a resumed run"
        self.totals[:] = state["totals"]
        self._episodes[:] = state["episodes"]
        self._run[:] = state["run"]
        self._last_whole[:] = state["last_whole"]
        self._builder.set_state(state["builder"])

    def segments(self) -> list[Segment]:
        """Each copy's sealed runs of rows, and one segment with what is newer, of all copies."""
        complete = self.totals // self.segment_rows
        sealed = [
            self._sealed_segment(copy, number)
            for copy in range(self.num_envs)
            for number in range(self.oldest[copy] // self.segment_rows, complete[copy])
        ]
        newest = [(copy, int(complete[copy])) for copy in np.flatnonzero(self.totals % self.segment_rows).tolist()]
        return [*sealed, Segment("rows-open", False, lambda: [self._read_segment(*which) for which in newest])]

    def load_segment(self, tree: Any) -> None:
        for one in tree if isinstance(tree, list) else [tree]:
            self._load_rows(one)

    def _load_rows(self, tree: Any) -> None:
        copy, start, rows = tree["copy"], tree["start"], tree["rows"]
        keep = max(int(self.oldest[copy]) - start, 0)
        numbers = np.arange(start + keep, start + len(rows["reward"]))
        copies = np.full(len(numbers), copy)
        self._storage.write(copies, numbers, {name: values[keep:] for name, values in rows.items()})

    def _count_episodes(self, copies: np.ndarray, is_first: np.ndarray) -> None:
        self._episodes[copies] += is_first
        self._run[copies] = np.where(is_first, 1, self._run[copies] + 1)
        whole = copies[self._run[copies] >= self.config.length]
        self._last_whole[whole] = self.totals[whole]

    def _make_storage(self, fields: Mapping[str, tuple[tuple[int, ...], str]]) -> Any:
        return RingStorage(fields, self.rows, self.num_envs)

    def _sealed_segment(self, copy: int, number: int) -> Segment:
        return Segment(segment_name(copy, number), True, partial(self._read_segment, copy, number))

    def _read_segment(self, copy: int, number: int) -> dict[str, Any]:
        start = max(number * self.segment_rows, int(self.oldest[copy]))
        numbers = np.arange(start, min((number + 1) * self.segment_rows, int(self.totals[copy])))
        return {"copy": int(copy), "start": start, "rows": self._storage.read(np.array(copy), numbers)}

    def _start_counts(self, length: int) -> np.ndarray:
        """How many windows of that length each copy's stream holds, whatever they cross."""
        return np.maximum(self.totals - self.oldest - length + 1, 0)

    def _draw(self, count: int, length: int, generator: torch.Generator | None) -> tuple[np.ndarray, np.ndarray]:
        counts = self._start_counts(length)
        ends = counts.cumsum()
        if not ends[-1]:
            raise InputError(f"no window of {length} rows can be drawn: the longest stream has {self._longest()} rows.")

        def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
            drawn = torch.randint(int(ends[-1]), (size,), generator=generator).numpy()
            copies = np.searchsorted(ends, drawn, side="right")
            return copies, drawn - (ends - counts)[copies] + self.oldest[copies]

        copies, starts = draw(count)
        if self.config.crosses_episodes:
            return copies, starts
        for _ in range(TRIES):
            bad = np.flatnonzero(~self._is_whole(copies, starts, length))
            if not len(bad):
                return copies, starts
            copies[bad], starts[bad] = draw(len(bad))
        return self._draw_from_list(count, length, generator)

    def _draw_from_list(
        self, count: int, length: int, generator: torch.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `_draw`, where most episodes are so short that trying takes longer than listing."""
        lists = [self._whole_starts(copy, length) for copy in range(self.num_envs)]
        starts = np.concatenate(lists)
        if not len(starts):
            raise InputError(f"no window of {length} rows lies within one episode: they are all shorter.")
        copies = np.repeat(np.arange(self.num_envs), [len(found) for found in lists])
        drawn = torch.randint(len(starts), (count,), generator=generator).numpy()
        return copies[drawn], starts[drawn]

    def _whole_starts(self, copy: int, length: int) -> np.ndarray:
        starts = np.arange(self.oldest[copy], max(self.totals[copy] - length + 1, self.oldest[copy]))
        return starts[self._is_whole(np.full(len(starts), copy), starts, length)]

    def _is_whole(self, copies: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
        """Whether the window from each start lies within one episode."""
        both = np.stack([starts, starts + length - 1])
        first, last = self._storage.read(copies, both, ["episode"])["episode"]
        return first == last

    def _longest(self) -> int:
        return int((self.totals - self.oldest).max())


def segment_name(copy: int, number: int) -> str:
    """The name of a sealed segment of a copy."""
    return f"rows-{copy:05d}-{number:09d}"


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}

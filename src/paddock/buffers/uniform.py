"""Replay: a ring of vector steps, sampled uniformly. Observations are stored once; rows are [B, ...]."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator

from paddock.buffers.segments import Segment
from paddock.buffers.storage import observation_arrays, transition_arrays, transition_bytes
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec

Batch = dict[str, Any]


class UniformConfig(TargetSchema):
    """Options of a uniform replay buffer."""

    capacity: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    n_step: int = Field(default=1, ge=1)
    gamma: float | None = Field(default=None, gt=0, le=1)
    segment_steps: int = Field(default=32_768, ge=1)

    @model_validator(mode="after")
    def _check(self) -> UniformConfig:
        if self.n_step > 1 and self.gamma is None:
            raise ValueError("n_step above 1 sums rewards and needs gamma: ${workflow.gamma}")
        return self

    def memory(self, spec: Spec, num_envs: int) -> int:
        """Bytes that the buffer takes."""
        return self.capacity * (transition_bytes(spec) + 8)


class UniformBuffer:
    """Transitions of all copies in a ring of `capacity` steps, counted over all copies together.

    The observation after row t is row t + 1's, except where an episode ended: its true last observation is kept in
    a second, smaller ring. Absolute row numbers only grow; `row % rows` is the place in the ring.
    """

    def __init__(self, config: UniformConfig, spec: Spec, num_envs: int) -> None:
        self.config = config
        self.num_envs = num_envs
        self.rows = max(-(-config.capacity // num_envs), 2)
        self.segment_rows = max(config.segment_steps // num_envs, 1)
        # One row more than the ring, so that the newest row's successor never overwrites the oldest.
        self._observation = observation_arrays(spec, self.rows + 1, num_envs)
        self._arrays = transition_arrays(spec, self.rows, num_envs)
        self._arrays["final"] = np.full((self.rows, num_envs), -1, np.int64)
        # The same memory with rows and copies as one axis: a batch is then one `take` a field.
        self._flat_observation = {name: _merged(array) for name, array in self._observation.items()}
        self._flat = {name: _merged(array) for name, array in self._arrays.items()}
        self._finals = FinalRing({name: (part.shape, part.dtype) for name, part in spec.observation.items()})
        self._is_discontinuous = False
        self.total = 0

    @property
    def oldest(self) -> int:
        """The absolute number of the oldest row still there."""
        return max(self.total - self.rows, 0)

    def __len__(self) -> int:
        return (self.total - self.oldest) * self.num_envs

    def add(self, transition: dict[str, Any]) -> None:
        """Store one step of all copies."""
        if self.total == 0 or self._is_discontinuous:
            self._restart(transition["observation"])
        row = self.total % self.rows
        self._open_rows(np.array([row]))
        for name in ("action", "reward", "terminated", "truncated", "valid"):
            self._arrays[name][row] = transition[name]
        if "final_rows" in transition:
            ids = self._finals.append(transition["final_observation"])
            self._arrays["final"][row, transition["final_rows"]] = ids
        self.total += 1
        self._write_observation(self.total, transition["next_observation"])

    def add_steps(self, steps: Mapping[str, Any]) -> None:
        """Store T consecutive steps of all copies at once, as `RolloutBuffer.rows` gives them; the same as T times
        `add`, and much faster. Unless they begin anew (`mark_discontinuity`), they follow the newest row."""
        count, piece = len(steps["reward"]), max(self.rows // 2, 1)
        if self.total == 0 or self._is_discontinuous:
            self._restart({name: part[0] for name, part in steps["observation"].items()})
        for start in range(0, count, piece):  # A ring that is overwritten at once would lose rows in an odd order.
            self._add_steps(steps, start, min(start + piece, count))

    def _add_steps(self, steps: Mapping[str, Any], start: int, stop: int) -> None:
        rows = np.arange(self.total, self.total + stop - start) % self.rows
        self._open_rows(rows)
        for name in ("action", "reward", "terminated", "truncated", "valid"):
            self._arrays[name][rows] = steps[name][start:stop]
        chosen = np.flatnonzero((steps["final_index"][:, 0] >= start) & (steps["final_index"][:, 0] < stop))
        if len(chosen):
            at, copies = steps["final_index"][chosen].T
            ids = self._finals.append({name: part[chosen] for name, part in steps["final_observation"].items()})
            self._arrays["final"][rows[at - start], copies] = ids
        following = np.arange(self.total + 1, self.total + 1 + stop - start) % (self.rows + 1)
        for name, array in self._observation.items():
            array[following] = steps["observation"][name][start + 1 : stop + 1]
        self.total += stop - start

    def can_sample(self) -> bool:
        return len(self) >= self.config.batch_size

    def sample(self, batch: int | None = None) -> Batch:
        """`batch_size` or `batch` transitions drawn uniformly with replacement, as tensors [N, ...]."""
        rows, copies = self._draw(batch or self.config.batch_size)
        # Steps that only reset an environment are rare; draw again for them.
        while len(bad := np.flatnonzero(~self._flat["valid"].take(self._places(rows, copies)))):
            rows[bad], copies[bad] = self._draw(len(bad))
        return self.gather(rows, copies)

    def gather(self, rows: np.ndarray, copies: np.ndarray) -> Batch:
        """The transitions at absolute `rows` of the given `copies`.

        With `n_step` above 1 a transition reaches over up to so many steps: `reward` is their discounted sum, `steps`
        their number, and what follows (`terminated`, `truncated`, `next_observation`) is of the last of them.
        """
        places = self._places(rows, copies)
        batch: Batch = {"action": torch.from_numpy(self._flat["action"].take(places, 0))}
        if self.config.n_step > 1:
            reward, steps = self._look_ahead(rows, copies)
            batch |= {"reward": torch.from_numpy(reward), "steps": torch.from_numpy(steps)}
            last = rows + steps - 1
            places = self._places(last, copies)
        else:
            last = rows
            batch["reward"] = torch.from_numpy(self._flat["reward"].take(places))
        batch |= {name: torch.from_numpy(self._flat[name].take(places)) for name in ("terminated", "truncated")}

        final = self._flat["final"].take(places)
        ended = np.flatnonzero(final >= 0)
        before, after = (row % (self.rows + 1) * self.num_envs + copies for row in (rows, last + 1))
        batch["observation"], batch["next_observation"] = {}, {}
        for name, array in self._flat_observation.items():
            next_observation = array.take(after, 0)
            if len(ended):
                next_observation[ended] = self._finals.get(name, final[ended])
            batch["observation"][name] = torch.from_numpy(array.take(before, 0))
            batch["next_observation"][name] = torch.from_numpy(next_observation)
        return batch

    def get_state(self) -> dict[str, Any]:
        last = {name: array[self.total % len(array)].copy() for name, array in self._observation.items()}
        return {"total": self.total, "rows": self.rows, "last_observation": last}

    def set_state(self, state: dict[str, Any]) -> None:
        """Prepare for `load_segment`; rows newer than the checkpoint are not seen."""
        assert state["rows"] == self.rows, "the buffer's capacity cannot change in a resumed run"
        self.total = state["total"]
        self._finals.clear()
        self._write_observation(self.total, state["last_observation"])

    def mark_discontinuity(self) -> None:
        """The environments start afresh: what comes next does not follow from the newest row."""
        self._is_discontinuous = self.total > 0

    def segments(self) -> list[Segment]:
        if self.total == 0:
            return []
        first, last = self.oldest // self.segment_rows, (self.total - 1) // self.segment_rows
        return [self._segment(number) for number in range(first, last + 1)]

    def load_segment(self, tree: Any) -> None:
        start, stop = tree["start"], tree["start"] + len(tree["arrays"]["reward"])
        keep = max(self.oldest - start, 0)
        rows = np.arange(start + keep, stop)
        for name, array in tree["observation"].items():
            self._observation[name][rows % (self.rows + 1)] = array[keep:]
        for name, array in tree["arrays"].items():
            self._arrays[name][rows % self.rows] = array[keep:]
        final = tree["arrays"]["final"]
        ended = final >= 0
        ids = np.full(final.shape, -1, np.int64)
        if ended.any():
            ids[ended] = self._finals.append(tree["final_observation"])
        self._arrays["final"][rows % self.rows] = ids[keep:]

    def _segment(self, number: int) -> Segment:
        is_sealed = (number + 1) * self.segment_rows <= self.total
        # An open segment has a name of its own, lest it be taken for the sealed one that it becomes.
        name = f"rows-{number:09d}" + ("" if is_sealed else "-open")
        return Segment(name, is_sealed, partial(self._read_segment, number))

    def _read_segment(self, number: int) -> dict[str, Any]:
        start = max(number * self.segment_rows, self.oldest)
        rows = np.arange(start, min((number + 1) * self.segment_rows, self.total))
        final = self._arrays["final"][rows % self.rows]
        arrays = {name: array[rows % self.rows] for name, array in self._arrays.items()}
        # Counted from the segment's beginning: the ring's own numbers depend on how often the run was resumed.
        arrays["final"] = np.where(final >= 0, np.cumsum(final >= 0).reshape(final.shape) - 1, -1)
        return {
            "start": start,
            "observation": {name: array[rows % (self.rows + 1)] for name, array in self._observation.items()},
            "arrays": arrays,
            "final_observation": {name: self._finals.get(name, final[final >= 0]) for name in self._observation},
        }

    def _write_observation(self, row: int, observation: dict[str, np.ndarray]) -> None:
        for name, array in self._observation.items():
            array[row % len(array)] = observation[name]

    def _open_rows(self, rows: np.ndarray) -> None:
        """Forget what the places [T] held."""
        self._finals.forget_before(int(self._arrays["final"][rows].max()) + 1)
        self._arrays["final"][rows] = -1

    def _restart(self, observation: dict[str, np.ndarray]) -> None:
        """Begin with `observation`. Where rows are there already, an unusable one parts the old from the new."""
        if self._is_discontinuous:
            row = self.total % self.rows
            self._open_rows(np.array([row]))
            self._arrays["valid"][row] = False
            self.total += 1
        self._is_discontinuous = False
        self._write_observation(self.total, observation)

    def _draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        drawn = torch.randint(self.oldest * self.num_envs, self.total * self.num_envs, (count,)).numpy()
        return np.divmod(drawn, self.num_envs)

    def _places(self, rows: np.ndarray, copies: np.ndarray) -> np.ndarray:
        return rows % self.rows * self.num_envs + copies

    def _look_ahead(self, rows: np.ndarray, copies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Discounted reward [N] from each row on, and over how many steps [N]: an episode's end, a discontinuity
        and the newest row cut it short."""
        assert self.config.gamma is not None
        ahead = rows[:, None] + np.arange(self.config.n_step)
        places = self._places(ahead, copies[:, None])
        done = self._flat["terminated"].take(places) | self._flat["truncated"].take(places)
        is_usable = self._flat["valid"].take(places) & (ahead < self.total)
        is_usable[:, 1:] &= ~done[:, :-1]
        reached = np.logical_and.accumulate(is_usable, 1)
        powers = self.config.gamma ** np.arange(self.config.n_step)
        reward = (self._flat["reward"].take(places) * powers * reached).sum(1)
        return reward.astype(np.float32), reached.sum(1)


def _merged(array: np.ndarray) -> np.ndarray:
    """[rows, B, ...] as [rows * B, ...], without a copy."""
    return array.reshape(-1, *array.shape[2:])


class FinalRing:
    """Last observations of ended episodes under ever-growing numbers; grows while more of them are alive."""

    def __init__(self, shapes: dict[str, tuple[tuple[int, ...], str]]) -> None:
        self._arrays = {name: np.zeros((64, *shape), dtype) for name, (shape, dtype) in shapes.items()}
        self.start = self.stop = 0

    def append(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Store [K, ...] rows; returns their numbers."""
        count = len(next(iter(observation.values())))
        self._reserve(self.stop + count - self.start)
        ids = np.arange(self.stop, self.stop + count)
        for name, array in self._arrays.items():
            array[ids % len(array)] = observation[name]
        self.stop += count
        return ids

    def get(self, name: str, ids: np.ndarray) -> np.ndarray:
        array = self._arrays[name]
        return array[ids % len(array)]

    def forget_before(self, number: int) -> None:
        self.start = max(self.start, min(number, self.stop))

    def clear(self) -> None:
        self.start = self.stop = 0

    def _reserve(self, count: int) -> None:
        size = len(next(iter(self._arrays.values())))
        if count <= size:
            return
        ids = np.arange(self.start, self.stop)
        wider = max(2 * size, count)
        for name, array in self._arrays.items():
            grown = np.zeros((wider, *array.shape[1:]), array.dtype)
            grown[ids % wider] = array[ids % size]
            self._arrays[name] = grown

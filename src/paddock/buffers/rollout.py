"""On-policy storage: one rollout of all copies, used once. Shapes are [T, B, ...]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from paddock.buffers.storage import observation_arrays, transition_arrays, transition_bytes
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.core.trees import map_tree

Batch = dict[str, Any]


class RolloutConfig(TargetSchema):
    """Options of a rollout buffer."""

    steps: int = Field(ge=1)

    def memory(self, spec: Spec, num_envs: int) -> int:
        """Bytes that the buffer takes."""
        return max(self.steps, num_envs) * (transition_bytes(spec) + 1)


class RolloutBuffer:
    """Preallocated arrays for `steps` decisions over all copies together.

    Observations are stored once, [T + 1, B, ...]: row t + 1 is what followed row t. Where an episode ended and the
    copy was reset in the same step, that row is already the next episode's; the true last observation is kept beside.
    `add` gives that row, for the actor to read and to hand in with the next transition: it is not copied then.
    """

    keeps_streams = True  # Columns hold one environment's steps each, in their order.
    is_on_policy = True  # All steps are of the policy that learns from them.

    def __init__(self, config: RolloutConfig, spec: Spec, num_envs: int) -> None:
        self.length = -(-config.steps // num_envs)
        self.num_envs = num_envs
        self._observation = observation_arrays(spec, self.length + 1, num_envs)
        self._arrays = transition_arrays(spec, self.length, num_envs)
        self._arrays["is_first"] = np.zeros((self.length, num_envs), bool)
        self._final_index = np.zeros((num_envs, 2), np.int64)
        self._final = {name: np.zeros((num_envs, *part.shape), part.dtype) for name, part in spec.observation.items()}
        self._finals = 0
        self.position = 0
        self._newest: dict[str, np.ndarray] | None = None  # the row at `position`, once it is written

    def add(self, transition: dict[str, Any]) -> dict[str, np.ndarray]:
        """Store one step of all copies; a full buffer that was not sampled starts anew. Returns the row of next
        observations, parts [B, ...]."""
        if self.position == self.length:
            self._clear()
        t = self.position
        if transition["observation"] is not self._newest:
            self._write_observation(t, transition["observation"])
        for name, array in self._arrays.items():
            array[t] = transition[name]
        if "final_rows" in transition:
            self._add_finals(t, transition["final_rows"], transition["final_observation"])
        self.position = t + 1
        self._newest = self._write_observation(t + 1, transition["next_observation"])
        return self._newest

    @property
    def room(self) -> int:
        """Steps that the next `add` or `add_columns` finds room for."""
        return self.length - self.position or self.length

    def add_columns(self, groups: Sequence[Mapping[str, Any]]) -> None:
        """Store T consecutive steps of all copies, given as chunks (`paddock.rollout.chunks`) of neighbouring copies;
        the same as T times `add`, with one copy of each array. T is at most `room`."""
        steps = len(groups[0]["reward"])
        assert steps <= self.room, f"{steps} steps, and room for {self.room}"
        if self.position == self.length:
            self._clear()
        t, column = self.position, 0
        index: list[np.ndarray] = []
        for group in groups:
            columns = slice(column, column + group["reward"].shape[1])
            for name, array in self._observation.items():
                array[t : t + steps + 1, columns] = group["observation"][name]
            for name, array in self._arrays.items():
                array[t : t + steps, columns] = group[name]
            index.append(group["final_index"] + [t, column])
            column = columns.stop
        finals = np.concatenate(index)
        order = np.lexsort((finals[:, 1], finals[:, 0]))
        start, stop = self._finals, self._finals + len(order)
        self._reserve(stop)
        self._final_index[start:stop] = finals[order]
        for name, array in self._final.items():
            array[start:stop] = np.concatenate([group["final_observation"][name] for group in groups])[order]
        self._finals, self.position, self._newest = stop, t + steps, None

    def can_sample(self) -> bool:
        return self.position == self.length

    def sample(self) -> Batch:
        """The whole rollout as tensors that share the buffer's memory, valid until the next `add`."""
        assert self.can_sample(), f"the rollout has {self.position} of {self.length} rows"
        batch: Batch = {name: torch.from_numpy(array) for name, array in self._arrays.items()}
        batch["observation"] = _tensors(self._observation)
        batch["final_index"] = torch.from_numpy(self._final_index[: self._finals])
        batch["final_observation"] = _tensors({name: array[: self._finals] for name, array in self._final.items()})
        self._clear()
        return batch

    def rows(self) -> Batch:
        """A copy of the rows filled so far, arrays [T, B, ...] with observations [T + 1, B, ...], and begin anew."""
        t, k = self.position, self._finals
        taken = {
            "observation": {name: array[: t + 1] for name, array in self._observation.items()},
            **{name: array[:t] for name, array in self._arrays.items()},
            "final_index": self._final_index[:k],
            "final_observation": {name: array[:k] for name, array in self._final.items()},
        }
        self._clear()
        return map_tree(np.copy, taken)

    def mark_discontinuity(self) -> None:
        """The environments start afresh: the newest row's successor is lost, so that row is not used."""
        if self.position:
            self._arrays["valid"][self.position - 1] = False

    def get_state(self) -> dict[str, Any]:
        """The rows filled so far."""
        t, k = self.position, self._finals
        state = {
            "observation": {name: array[: t + 1] for name, array in self._observation.items()},
            "arrays": {name: array[:t] for name, array in self._arrays.items()},
            "final_index": self._final_index[:k],
            "final": {name: array[:k] for name, array in self._final.items()},
        }
        return map_tree(np.copy, state)

    def set_state(self, state: dict[str, Any]) -> None:
        self._newest = None
        self.position = len(state["arrays"]["reward"])
        for name, array in state["observation"].items():
            self._observation[name][: len(array)] = array
        for name, array in state["arrays"].items():
            self._arrays[name][: len(array)] = array
        self._finals = 0
        index = state["final_index"]
        self._reserve(len(index))
        self._final_index[: len(index)] = index
        for name, array in state["final"].items():
            self._final[name][: len(index)] = array
        self._finals = len(index)

    def _clear(self) -> None:
        self.position = self._finals = 0
        self._newest = None

    def _write_observation(self, t: int, observation: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name, array in self._observation.items():
            array[t] = observation[name]
        return {name: array[t] for name, array in self._observation.items()}

    def _add_finals(self, t: int, rows: np.ndarray, observation: dict[str, np.ndarray]) -> None:
        start, stop = self._finals, self._finals + len(rows)
        self._reserve(stop)
        self._final_index[start:stop, 0] = t
        self._final_index[start:stop, 1] = rows
        for name, array in observation.items():
            self._final[name][start:stop] = array
        self._finals = stop

    def _reserve(self, count: int) -> None:
        while len(self._final_index) < count:
            self._final_index = np.concatenate([self._final_index, np.zeros_like(self._final_index)])
            self._final = {name: np.concatenate([array, np.zeros_like(array)]) for name, array in self._final.items()}


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}

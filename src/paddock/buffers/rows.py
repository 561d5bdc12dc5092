"""Experience as rows: one row an observation, the last one of an episode included, in a stream for each copy.

A row holds an `observation.<part>`, the `reward` that came with it (0 for an episode's first), the `action` taken
upon it (zeros for an episode's last), and the flags `is_first`, `terminated`, `truncated`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from paddock.core.specs import Spec

OBSERVATION = "observation."
Rows = dict[str, np.ndarray]


def row_fields(spec: Spec) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each field of a row."""
    return {
        **{f"{OBSERVATION}{name}": (part.shape, part.dtype) for name, part in spec.observation.items()},
        "action": (spec.action.shape, spec.action.dtype),
        "reward": ((), "float32"),
        "is_first": ((), "bool"),
        "terminated": ((), "bool"),
        "truncated": ((), "bool"),
    }


def nested(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with the parts of the observation gathered under `observation`."""
    batch = {name: value for name, value in rows.items() if not name.startswith(OBSERVATION)}
    parts = {name.removeprefix(OBSERVATION): value for name, value in rows.items() if name.startswith(OBSERVATION)}
    return {"observation": parts, **batch}


def as_transitions(windows: Mapping[str, Any]) -> dict[str, Any]:
    """Windows of two rows as transitions: the second row's observation, reward and flags are what followed."""
    first, second = ({name: part[:, at] for name, part in windows["observation"].items()} for at in (0, 1))
    flags = {name: windows[name][:, 1] for name in ("reward", "terminated", "truncated")}
    return {"observation": first, "action": windows["action"][:, 0], "next_observation": second, **flags}


def split_episodes(rows: Rows) -> Iterator[Rows]:
    """Rows of one episode after the other."""
    begins = np.flatnonzero(rows["is_first"])
    for start, stop in zip(begins, [*begins[1:], len(rows["is_first"])], strict=True):
        yield {name: values[start:stop] for name, values in rows.items()}


class RowBuilder:
    """Turns the vector steps that a collector gives into rows of single copies.

    A row is complete when the action taken upon it is known; the reward that came with it waits here meanwhile.
    """

    def __init__(self, spec: Spec, num_envs: int) -> None:
        self._no_action = np.zeros(spec.action.shape, spec.action.dtype)
        self._reward = np.zeros(num_envs, np.float32)
        self._is_first = np.ones(num_envs, bool)

    def build(self, transition: Mapping[str, Any]) -> list[tuple[np.ndarray, Rows]]:
        """One step of all copies as groups of (copies [K], rows [K, ...]): those acted upon, then last ones."""
        acting = np.flatnonzero(transition["valid"])
        no_end = np.zeros(len(acting), bool)
        rows = {f"{OBSERVATION}{name}": part[acting] for name, part in transition["observation"].items()}
        begins = self._is_first[acting]
        if "is_first" in transition:  # A stream may begin anew without an end: another worker's steps, say.
            begins = begins | transition["is_first"][acting]
        rows |= {
            "action": transition["action"][acting],
            "reward": np.where(begins, np.float32(0), self._reward[acting]),
            "is_first": begins,
            "terminated": no_end,
            "truncated": no_end,
        }
        groups = [(acting, rows)]
        ended = np.flatnonzero((transition["terminated"] | transition["truncated"]) & transition["valid"])
        if len(ended):
            groups.append((ended, self._last_rows(transition, ended)))
        self._reward[acting] = transition["reward"][acting]
        self._is_first[acting] = False
        self._reward[ended] = 0
        self._is_first[ended] = True
        return groups

    def restart(self) -> None:
        """Whatever comes next begins new episodes."""
        self._reward[:] = 0
        self._is_first[:] = True

    def get_state(self) -> dict[str, np.ndarray]:
        return {"reward": self._reward.copy(), "is_first": self._is_first.copy()}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        self._reward[:] = state["reward"]
        self._is_first[:] = state["is_first"]

    def _last_rows(self, transition: Mapping[str, Any], ended: np.ndarray) -> Rows:
        if "final_rows" in transition:  # The copies were reset in the same step.
            chosen = np.searchsorted(transition["final_rows"], ended)
            final = {name: part[chosen] for name, part in transition["final_observation"].items()}
        else:
            final = {name: part[ended] for name, part in transition["next_observation"].items()}
        rows = {f"{OBSERVATION}{name}": part for name, part in final.items()}
        terminated = transition["terminated"][ended]
        return rows | {
            "action": np.broadcast_to(self._no_action, (len(ended), *self._no_action.shape)),
            "reward": transition["reward"][ended].astype(np.float32),
            "is_first": np.zeros(len(ended), bool),
            "terminated": terminated,
            "truncated": transition["truncated"][ended] & ~terminated,
        }


class RingStorage:
    """Rows in memory: an array [B, rows, ...] a field, written around. Row numbers only grow, for each copy apart."""

    def __init__(self, fields: Mapping[str, tuple[tuple[int, ...], str]], rows: int, num_envs: int) -> None:
        self.rows = rows
        self.arrays = {name: np.zeros((num_envs, rows, *shape), dtype) for name, (shape, dtype) in fields.items()}
        # The same memory with copies and rows as one axis: windows are then one `take` a field.
        self._flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in self.arrays.items()}

    def write(self, copies: np.ndarray, numbers: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        """Put rows [K, ...] at the given row numbers [K] of the given copies [K]."""
        places = numbers % self.rows
        for name, values in rows.items():
            self.arrays[name][copies, places] = values

    def read(self, copies: np.ndarray, numbers: np.ndarray, names: list[str] | None = None) -> Rows:
        """Rows of any shape: `copies` and `numbers` are broadcast against each other."""
        places = copies * self.rows + numbers % self.rows
        return {name: self._flat[name].take(places, 0) for name in names or self._flat}

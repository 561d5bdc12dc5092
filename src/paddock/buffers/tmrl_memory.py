"""A `Memory` of TMRL's shape as a buffer: whole episodes of samples in, batches of its own making out.

A sample is `(action, observation, reward, terminated, truncated, info)`, the action being the one that led to the
observation; an episode begins with the sample of its reset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import Field

from paddock.config.schema import TargetSchema, load_target
from paddock.core.errors import InputError
from paddock.core.specs import Spec
from paddock.core.tuples import as_tuple, order_of

METHODS = ("append_buffer", "__len__", "sample")


class TmrlMemoryConfig(TargetSchema):
    """kind: `module:Class`. arguments: beyond `nb_steps` and `device`. observation_order: of the tuple's parts; null as
    they are. min_samples: of the memory's length before it is drawn from."""

    kind: str = Field(pattern=r"^[\w.]+:\w+$")
    arguments: dict[str, Any] = Field(default_factory=dict)
    observation_order: list[str] | None = None
    device: str = "cpu"
    min_samples: int = Field(default=1, ge=1)


@dataclass
class SampleBuffer:
    """What a memory's `append_buffer` gets: TMRL's `Buffer`."""

    memory: list[tuple[Any, ...]] = field(default_factory=list)
    stat_train_return: float = 0.0
    stat_train_steps: int = 0
    stat_test_return: float = 0.0
    stat_test_steps: int = 0

    def __len__(self) -> int:
        return len(self.memory)


class TmrlMemory:
    """The person's memory, and the samples of the episodes under way, one list for each environment."""

    def __init__(self, config: TmrlMemoryConfig, spec: Spec, num_envs: int) -> None:
        self.config, self.spec, self.num_envs = config, spec, num_envs
        self.order = order_of(spec, config.observation_order)
        kind = load_target(config.kind.replace(":", "."))
        if missing := [name for name in METHODS if not callable(getattr(kind, name, None))]:
            raise InputError(f"'{config.kind}' has no {', no '.join(missing)}, which TMRL's memories have.")
        self.memory = kind(nb_steps=1, device=config.device, **config.arguments)
        self._episodes: list[list[tuple[Any, ...]]] = [[] for _ in range(num_envs)]
        low, high = spec.action.bounds()
        self._default = np.clip(np.zeros(spec.action.shape, np.float32), low, high)
        is_bounded = spec.action.low is not None and spec.action.high is not None
        self._center: Any = (high + low) / 2 if is_bounded else 0.0
        self._reach: Any = (high - low) / 2 if is_bounded else 1.0
        self._is_bounded = is_bounded

    def add(self, transition: dict[str, Any]) -> None:
        """Keep one step of all environments; an episode goes to the memory when it ends."""
        finals = {int(row): place for place, row in enumerate(transition.get("final_rows", ()))}
        actions = np.clip(transition["action"], -1, 1) if self._is_bounded else transition["action"]
        for index in range(self.num_envs):
            if not transition["valid"][index]:
                continue
            episode = self._episodes[index]
            if transition["is_first"][index]:
                self._close(index, cut=True)
                episode = self._episodes[index]
                episode.append(
                    (self._default.copy(), self._entries(transition["observation"], index), 0.0, False, False, {})
                )
            ended = (bool(transition["terminated"][index]), bool(transition["truncated"][index]))
            source, row = (
                (transition["final_observation"], finals[index])
                if index in finals
                else (transition["next_observation"], index)
            )
            action = (actions[index] * self._reach + self._center).astype(np.float32)
            episode.append((action, self._entries(source, row), float(transition["reward"][index]), *ended, {}))
            if any(ended):
                self._close(index, cut=False)

    def can_sample(self) -> bool:
        return len(self.memory) >= self.config.min_samples

    def sample(self) -> dict[str, Any]:
        """The memory's own batch, below the name `samples`."""
        return {"samples": self.memory.sample()}

    def mark_discontinuity(self) -> None:
        """Episodes under way end here: their last sample is truncated."""
        for index in range(self.num_envs):
            self._close(index, cut=True)

    def get_state(self) -> dict[str, Any]:
        """The columns of the memory's `data`, or what its own `get_state()` gives; and the episodes under way."""
        if hasattr(self.memory, "get_state") and hasattr(self.memory, "set_state"):
            kept = {"own": self.memory.get_state()}
        else:
            kept = {"data": [_packed(column) for column in self.memory.data]}
        return {"memory": kept, "episodes": [[_packed(list(one[:5])) for one in rows] for rows in self._episodes]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what `get_state` gave."""
        if "own" in state["memory"]:
            self.memory.set_state(state["memory"]["own"])
        else:
            self.memory.data = [_unpacked(column) for column in state["memory"]["data"]]
        self._episodes = [[(*_unpacked(one), {}) for one in rows] for rows in state["episodes"]]

    def _entries(self, observation: dict[str, np.ndarray], row: int) -> tuple[np.ndarray, ...]:
        parts = {name: np.array(observation[name][row]) for name in self.order}
        return as_tuple(parts, self.spec, self.order)

    def _close(self, index: int, *, cut: bool) -> None:
        episode, self._episodes[index] = self._episodes[index], []
        if len(episode) < 2:
            return
        if cut:
            episode[-1] = (*episode[-1][:4], True, episode[-1][5])
        rewards = sum(sample[2] for sample in episode)
        buffer = SampleBuffer(episode, float(rewards), len(episode) - 1)
        append = getattr(self.memory, "append", self.memory.append_buffer)
        append(buffer)


def _packed(column: Any) -> Any:
    """A list of numbers or arrays as one array where they are alike; tuples one by one; dictionaries are left out."""
    if isinstance(column, list) and column and len({_kind(one) for one in column}) == 1:
        if isinstance(column[0], bool | int | float):
            return {"numbers": np.asarray(column)}
        if isinstance(column[0], np.ndarray):
            return {"arrays": np.stack(column)}
    if isinstance(column, list | tuple):
        return {type(column).__name__: [_packed(one) for one in column]}
    if isinstance(column, dict):
        return {"dictionary": None}
    if isinstance(column, np.ndarray | bool | int | float | str | np.generic) or column is None:
        return {"value": column.item() if isinstance(column, np.generic) else column}
    raise InputError(
        f"a memory holds a {type(column).__name__}, which a checkpoint cannot; give its class get_state() and "
        "set_state(state)."
    )


def _kind(value: Any) -> Any:
    return (type(value), value.shape, value.dtype) if isinstance(value, np.ndarray) else type(value)


def _unpacked(packed: Any) -> Any:
    ((kind, value),) = packed.items()
    if kind == "numbers":
        return value.tolist()
    if kind == "arrays":
        return list(value)
    if kind in ("list", "tuple"):
        made = [_unpacked(one) for one in value]
        return tuple(made) if kind == "tuple" else made
    return {} if kind == "dictionary" else value

"""Histories of observations with the chunks of actions that follow them: what policies over chunks are cloned from.

Shapes: B samples, H observations (oldest first), T actions, K rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from paddock.buffers.action_range import to_policy
from paddock.buffers.demonstrations import load_episodes
from paddock.buffers.episodes import Episode, rows_of
from paddock.buffers.rows import OBSERVATION
from paddock.buffers.segments import Segment
from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.config.schema import Part, TargetSchema, instantiate
from paddock.core.errors import InputError
from paddock.core.specs import Spec

Batch = dict[str, Any]
Span = tuple[Tensor, Tensor]
FLAGS = ["episode", "terminated", "truncated"]


class ActionChunkConfig(TargetSchema):
    """Options of a buffer of chunks.

    sources: folders of demonstrations or recordings, or `minari:<dataset>`. demonstrator: a script that makes
    demonstrations, `make(config, spec)` to episodes as arrays by name. episodes: only the first so many. validation:
    share of those episodes that is never learned from. capacity: rows that are collected beside them; the oldest go
    first; segment_steps of them are a file of a checkpoint. label: the part of the observation that holds what a
    teacher would do, which is then learned in place of the action that was taken.
    """

    sources: list[str] = Field(default_factory=list)
    demonstrator: Part | None = None
    episodes: int | None = Field(default=None, ge=1)
    validation: float = Field(default=0.1, ge=0, lt=1)
    batch_size: int = Field(ge=1)
    history: int = Field(ge=1)
    horizon: int = Field(ge=1)
    capacity: int = Field(default=0, ge=0)
    label: str | None = None
    segment_steps: int = Field(default=32_768, ge=1)

    @model_validator(mode="after")
    def _check(self) -> ActionChunkConfig:
        if not self.sources and self.demonstrator is None and not self.capacity:
            raise ValueError(
                "there is nothing to learn from: give sources, such as buffers.demonstrations.sources=[FOLDER] of "
                "`paddock record`, or a capacity for what is collected"
            )
        return self


class ActionChunkBuffer:
    """Demonstrations of the sources, and what is collected. Every step with an action is equally likely.

    A batch has `observation` parts [B, H, ...], `action` [B, T, ...] in the policy's range and `is_padding` bool
    [B, T]. Before an episode's first row its first observation is repeated, after its last action that action, marked
    as padding.
    """

    def __init__(self, config: ActionChunkConfig, spec: Spec, num_envs: int) -> None:
        self.config, self.spec = config, spec
        if config.label is not None and config.label not in spec.observation:
            spec.only([config.label])  # Its error lists the parts that there are.
        self.episodes = _episodes(config, spec)[: config.episodes]
        if config.sources and not self.episodes:
            raise InputError(f"there is not one whole episode in {', '.join(config.sources)}.")
        self._shown = self._load() if self.episodes else None
        self._collected = self._storage(config.capacity, num_envs) if config.capacity else None
        self._learned, self._held_out = self._split()

    def __len__(self) -> int:
        """Rows, the last one of each episode included."""
        return sum(len(one) for one in (self._shown, self._collected) if one is not None)

    def add(self, transition: Mapping[str, Any]) -> None:
        """Store one step of all copies."""
        if self._collected is None:
            raise InputError("this buffer takes no new experience; give it a capacity: buffers.<name>.capacity.")
        self._collected.add(transition)

    def add_episode(self, episode: Episode) -> None:
        """Store a whole episode beside what is collected, in the first copy's stream."""
        assert self._collected is not None, "a buffer without a capacity"
        self._collected.extend(0, _rows_to_learn(episode, self.spec))

    def can_sample(self) -> bool:
        return bool(len(self._learned)) or (self._collected is not None and len(self._collected) > 1)

    def sample(self, batch: int | None = None) -> Batch:
        """`batch_size` or `batch` samples of what is learned from, as tensors."""
        count = batch or self.config.batch_size
        collected = 0 if self._collected is None else len(self._collected)
        total = len(self._learned) + collected
        from_collected = int((torch.rand(count) * total < collected).sum()) if collected else 0
        parts = []
        if from_collected < count:
            drawn = torch.randint(len(self._learned), (count - from_collected,)).numpy()
            parts.append(self._windows(self._shown, np.zeros(len(drawn), np.int64), self._learned[drawn]))
        if from_collected:
            parts.append(self._windows(self._collected, *self._draw(from_collected)))
        return parts[0] if len(parts) == 1 else _joined(parts)

    def sample_validation(self, batch: int, generator: torch.Generator | None = None) -> Batch | None:
        """Samples of the episodes that are never learned from; None where there are none."""
        if not len(self._held_out):
            return None
        drawn = torch.randint(len(self._held_out), (batch,), generator=generator).numpy()
        return self._windows(self._shown, np.zeros(batch, np.int64), self._held_out[drawn])

    def spans(self) -> tuple[dict[str, Span], Span]:
        """Least and greatest of each observed number, by part, and of each number of an action as the policy has it."""
        observation: dict[str, Span] = {}
        for name, part in self.spec.observation.items():
            if part.dtype.startswith("float"):
                observation[name] = self._span(f"{OBSERVATION}{name}")
        return observation, self._span(self._action_field())

    def deviations(self) -> dict[str, Span]:
        """One standard deviation below and above the mean of each observed number, by part."""
        found: dict[str, Span] = {}
        for name, part in self.spec.observation.items():
            if part.dtype.startswith("float"):
                values = np.concatenate(list(self._values(f"{OBSERVATION}{name}"))).astype(np.float64)
                mean, std = values.mean(0), values.std(0)
                found[name] = (torch.from_numpy(mean - std).float(), torch.from_numpy(mean + std).float())
        return found

    def mark_discontinuity(self) -> None:
        if self._collected is not None:
            self._collected.mark_discontinuity()

    def get_state(self) -> dict[str, Any]:
        """How much was demonstrated, which lies at its sources, and what was collected."""
        shown = 0 if self._shown is None else len(self._shown)
        return {"shown": shown, "collected": None if self._collected is None else self._collected.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        shown = 0 if self._shown is None else len(self._shown)
        if state["shown"] != shown:
            raise InputError(
                f"the run learned from {state['shown']} rows of {', '.join(self.config.sources)}, now there are "
                f"{shown}; a resumed run needs the same data."
            )
        if self._collected is not None:
            self._collected.set_state(state["collected"])

    def segments(self) -> list[Segment]:
        return [] if self._collected is None else self._collected.segments()

    def load_segment(self, tree: Any) -> None:
        assert self._collected is not None
        self._collected.load_segment(tree)

    def _load(self) -> SequenceBuffer:
        storage = self._storage(sum(len(episode) + 1 for episode in self.episodes), 1)
        for episode in self.episodes:
            storage.extend(0, _rows_to_learn(episode, self.spec))
        return storage

    def _storage(self, capacity: int, num_envs: int) -> SequenceBuffer:
        settings = SequenceConfig(
            _target_="paddock.buffers.sequence.SequenceBuffer",
            capacity=capacity,
            batch_size=self.config.batch_size,
            length=1,
            segment_steps=self.config.segment_steps,
        )
        return SequenceBuffer(settings, self.spec, num_envs)

    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers [K] of demonstrated rows with an action: those to learn from, those held out."""
        lengths = np.array([len(episode) for episode in self.episodes], np.int64)
        first = np.concatenate([[0], (lengths + 1).cumsum()[:-1]]) if len(lengths) else lengths
        numbers = [np.arange(begin, begin + length) for begin, length in zip(first, lengths, strict=True)]
        # Held out are episodes that lie evenly among all of them.
        turns = np.floor(np.arange(len(lengths) + 1) * self.config.validation)
        is_held_out = np.diff(turns) > 0
        chosen = [[one for one, held in zip(numbers, is_held_out, strict=True) if held == wanted] for wanted in (0, 1)]
        learned, held_out = (np.concatenate(one) if one else np.zeros(0, np.int64) for one in chosen)
        return learned, held_out

    def _draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Copies and numbers [B] of collected rows that have an action."""
        storage = self._collected
        assert storage is not None
        counts = storage.totals - storage.oldest
        ends = counts.cumsum()
        copies, numbers = np.zeros(count, np.int64), np.zeros(count, np.int64)
        wanted = np.arange(count)
        while len(wanted):
            drawn = torch.randint(int(ends[-1]), (len(wanted),)).numpy()
            copies[wanted] = np.searchsorted(ends, drawn, side="right")
            numbers[wanted] = drawn - (ends - counts)[copies[wanted]] + storage.oldest[copies[wanted]]
            found = storage.read(copies[wanted], numbers[wanted], FLAGS[1:])
            wanted = wanted[found["terminated"] | found["truncated"]]
        return copies, numbers

    def _windows(self, storage: SequenceBuffer | None, copies: np.ndarray, numbers: np.ndarray) -> Batch:
        """The samples around rows [B] of copies [B]."""
        assert storage is not None
        history, horizon = self.config.history, self.config.horizon
        places = numbers[:, None] + np.arange(1 - history, horizon)
        inside = np.clip(places, storage.oldest[copies][:, None], storage.totals[copies][:, None] - 1)
        flags = storage.read(copies[:, None], inside, FLAGS)
        is_same = (flags["episode"] == flags["episode"][:, history - 1 : history]) & (inside == places)
        before = np.maximum(is_same[:, :history].argmax(1)[:, None], np.arange(history))
        has_action = is_same & ~(flags["terminated"] | flags["truncated"])
        usable = np.logical_and.accumulate(has_action[:, history - 1 :], 1)
        after = np.minimum(np.arange(horizon), usable.sum(1)[:, None] - 1)
        names = [f"{OBSERVATION}{name}" for name in self.spec.observation if name != self.config.label]
        seen = storage.read(copies[:, None], numbers[:, None] + before - history + 1, names)
        field = self._action_field()
        actions = storage.read(copies[:, None], numbers[:, None] + after, [field])[field]
        return {
            "observation": {name.removeprefix(OBSERVATION): torch.from_numpy(seen[name]) for name in names},
            "action": torch.from_numpy(actions),
            "is_padding": torch.from_numpy(~usable),
        }

    def _action_field(self) -> str:
        return "action" if self.config.label is None else f"{OBSERVATION}{self.config.label}"

    def _span(self, field: str) -> Span:
        lows, highs = zip(*((values.min(0), values.max(0)) for values in self._values(field)), strict=True)
        return torch.from_numpy(np.min(lows, 0)), torch.from_numpy(np.max(highs, 0))

    def _values(self, field: str) -> Iterator[np.ndarray]:
        """Numbers [K, ...] of all rows with an action, copy after copy."""
        for storage in (self._shown, self._collected):
            for copy in range(0 if storage is None or not len(storage) else storage.num_envs):
                assert storage is not None
                numbers = np.arange(storage.oldest[copy], storage.totals[copy])
                found = storage.read(np.array(copy), numbers, [field, *FLAGS[1:]])
                values = found[field][~(found["terminated"] | found["truncated"])]
                if len(values):
                    yield values


def _episodes(config: ActionChunkConfig, spec: Spec) -> list[Episode]:
    """All that was demonstrated: read from the sources, then made by the script."""
    read = [episode for source in config.sources for episode in load_episodes(source, spec)]
    made = [] if config.demonstrator is None else instantiate(config.demonstrator, spec)
    return [*read, *(Episode(**arrays) for arrays in made)]


def _rows_to_learn(episode: Episode, spec: Spec) -> dict[str, np.ndarray]:
    """An episode as rows whose actions are those that imitation learns."""
    action = to_policy(episode.targets, spec.action)
    return {**rows_of(episode, spec), "action": np.concatenate([action, np.zeros_like(action[:1])])}


def _joined(parts: list[Batch]) -> Batch:
    """Samples of several batches, one after the other."""
    first = parts[0]
    return {
        "observation": {name: torch.cat([one["observation"][name] for one in parts]) for name in first["observation"]},
        **{name: torch.cat([one[name] for one in parts]) for name in ("action", "is_padding")},
    }

"""What a worker collects, chunk by chunk: steps in a row, names of their episodes, means of those that ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
from paddock.core.specs import Spec
from paddock.rollout.chunks import Chunk
from paddock.rollout.result import CollectResult


class Recorder:
    """A `TransitionSink` that hands out everything since the last time as a chunk."""

    def __init__(self, spec: Spec, num_envs: int, length: int) -> None:
        self.length = length
        self._spec, self._num_envs = spec, num_envs
        self._rows = self._make_rows()
        self._episodes, self._steps = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self._continues = False
        self._begin()

    def __len__(self) -> int:
        """Vector steps that wait."""
        return self._rows.position

    def add(self, transition: dict[str, Any]) -> dict[str, np.ndarray]:
        assert self._rows.position < self.length, "take what was recorded before there is no room for more"
        return self._rows.add(transition)

    def count(self, result: CollectResult) -> None:
        """Note what a round of collecting said of its episodes."""
        self._env_frames += result.extras.get("env_frames", result.steps)
        self._ended += result.episodes
        if result.episodes:
            for name, value in result.metrics.items():
                total, weight = self._sums.get(name, (0.0, 0))
                self._sums[name] = (total + value * result.episodes, weight + result.episodes)

    def take(self) -> tuple[Chunk, dict[str, Any]]:
        """The chunk since the last time, and the fields of a ChunkNote beside its arrays."""
        chunk = self._rows.rows()
        note = {
            "continues": self._continues,
            "episodes": self._episodes.tolist(),
            "steps": self._steps.tolist(),
            "ended": self._ended,
            "metrics": {name: total / weight for name, (total, weight) in self._sums.items() if weight},
            "env_frames": self._env_frames,
        }
        self._advance(chunk)
        self._continues = True
        self._begin()
        return chunk, note

    def resize(self, length: int) -> None:
        """Chunks of another length from here on; nothing may wait."""
        assert not len(self), "take what was recorded first"
        self.length = length
        self._rows = self._make_rows()

    def _make_rows(self) -> RolloutBuffer:
        config = RolloutConfig(_target_="", steps=self.length * self._num_envs)
        return RolloutBuffer(config, self._spec, self._num_envs)

    def _begin(self) -> None:
        self._ended = self._env_frames = 0
        self._sums: dict[str, tuple[float, int]] = {}

    def _advance(self, chunk: Chunk) -> None:
        """Which episode and step of it comes next, in each environment."""
        done = (chunk["terminated"] | chunk["truncated"]) & chunk["valid"]
        # Steps since the last end: those after it in reversed order, before the first end.
        since = (np.cumsum(done[::-1], 0)[::-1] == 0) & chunk["valid"]
        ended = done.any(0)
        self._steps = np.where(ended, 0, self._steps) + since.sum(0)
        self._episodes = self._episodes + done.sum(0)

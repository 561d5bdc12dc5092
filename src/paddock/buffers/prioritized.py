"""Replay of what surprised most (arXiv:1511.05952, proportional variant): a uniform buffer beside a sum tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from paddock.buffers.sum_tree import SumTree
from paddock.buffers.uniform import Batch, UniformBuffer, UniformConfig
from paddock.core.specs import Spec


class PrioritizedConfig(UniformConfig):
    """Options of a prioritized replay buffer."""

    alpha: float = Field(default=0.6, ge=0)
    eps: float = Field(default=1e-6, gt=0)

    def memory(self, spec: Spec, num_envs: int) -> int:
        return super().memory(spec, num_envs) + self.capacity * 9  # a leaf of the tree, and its part of the nodes


class PrioritizedBuffer(UniformBuffer):
    """Draws a transition with a chance in proportion to (|error| + eps) ** alpha.

    A new transition gets the highest priority seen so far, so that it is likely to be replayed at least once. A batch
    also holds `index`, to give errors back with, and `probability`, for importance weights.
    """

    config: PrioritizedConfig

    def __init__(self, config: PrioritizedConfig, spec: Spec, num_envs: int) -> None:
        super().__init__(config, spec, num_envs)
        self._tree = SumTree(self.rows * num_envs)
        self._highest = 1.0
        self._copies = np.arange(num_envs)

    def add(self, transition: dict[str, Any]) -> None:
        super().add(transition)
        row = (self.total - 1) % self.rows
        self._tree.assign(row * self.num_envs + self._copies, transition["valid"] * self._highest)

    def can_sample(self) -> bool:
        return super().can_sample() and self._tree.total > 0

    def sample(self, batch: int | None = None) -> Batch:
        """`batch_size` or `batch` transitions [N, ...], one from each of as many equal shares of all priority."""
        count, total = batch or self.config.batch_size, self._tree.total
        heights = (np.arange(count) + torch.rand(count, dtype=torch.float64).numpy()) * (total / count)
        index = self._tree.find(heights)
        places, copies = np.divmod(index, self.num_envs)
        found = self.gather(self.oldest + (places - self.oldest) % self.rows, copies)
        found["index"] = torch.from_numpy(index)
        found["probability"] = torch.from_numpy((self._tree[index] / total).astype(np.float32))
        return found

    def update_priorities(self, index: Tensor, error: Tensor) -> None:
        """Tell how large the errors [N] of the transitions `index` [N] were."""
        own = index >= 0  # Demonstrations that were mixed into a batch have no priority here.
        index, error = index[own], error[own.to(error.device)]
        # Single precision, as it is saved: a resumed run goes on with the same bits.
        surprise = error.abs().add(self.config.eps).pow(self.config.alpha).cpu().numpy().astype(np.float32)
        self._highest = max(self._highest, float(surprise.max()))
        self._tree.assign(index.cpu().numpy(), surprise.astype(np.float64))

    def get_state(self) -> dict[str, Any]:
        filled = min(self.total, self.rows) * self.num_envs
        priority = self._tree[slice(filled)].astype(np.float32)
        return {**super().get_state(), "priority": priority, "highest": self._highest}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._tree.fill(state["priority"])
        self._highest = state["highest"]

    def _open_rows(self, rows: np.ndarray) -> None:
        super()._open_rows(rows)
        self._tree.assign(self._leaves(rows), np.zeros(len(rows) * self.num_envs))

    def _add_steps(self, steps: Mapping[str, Any], start: int, stop: int) -> None:
        super()._add_steps(steps, start, stop)
        rows = np.arange(self.total - (stop - start), self.total) % self.rows
        self._tree.assign(self._leaves(rows), steps["valid"][start:stop].reshape(-1) * self._highest)

    def _leaves(self, rows: np.ndarray) -> np.ndarray:
        """Of all copies of the places [T], in their order."""
        return (rows[:, None] * self.num_envs + self._copies).reshape(-1)

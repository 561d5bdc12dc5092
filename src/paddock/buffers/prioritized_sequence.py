"""Replay of sequences that surprised most: a sequence buffer beside a sum tree over the windows' first rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from paddock.buffers.sequence import Batch, SequenceBuffer, SequenceConfig
from paddock.buffers.sum_tree import SumTree
from paddock.core.specs import Spec


class PrioritizedSequenceConfig(SequenceConfig):
    """Options of a prioritized sequence buffer."""

    crosses_episodes: bool = False
    alpha: float = Field(default=0.6, ge=0)
    eps: float = Field(default=1e-6, gt=0)

    def memory(self, spec: Spec, num_envs: int) -> int:
        return super().memory(spec, num_envs) + self.capacity * 9  # a leaf of the tree, and its part of the nodes


class PrioritizedSequenceBuffer(SequenceBuffer):
    """Draws a window with a chance in proportion to (|error| + eps) ** alpha of its first row.

    A row may begin a window as soon as the window's last row is there, in the same episode unless windows may cross;
    it then has the highest priority so far. A batch also holds `leaf` [B], to give errors back with, and
    `probability` [B], for importance weights.
    """

    config: PrioritizedSequenceConfig

    def __init__(self, config: PrioritizedSequenceConfig, spec: Spec, num_envs: int) -> None:
        super().__init__(config, spec, num_envs)
        self._tree = SumTree(self.rows * num_envs)
        self._highest = 1.0

    def add(self, transition: Mapping[str, Any]) -> None:
        before = self.totals.copy()
        super().add(transition)
        for copy in np.flatnonzero(self.totals > before):
            self._admit(int(copy), np.arange(before[copy], self.totals[copy]))

    def extend(self, copy: int, rows: Mapping[str, np.ndarray]) -> None:
        before = int(self.totals[copy])
        super().extend(copy, rows)
        self._admit(copy, np.arange(max(before, int(self.oldest[copy])), self.totals[copy]))

    def can_sample(self) -> bool:
        return super().can_sample() and self._tree.total > 0

    def sample(
        self, batch: int | None = None, length: int | None = None, generator: torch.Generator | None = None
    ) -> Batch:
        """`batch_size` windows, one from each of as many equal shares of all priority, as tensors [B, T, ...]."""
        count, total = batch or self.config.batch_size, self._tree.total
        luck = torch.rand(count, dtype=torch.float64, generator=generator).numpy()
        leaves = self._tree.find((np.arange(count) + luck) * (total / count))
        copies, places = np.divmod(leaves, self.rows)
        oldest = self.oldest[copies]
        found = self.gather(copies, oldest + (places - oldest) % self.rows, length or self.config.length)
        found["leaf"] = torch.from_numpy(leaves)
        found["probability"] = torch.from_numpy((self._tree[leaves] / total).astype(np.float32))
        return found

    def update_priorities(self, leaf: Tensor, error: Tensor) -> None:
        """Tell how large the errors [B] of the windows `leaf` [B] were."""
        own = leaf >= 0  # Demonstrations that were mixed into a batch have no priority here.
        leaf, error = leaf[own], error[own.to(error.device)]
        # Single precision, as it is saved: a resumed run goes on with the same bits.
        surprise = error.abs().add(self.config.eps).pow(self.config.alpha).cpu().numpy().astype(np.float32)
        self._highest = max(self._highest, float(surprise.max()))
        self._tree.assign(leaf.cpu().numpy(), surprise.astype(np.float64))

    def get_state(self) -> dict[str, Any]:
        priority = self._tree[slice(self.rows * self.num_envs)].astype(np.float32)
        return {**super().get_state(), "priority": priority, "highest": self._highest}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._tree.fill(state["priority"])
        self._highest = state["highest"]

    def _admit(self, copy: int, numbers: np.ndarray) -> None:
        """Rows [K] of a copy are new: what they took the place of begins no window, and theirs may be complete now."""
        self._tree.assign(copy * self.rows + numbers % self.rows, np.zeros(len(numbers)))
        length = self.config.length
        starts = numbers - length + 1
        starts = starts[starts >= self.oldest[copy]]
        if not self.config.crosses_episodes and len(starts):
            starts = starts[self._is_whole(np.full(len(starts), copy), starts, length)]
        self._tree.assign(copy * self.rows + starts % self.rows, np.full(len(starts), self._highest))

"""Numbers that can be changed one by one and drawn in proportion to their size, both in logarithmic time."""

from __future__ import annotations

import numpy as np
from numba import njit


class SumTree:
    """A binary tree whose leaves are priorities and whose nodes are the sums of their children.

    A node is always recomputed from its two children, never adjusted by a difference: the tree depends on its leaves
    alone, so that one rebuilt from a checkpoint draws exactly as the one that was saved.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._half = 1 << max(size - 1, 0).bit_length()
        self._nodes = np.zeros(2 * self._half)

    @property
    def total(self) -> float:
        return float(self._nodes[1])

    def __getitem__(self, leaves: np.ndarray | slice) -> np.ndarray:
        return self._nodes[self._half : self._half + self.size][leaves]

    def assign(self, leaves: np.ndarray, values: np.ndarray) -> None:
        """Set leaves [K] to values [K]; of one that is named twice the later value counts."""
        _assign(self._nodes, leaves, values)

    def fill(self, values: np.ndarray) -> None:
        """Set the first leaves to `values` and all others to zero."""
        self._nodes[:] = 0
        self._nodes[self._half : self._half + len(values)] = values
        _sum_up(self._nodes)

    def find(self, heights: np.ndarray) -> np.ndarray:
        """The leaves [K] that lie at these heights [K], from 0 to `total`, when all are stacked in order."""
        return _find(self._nodes, heights)


@njit(cache=True)
def _assign(nodes: np.ndarray, leaves: np.ndarray, values: np.ndarray) -> None:
    half = nodes.size // 2
    for index in range(leaves.size):
        node = half + leaves[index]
        nodes[node] = values[index]
        node //= 2
        while node >= 1:
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]
            node //= 2


@njit(cache=True)
def _sum_up(nodes: np.ndarray) -> None:
    for node in range(nodes.size // 2 - 1, 0, -1):
        nodes[node] = nodes[2 * node] + nodes[2 * node + 1]


@njit(cache=True)
def _find(nodes: np.ndarray, heights: np.ndarray) -> np.ndarray:
    half = nodes.size // 2
    found = np.empty(heights.size, np.int64)
    for index in range(heights.size):
        node, height = 1, heights[index]
        while node < half:
            node *= 2
            # Rounding may put a height just beyond the last leaf that weighs anything; an empty side is never entered.
            if height >= nodes[node] and nodes[node + 1] > 0:
                height -= nodes[node]
                node += 1
        found[index] = node - half
    return found

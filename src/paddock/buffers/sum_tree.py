"""Numbers that can be changed one by one and drawn in proportion to their size, both in logarithmic time."""

from __future__ import annotations

import numpy as np
from numba import njit

FAN = 16  # children of a node: two lines of a processor's cache, so that a step down costs one wait for memory


class SumTree:
    """A tree whose leaves are priorities and whose nodes are the sums of their children.

    A node is always recomputed from its children, never adjusted by a difference: the tree depends on its leaves
    alone, so that one rebuilt from a checkpoint draws exactly as the one that was saved.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        sizes = [-(-size // FAN) * FAN]
        while sizes[-1] > FAN:
            sizes.append(-(-sizes[-1] // FAN // FAN) * FAN)
        # Leaves first; level l begins at starts[l] and child c of a level belongs to node c // FAN of the next.
        self._starts = np.cumsum([0, *sizes])
        self._nodes = np.zeros(self._starts[-1])

    @property
    def total(self) -> float:
        return float(self._nodes[self._starts[-2] :].sum())

    def __getitem__(self, leaves: np.ndarray | slice) -> np.ndarray:
        return self._nodes[: self.size][leaves]

    def assign(self, leaves: np.ndarray, values: np.ndarray) -> None:
        """Set leaves [K] to values [K]; of one that is named twice the later value counts."""
        _assign(self._nodes, self._starts, leaves, values)

    def fill(self, values: np.ndarray) -> None:
        """Set the first leaves to `values` and all others to zero."""
        self._nodes[:] = 0
        self._nodes[: len(values)] = values
        _sum_up(self._nodes, self._starts)

    def find(self, heights: np.ndarray) -> np.ndarray:
        """The leaves [K] that lie at these heights [K], from 0 to `total`, when all are stacked in order."""
        return _find(self._nodes, self._starts, heights)


@njit(cache=True)
def _sum_children(nodes: np.ndarray, first: int) -> float:
    total = 0.0
    for child in range(first, first + FAN):
        total += nodes[child]
    return total


@njit(cache=True)
def _assign(nodes: np.ndarray, starts: np.ndarray, leaves: np.ndarray, values: np.ndarray) -> None:
    for index in range(leaves.size):
        place = leaves[index]
        nodes[place] = values[index]
        for level in range(1, starts.size - 1):
            place //= FAN
            nodes[starts[level] + place] = _sum_children(nodes, starts[level - 1] + place * FAN)


@njit(cache=True)
def _sum_up(nodes: np.ndarray, starts: np.ndarray) -> None:
    for level in range(1, starts.size - 1):
        for place in range((starts[level] - starts[level - 1]) // FAN):
            nodes[starts[level] + place] = _sum_children(nodes, starts[level - 1] + place * FAN)


@njit(cache=True)
def _find(nodes: np.ndarray, starts: np.ndarray, heights: np.ndarray) -> np.ndarray:
    found = np.empty(heights.size, np.int64)
    for index in range(heights.size):
        place, height = 0, heights[index]
        for level in range(starts.size - 2, -1, -1):
            first = starts[level] + place * FAN
            chosen = 0
            for child in range(FAN):
                weight = nodes[first + child]
                # Rounding may put a height just beyond all children; an empty one is never entered.
                if weight > 0:
                    chosen = child
                    if height < weight:
                        break
                    height -= weight
            place = place * FAN + chosen
        found[index] = place
    return found

"""What a generator of action chunks is to a policy and to its workflow.

Shapes: B chunks, T steps, A numbers of an action.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Predict = Callable[[Tensor, Tensor], Tensor]
"""A network with its condition: chunks [B, T, A] and times [B] from 0 to 1, to chunks [B, T, A]."""


@dataclass(frozen=True)
class Lesson:
    """What a network is shown and what it should answer: inputs [B, T, A], time [B], target [B, T, A]."""

    inputs: Tensor
    time: Tensor
    target: Tensor


@dataclass(frozen=True)
class Committed:
    """Actions that are fixed already: values [B, T, A] where `mask` [B, T, 1] is true."""

    values: Tensor
    mask: Tensor

    def put_into(self, chunk: Tensor) -> Tensor:
        """The chunk [B, T, A] with the fixed actions in their places."""
        return self.values.where(self.mask, chunk)


class Generator(Protocol):
    """Actions are normalised to [-1, 1] here."""

    def lesson(self, actions: Tensor) -> Lesson:
        """A training example of each chunk [B, T, A]; random numbers come from torch's own generator."""

    def generate(self, predict: Predict, noise: Tensor, committed: Committed) -> Tensor:
        """Chunks [B, T, A] from noise [B, T, A]; fixed actions stay as they are."""

"""What a buffer is to the loop, to checkpoints and to whatever collects.

Shapes: N environments in parallel, M samples in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np


class Buffer(Protocol):
    """Transitions in, batches out. What a batch looks like is between a buffer and the workflow that learns from it."""

    def add(self, transition: dict[str, Any]) -> Mapping[str, np.ndarray] | None:
        """Keep one step of all environments, arrays [N, ...]: see `paddock.rollout.experience.TransitionSink`."""

    def can_sample(self) -> bool:
        """Whether there is enough for a batch."""

    def sample(self) -> dict[str, Any]:
        """A batch as tensors on the CPU: [M, ...], [T, N, ...] of a rollout, or [M, T, ...] of replayed sequences."""

    def mark_discontinuity(self) -> None:
        """The environments begin anew: what comes next does not follow what was added last."""

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint has to hold, as a tree of arrays; of a buffer with `segments`, what they do not hold."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what `get_state` gave."""

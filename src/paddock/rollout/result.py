"""What one round of collecting gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class CollectResult:
    """Decisions taken, episodes ended, metrics to average; extras such as `env_frames` where there are any.

    observation: the parts [N, ...] that the round ended with, which normalisers learn from; valid until the next round.
    """

    steps: int
    episodes: int
    metrics: dict[str, float] = field(default_factory=dict)
    observation: Mapping[str, np.ndarray] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)

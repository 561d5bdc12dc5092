"""What one round of collecting gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CollectResult:
    """Decisions taken, episodes ended, metrics to average; extras such as `env_frames` where there are any."""

    steps: int
    episodes: int
    metrics: dict[str, float] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)

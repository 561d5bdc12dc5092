"""Actions in the policy's range and in the environment's: [-1, 1] against the bounds of its Box."""

from __future__ import annotations

import numpy as np

from paddock.core.specs import ArraySpec


def to_policy(action: np.ndarray, spec: ArraySpec) -> np.ndarray:
    """An environment's actions in the policy's range: [-1, 1] for a bounded Box."""
    if spec.is_discrete or spec.low is None or spec.high is None:
        return action.astype(spec.dtype)
    low, high = spec.bounds()
    return ((action - (high + low) / 2) / ((high - low) / 2)).astype(spec.dtype)


def to_environment(action: np.ndarray, spec: ArraySpec) -> np.ndarray:
    """The inverse of `to_policy`; policies may reach beyond the bounds, environments may not."""
    if spec.is_discrete or spec.low is None or spec.high is None:
        return action
    low, high = spec.bounds()
    return (np.clip(action, -1, 1) * (high - low) / 2 + (high + low) / 2).astype(spec.dtype)

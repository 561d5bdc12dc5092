"""The preallocated arrays that transitions of all copies are written into; shapes are [rows, B, ...]."""

from __future__ import annotations

import numpy as np

from paddock.core.specs import Spec


def transition_bytes(spec: Spec) -> int:
    """What one transition of one copy takes in the arrays below, its observation included."""
    arrays = [*spec.observation.values(), spec.action]
    return sum(part.size * np.dtype(part.dtype).itemsize for part in arrays) + 4 + 3


def observation_arrays(spec: Spec, rows: int, num_envs: int) -> dict[str, np.ndarray]:
    """One array for each part of an observation."""
    return {name: np.zeros((rows, num_envs, *part.shape), part.dtype) for name, part in spec.observation.items()}


def transition_arrays(spec: Spec, rows: int, num_envs: int) -> dict[str, np.ndarray]:
    """Everything else that a transition is made of; `valid` is false where a step only reset an environment."""
    lead = (rows, num_envs)
    return {
        "action": np.zeros((*lead, *spec.action.shape), spec.action.dtype),
        "reward": np.zeros(lead, np.float32),
        "terminated": np.zeros(lead, bool),
        "truncated": np.zeros(lead, bool),
        "valid": np.zeros(lead, bool),
    }

"""Generalised advantage estimation."""

from __future__ import annotations

import numpy as np


def generalized_advantages(
    reward: np.ndarray,
    value: np.ndarray,
    next_value: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    valid: np.ndarray,
    *,
    gamma: float,
    lambda_: float,
) -> np.ndarray:
    """Eq. 16, arXiv:1506.02438. All arrays are [T, B]; `next_value` is of the true following state.

    A terminated step has no future; a truncated one bootstraps from its last state; both end the sum. A step that is
    not valid has no advantage, and the sum before it bootstraps from its value.
    """
    shape = reward.shape
    assert value.shape == next_value.shape == terminated.shape == truncated.shape == valid.shape == shape
    delta = reward + gamma * next_value * ~terminated - value
    delta = delta * valid
    carry = (gamma * lambda_ * ~(terminated | truncated) * valid).astype(np.float32)
    advantage = np.empty(shape, np.float32)
    running = np.zeros(shape[1], np.float32)
    for t in reversed(range(shape[0])):
        running = delta[t] + carry[t] * running
        advantage[t] = running
    return advantage

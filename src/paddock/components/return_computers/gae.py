"""Generalised advantage estimation."""

from __future__ import annotations

import torch
from torch import Tensor


def generalized_advantages(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    *,
    gamma: float,
    lambda_: float,
) -> Tensor:
    """Eq. 16, arXiv:1506.02438. All tensors are [T, B]; `next_value` is of the true following state.

    A terminated step has no future; a truncated one bootstraps from its last state; both end the sum. A step that is
    not valid has no advantage, and the sum before it bootstraps from its value.
    """
    shape = reward.shape
    assert value.shape == next_value.shape == terminated.shape == truncated.shape == valid.shape == shape
    delta = (reward + gamma * next_value * ~terminated - value) * valid
    carry = gamma * lambda_ * (~(terminated | truncated) & valid).to(delta.dtype)
    advantage = torch.empty_like(delta)
    running = torch.zeros_like(delta[0])
    for t in reversed(range(shape[0])):
        running = delta[t] + carry[t] * running
        advantage[t] = running
    return advantage

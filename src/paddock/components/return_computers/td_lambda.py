"""Returns over [T, B], time first: the mixture of all n-step returns that TD-lambda is."""

from __future__ import annotations

import torch
from torch import Tensor


def lambda_returns(
    reward: Tensor, next_value: Tensor, discount: Tensor, last_value: Tensor, *, lambda_: float | Tensor
) -> Tensor:
    """Eq. 4, arXiv:2010.02193. All [T, B]: the reward for leaving each state, the value of the next, and the weight of
    what follows (0 at a terminal state). `last_value` [B] is what the sum begins with, usually `next_value[-1]`;
    a `lambda_` of 0 at a step [T, B] takes the next state's value there and nothing beyond it."""
    assert reward.shape == next_value.shape == discount.shape
    direct = reward + (1 - lambda_) * discount * next_value
    carried = lambda_ * discount
    returns = []
    running = last_value
    for t in reversed(range(len(reward))):
        running = direct[t] + carried[t] * running
        returns.append(running)
    return torch.stack(returns[::-1])

"""Numbers of any size brought near to each other, and as weights on two neighbouring bins.

Symlog is near the identity around zero and a logarithm far out (Eq. 9, arXiv:2301.04104).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def symlog(values: Tensor) -> Tensor:
    return values.sign() * values.abs().log1p()


def symexp(values: Tensor) -> Tensor:
    """The inverse of symlog."""
    return values.sign() * values.abs().expm1()


def symmetric_bins(count: int, limit: float, *, exponential: bool) -> Tensor:
    """[count] ascending, the middle one 0: evenly spaced within +-limit, or the symexp of that."""
    assert count % 2 == 1, "an odd number of bins has one at zero"
    half = torch.linspace(0, limit, count // 2 + 1)
    half = half.expm1() if exponential else half
    return torch.cat([-half[1:].flip(0), half])


def two_hot(values: Tensor, bins: Tensor) -> tuple[Tensor, Tensor]:
    """Values [...] as the bin below [...] and the weight of the one above it [...], so that the mean is the value.

    Values beyond the outermost bins are taken as lying on them.
    """
    inside = values.clamp(bins[0], bins[-1])
    above = torch.searchsorted(bins, inside, right=True).clamp(1, len(bins) - 1)
    low, high = bins[above - 1], bins[above]
    return above - 1, (inside - low) / (high - low)


def two_hot_cross_entropy(logits: Tensor, values: Tensor, bins: Tensor) -> Tensor:
    """[...]: how ill the bins' logits [..., K] describe M values [..., M], summed; Eq. 10, arXiv:2301.04104."""
    return TwoHotCrossEntropy.apply(logits, *two_hot(values, bins))


class TwoHotCrossEntropy(torch.autograd.Function):
    """Logits are many and targets are few: the gradient is the probabilities, with few of them changed in place."""

    @staticmethod
    def forward(context: Any, logits: Tensor, below: Tensor, weight: Tensor) -> Tensor:
        log_probabilities = logits.log_softmax(-1)
        places, weights = torch.cat([below, below + 1], -1), torch.cat([1 - weight, weight], -1)
        context.save_for_backward(log_probabilities, places, weights)
        return -(log_probabilities.gather(-1, places) * weights).sum(-1)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        log_probabilities, places, weights = context.saved_tensors
        gradient = gradient.unsqueeze(-1)
        found = log_probabilities.exp().mul_(gradient * (places.shape[-1] // 2))
        return found.scatter_add_(-1, places, (weights * gradient).neg_()), None, None


def expected_bin(logits: Tensor, bins: Tensor) -> Tensor:
    """[...]: the mean of symmetric bins under the logits [..., K]; exactly 0 where all logits are alike."""
    half = logits.shape[-1] // 2
    probabilities = logits.softmax(-1)
    # Pairs first: the outermost bins are so large that their rounding errors would outweigh everything.
    difference = probabilities[..., half + 1 :] - probabilities[..., :half].flip(-1)
    return difference @ bins[half + 1 :]

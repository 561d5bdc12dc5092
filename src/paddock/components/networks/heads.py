"""Predictions of one number from features: as a mean, in symlog, or as weights on bins; and of whether it goes on.

Symlog is near the identity around zero and a logarithm far out (Eq. 9, arXiv:2301.04104).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.networks.mlp import DenseConfig, dense, scaled_linear

BINS = 255
LIMIT = 20.0  # of the bins, in symlog: numbers up to 4.8e8
NEVER = -1e30  # a logit whose probability is 0

Kind = Literal["normal", "symlog", "two_hot", "two_hot_symlog"]


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
    """[...]: cross-entropy of bins' logits [..., K] to M two-hot values [..., M], summed; Eq. 10, arXiv:2301.04104."""
    return TwoHotCrossEntropy.apply(logits, *two_hot(values, bins))


class TwoHotCrossEntropy(torch.autograd.Function):
    """Logits are many and targets are few: the gradient is the probabilities, with few of them changed in place."""

    @staticmethod
    def forward(context: Any, logits: Tensor, below: Tensor, weight: Tensor) -> Tensor:
        log_probabilities = logits.log_softmax(-1, dtype=_at_least_single(logits))
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
    """[...]: the mean of symmetric bins [K] under the logits [..., K], or more of which the last are `NEVER`; exactly 0
    where all logits are alike."""
    half = len(bins) // 2
    probabilities = logits.softmax(-1, dtype=_at_least_single(logits))
    # Pairs first: the outermost bins are so large that their rounding errors would outweigh everything.
    difference = probabilities[..., half + 1 : len(bins)] - probabilities[..., :half].flip(-1)
    if logits.dtype != probabilities.dtype:  # A product of matrices would be of half the width again.
        return (difference * bins[half + 1 :]).sum(-1)
    return difference @ bins[half + 1 :]


def _at_least_single(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)


def padded_linear(features: Tensor, layer: nn.Linear) -> Tensor:
    """Logits of an odd number of bins, and one more that is `NEVER`: products of matrices whose rows have an odd length
    take three times as long as those one longer."""
    weight = functional.pad(layer.weight, (0, 0, 0, 1))
    return functional.linear(features, weight, functional.pad(layer.bias, (0, 1), value=NEVER))


class NumberHeadConfig(DenseConfig):
    """How a number is predicted. `two_hot` has bins that grow exponentially (2024), `two_hot_symlog` even ones over
    the symlog (2023); `output_scale` 0 begins with the prediction 0."""

    kind: Kind = "two_hot"
    output_scale: float = Field(default=1.0, ge=0)


class NumberHead(nn.Module):
    """Features [..., inputs] to what describes a number [..., outputs]; `predict` and `loss` know how to read that."""

    bins: Tensor

    def __init__(self, config: NumberHeadConfig, inputs: int) -> None:
        super().__init__()
        self.kind = config.kind
        self.hidden = dense(inputs, config)
        self.is_binned = config.kind.startswith("two_hot")
        last = config.units if config.layers else inputs
        self.output = scaled_linear(last, BINS if self.is_binned else 1, config.output_scale)
        bins = symmetric_bins(BINS, LIMIT, exponential=config.kind == "two_hot")
        self.register_buffer("bins", bins, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        hidden = self.hidden(features)
        return padded_linear(hidden, self.output) if self.is_binned else self.output(hidden)

    def predict(self, outputs: Tensor) -> Tensor:
        """[...]: the number itself."""
        if self.is_binned:
            expected = expected_bin(outputs, self.bins)
            return expected if self.kind == "two_hot" else symexp(expected)
        mean = outputs.squeeze(-1)
        return symexp(mean) if self.kind == "symlog" else mean

    def loss(self, outputs: Tensor, *targets: Tensor) -> Tensor:
        """[...]: the negative log-likelihood of the target [...], up to a constant; of several, summed."""
        target = torch.stack(targets, -1)
        if self.is_binned:
            return two_hot_cross_entropy(outputs, target if self.kind == "two_hot" else symlog(target), self.bins)
        error = outputs - (symlog(target) if self.kind == "symlog" else target)
        return 0.5 * error.square().sum(-1)


class ContinueHead(nn.Module):
    """Features [..., inputs] to the logit [...] of the chance that the episode does not terminate here."""

    def __init__(self, config: DenseConfig, inputs: int) -> None:
        super().__init__()
        self.hidden = dense(inputs, config)
        self.output = scaled_linear(config.units if config.layers else inputs, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.output(self.hidden(features)).squeeze(-1)

    def loss(self, logit: Tensor, target: Tensor) -> Tensor:
        """[...]: the cross-entropy to whether the episode continued [...], 0 or 1."""
        return functional.binary_cross_entropy_with_logits(logit, target, reduction="none")

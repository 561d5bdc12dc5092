"""Predictions of one number from features: as a mean, in symlog, or as weights on bins; and of whether it goes on."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.networks.dense import DenseConfig, dense, scaled_linear
from paddock.components.symlog import expected_bin, symexp, symlog, symmetric_bins, two_hot_cross_entropy

BINS = 255
LIMIT = 20.0  # of the bins, in symlog: numbers up to 4.8e8

Kind = Literal["normal", "symlog", "two_hot", "two_hot_symlog"]


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
        return self.output(self.hidden(features))

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

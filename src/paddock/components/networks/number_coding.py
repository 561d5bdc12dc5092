"""How a network's outputs stand for a number: plainly, or as weights on bins that are even over the symlog.

The binned number is the symexp of the expected bin (arXiv:2310.16828, as in version 1 of arXiv:2301.04104), not the
expectation of bins that are symexps already.
"""

from __future__ import annotations

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from paddock.components.networks.heads import expected_bin, symexp, symlog, symmetric_bins, two_hot_cross_entropy
from paddock.config.schema import Schema


class NumberCodingConfig(Schema):
    """`bins` over the symlog within +-`limit`; null is one output that is the number, learned by squared errors."""

    bins: int | None = Field(default=101, ge=3)
    limit: float = Field(default=10.0, gt=0)

    @field_validator("bins")
    @classmethod
    def _odd(cls, bins: int | None) -> int | None:
        if bins is not None and bins % 2 == 0:
            raise ValueError(f"bins = {bins} has no bin at zero; choose an odd number")
        return bins


class NumberCoding(nn.Module):
    """Outputs [..., outputs] to the number [...], and the loss of outputs to a number."""

    bins: Tensor

    def __init__(self, config: NumberCodingConfig) -> None:
        super().__init__()
        self.outputs = config.bins or 1
        bins = symmetric_bins(config.bins, config.limit, exponential=False) if config.bins else torch.zeros(0)
        self.register_buffer("bins", bins, persistent=False)

    def predict(self, outputs: Tensor) -> Tensor:
        """[...]: the number."""
        return outputs.squeeze(-1) if self.outputs == 1 else symexp(expected_bin(outputs, self.bins))

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """[...]: the cross-entropy to the two-hot target [...], or the squared error."""
        if self.outputs == 1:
            return (outputs.squeeze(-1) - target).square()
        return two_hot_cross_entropy(outputs, symlog(target).unsqueeze(-1), self.bins)

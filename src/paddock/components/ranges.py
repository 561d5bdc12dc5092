"""Min-max normalisation: every number of a kind of data from -1 to 1, as the demonstrations have it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEAST_RANGE = 1e-4  # What varies less is only centred.
FARTHEST = 2.0  # Numbers that were never demonstrated are cut off here, so that none outweighs all others.
FARTHEST_STANDARD = 5.0  # the same where 1 is a standard deviation


class MinMaxRange(nn.Module):
    """Values [..., *shape] to [-1, 1] by their least and greatest; both are saved with the policy."""

    center: Tensor
    reach: Tensor

    def __init__(self, shape: tuple[int, ...], farthest: float = FARTHEST) -> None:
        super().__init__()
        self.shape, self.farthest = shape, farthest
        self.register_buffer("center", torch.zeros(shape))
        self.register_buffer("reach", torch.ones(shape))

    def forward(self, values: Tensor) -> Tensor:
        return ((values - self.center) / self.reach).clamp(-self.farthest, self.farthest)

    def inverse(self, scaled: Tensor) -> Tensor:
        """Values in their own units again."""
        return scaled * self.reach + self.center

    def fit(self, low: Tensor, high: Tensor) -> None:
        """Take the least and the greatest of each number, [*shape] each."""
        reach = (high - low) / 2
        self.center.copy_((high + low) / 2)
        self.reach.copy_(torch.where(high - low < LEAST_RANGE, torch.ones_like(reach), reach))

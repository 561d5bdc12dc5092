"""What a planner believes about good action sequences: a normal distribution, or chances where actions are choices.

Shapes: B environments, N candidates, H steps of the horizon, A numbers in an action's vector (a choice is one of A).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class GaussianPlan:
    """Independent normal distributions, cut to [-1, 1]; `mean` and `std` are [B, H, A]."""

    mean: Tensor
    std: Tensor
    min_std: float
    max_std: float | None = None
    momentum: float = 0.0

    def sample(self, count: int) -> Tensor:
        """`count` sequences for each environment: [B, N, H, A]."""
        batch, horizon, size = self.mean.shape
        noise = torch.randn(batch, count, horizon, size, device=self.mean.device)
        return torch.addcmul(self.mean.unsqueeze(1), self.std.unsqueeze(1), noise).clamp(-1, 1)

    def refit(self, candidates: Tensor, weights: Tensor) -> GaussianPlan:
        """Move to the weighted mean and deviation of candidates [B, K, H, A]; weights [B, K] sum to 1."""
        weights = weights[:, :, None, None]
        mean = (weights * candidates).sum(1)
        variance = (weights * (candidates - mean.unsqueeze(1)).square()).sum(1)
        std = variance.sqrt().clamp(min=self.min_std, max=self.max_std)
        return replace(self, mean=mean.lerp(self.mean, self.momentum) if self.momentum else mean, std=std)

    def varied(self, first: Tensor) -> Tensor:
        """First actions [B, A] with noise of the plan's own spread at its first step."""
        return torch.addcmul(first, self.std[:, 0], torch.randn_like(first)).clamp(-1, 1)

    def actions(self) -> Tensor:
        """The sequence that the plan stands for: [B, H, A]."""
        return self.mean


@dataclass(frozen=True)
class CategoricalPlan:
    """Chances of each choice at each step, `mean` [B, H, A]; none of them falls below `min_std` / A."""

    mean: Tensor
    min_std: float

    def sample(self, count: int) -> Tensor:
        """`count` sequences of choices for each environment, one of A each: [B, N, H, A]."""
        batch, horizon, size = self.mean.shape
        drawn = torch.multinomial(self.mean.reshape(-1, size), count, replacement=True)
        chosen = drawn.view(batch, horizon, count).transpose(1, 2)
        return functional.one_hot(chosen, size).float()

    def refit(self, candidates: Tensor, weights: Tensor) -> CategoricalPlan:
        """Move to how often each choice is taken in candidates [B, K, H, A]; weights [B, K] sum to 1."""
        chances = (weights[:, :, None, None] * candidates).sum(1)
        return replace(self, mean=mixed_with_uniform(chances, self.min_std))

    def varied(self, first: Tensor) -> Tensor:
        """First choices [B, A] drawn anew from the plan's chances at its first step."""
        return functional.one_hot(torch.multinomial(self.mean[:, 0], 1).squeeze(-1), self.mean.shape[-1]).to(first)

    def actions(self) -> Tensor:
        """The likeliest choice at each step: [B, H, A]."""
        return functional.one_hot(self.mean.argmax(-1), self.mean.shape[-1]).float()


def mixed_with_uniform(chances: Tensor, share: float) -> Tensor:
    """Chances [..., A] of which `share` is spread evenly."""
    return (1 - share) * chances + share / chances.shape[-1]

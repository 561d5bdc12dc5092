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
    """Independent normal distributions, cut to [-1, 1]; `centre` and `spread` are [B, H, A]."""

    centre: Tensor
    spread: Tensor
    least_spread: float

    def sample(self, count: int) -> Tensor:
        """`count` sequences for each environment: [B, N, H, A]."""
        batch, horizon, size = self.centre.shape
        noise = torch.randn(batch, count, horizon, size, device=self.centre.device)
        return torch.addcmul(self.centre.unsqueeze(1), self.spread.unsqueeze(1), noise).clamp(-1, 1)

    def refit(self, candidates: Tensor, weights: Tensor) -> GaussianPlan:
        """Move to the weighted mean and deviation of candidates [B, K, H, A]; weights [B, K] sum to 1."""
        weights = weights[:, :, None, None]
        centre = (weights * candidates).sum(1)
        variance = (weights * (candidates - centre.unsqueeze(1)).square()).sum(1)
        return replace(self, centre=centre, spread=variance.sqrt().clamp(min=self.least_spread))

    def actions(self) -> Tensor:
        """The sequence that the plan stands for: [B, H, A]."""
        return self.centre


@dataclass(frozen=True)
class CategoricalPlan:
    """Chances of each choice at each step, `centre` [B, H, A]; none of them falls below `least_spread` / A."""

    centre: Tensor
    least_spread: float

    def sample(self, count: int) -> Tensor:
        """`count` sequences of choices for each environment, one of A each: [B, N, H, A]."""
        batch, horizon, size = self.centre.shape
        drawn = torch.multinomial(self.centre.reshape(-1, size), count, replacement=True)
        chosen = drawn.view(batch, horizon, count).transpose(1, 2)
        return functional.one_hot(chosen, size).float()

    def refit(self, candidates: Tensor, weights: Tensor) -> CategoricalPlan:
        """Move to how often each choice is taken in candidates [B, K, H, A]; weights [B, K] sum to 1."""
        chances = (weights[:, :, None, None] * candidates).sum(1)
        return replace(self, centre=mixed_with_uniform(chances, self.least_spread))

    def actions(self) -> Tensor:
        """The likeliest choice at each step: [B, H, A]."""
        return functional.one_hot(self.centre.argmax(-1), self.centre.shape[-1]).float()


def mixed_with_uniform(chances: Tensor, share: float) -> Tensor:
    """Chances [..., A] of which `share` is spread evenly."""
    return (1 - share) * chances + share / chances.shape[-1]

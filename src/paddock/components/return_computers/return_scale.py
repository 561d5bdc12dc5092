"""How wide returns spread: what advantages are divided by, so that one price of randomness fits every task."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.freezing import is_frozen
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec


class ReturnScaleConfig(TargetSchema):
    """Options of the scale: a moving average of the range between two percentiles, never below `least`."""

    enabled: bool = True
    rate: float = Field(default=0.01, gt=0, le=1)
    low: float = Field(default=0.05, ge=0, lt=1)
    high: float = Field(default=0.95, gt=0, le=1)
    least: float = Field(default=1.0, gt=0)


class ReturnScale(nn.Module):
    """Eq. 12, arXiv:2301.04104. Small returns are not blown up: where nothing is to be had, randomness wins."""

    range: Tensor
    total: Tensor

    def __init__(self, config: ReturnScaleConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("range", torch.zeros(()))
        self.register_buffer("total", torch.zeros(()))

    @torch.no_grad()
    def update(self, returns: Tensor) -> None:
        """Learn from returns of any shape."""
        if self.config.enabled and not is_frozen(self):
            limits = torch.tensor([self.config.low, self.config.high], device=returns.device)
            low, high = returns.flatten().float().quantile(limits)
            self.range.lerp_(high - low, self.config.rate)
            self.total.lerp_(torch.ones_like(self.total), self.config.rate)

    def forward(self) -> Tensor:
        """[]: what to divide by; the moving average is of what was seen, not of the zero that it began with."""
        if not self.config.enabled:
            return torch.ones_like(self.range)
        return (self.range / self.total.clamp(min=1e-8)).clamp(min=self.config.least)

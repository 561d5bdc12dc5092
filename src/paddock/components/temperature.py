"""The entropy temperature (alpha) of maximum-entropy learning: fixed, or learned so that the entropy keeps a target."""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec


class TemperatureConfig(TargetSchema):
    """Options of the temperature; without a target the entropy's is minus the number of action dimensions."""

    initial: float = Field(default=1.0, gt=0)
    learned: bool = True
    target_entropy: float | None = None


class Temperature(nn.Module):
    """alpha of arXiv:1812.05905, kept as a logarithm so that it stays positive."""

    def __init__(self, config: TemperatureConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.is_learned = config.learned
        self.target_entropy = -float(spec.action.size) if config.target_entropy is None else config.target_entropy
        self.log = nn.Parameter(torch.tensor(math.log(config.initial)))

    def forward(self) -> Tensor:
        """The temperature [], without a gradient."""
        return self.log.detach().exp()

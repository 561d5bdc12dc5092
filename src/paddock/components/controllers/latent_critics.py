"""Action values over the latents of a world model: an ensemble that is computed as one network.

Shapes: C members, N latents, F features, A numbers in an action's vector.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.actions import vector_size
from paddock.components.networks.latent_mlp import LatentMLPConfig, StackedLatentMLP
from paddock.components.networks.number_coding import NumberCoding, NumberCodingConfig
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec

Reduce = Literal["mean", "min"]
PAIR = 2  # members that answer together


class LatentCriticsConfig(LatentMLPConfig, TargetSchema):
    """Options of the ensemble: the size of the latent that it reads, its members, dropout in their first layer, how a
    number is coded, and how the values of two members become one in plans."""

    inputs: int = Field(ge=1)
    ensemble_size: int = Field(default=5, ge=PAIR)
    dropout: float = Field(default=0.01, ge=0, lt=1)
    coding: NumberCodingConfig = NumberCodingConfig()
    reduce: Reduce = "mean"


class LatentCritics(nn.Module):
    """Q(z, a): features and action vectors to the outputs that stand for a value; every value is 0 at first."""

    reads_actions = True

    def __init__(self, config: LatentCriticsConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.coding = NumberCoding(config.coding)
        inputs = config.inputs + vector_size(spec.action)
        self.members = StackedLatentMLP(
            config, config.ensemble_size, inputs, self.coding.outputs, dropout=config.dropout
        )

    def forward(self, features: Tensor, action: Tensor, chosen: Tensor | None = None, *, drops: bool = False) -> Tensor:
        """Outputs [C, N, outputs] for features [N, F] and actions [N, A]; of the `chosen` members [K], if given."""
        return self.members(torch.cat([features, action], -1), chosen, drops=drops)

    def draw_pair(self) -> Tensor | None:
        """Two members by chance; None where there are no more than two."""
        if self.config.ensemble_size == PAIR:
            return None
        return torch.randperm(self.config.ensemble_size)[:PAIR]

    def value(
        self, features: Tensor, action: Tensor, pair: Tensor | None, *, reduce: Reduce, drops: bool = False
    ) -> Tensor:
        """[N]: the mean or the smaller of the values of a pair of members."""
        values = self.coding.predict(self(features, action, pair, drops=drops))
        return values.mean(0) if reduce == "mean" else values.amin(0)

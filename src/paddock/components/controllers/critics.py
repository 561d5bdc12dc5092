"""Action values for continuous actions: an ensemble that is computed as one network."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.building import build_network
from paddock.components.networks.mlp import MLPConfig, encode, flatten_observation
from paddock.components.networks.stacked import StackedMLP
from paddock.config.schema import Part
from paddock.core.specs import Spec


class CriticsConfig(MLPConfig):
    """Options of an ensemble of critics: their number, their perceptron, and what reads the observation before it."""

    ensemble_size: int = Field(default=2, ge=1)
    encoder: Part | None = None
    head_gain: float | None = Field(default=None, gt=0)


class Critics(nn.Module):
    """`ensemble_size` estimates of Q(s, a), one batched perceptron over observation and action together.

    An `encoder` (a CNN, say) turns the observation into features that all critics share; without one they read the
    observation as a vector.
    """

    def __init__(self, config: CriticsConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.encoder = None if config.encoder is None else build_network(config.encoder, spec)
        features = sum(part.size for part in spec.observation.values())
        if self.encoder is not None:
            features = self.encoder.outputs
        self.network = StackedMLP(
            config, config.ensemble_size, features + spec.action.size, 1, head_gain=config.head_gain
        )

    def forward(
        self, observation: dict[str, Tensor], action: Tensor, chosen: Tensor | None = None, *, learns: bool = True
    ) -> Tensor:
        """Observation parts [B, ...] and actions [B, A] to values [ensemble_size, B], or [K, B] of the `chosen` [K].
        Unless it `learns`, no gradient of the perceptrons' parameters is found."""
        features = flatten_observation(observation) if self.encoder is None else encode(self.encoder, observation)
        return self.network(torch.cat([features, action.flatten(1)], -1), chosen, learns=learns).squeeze(-1)

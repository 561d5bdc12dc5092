"""Action values where actions are choices: plain or dueling heads, and implicit quantiles of the return.

Shapes: B observations, K choices, Q quantiles, F features.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.building import build_network
from paddock.components.networks.mlp import encode, linear
from paddock.config.schema import Part, TargetSchema
from paddock.core.specs import Spec


class ActionValuesConfig(TargetSchema):
    """Options of a network that values every choice."""

    network: Part
    dueling: bool = True


class ActionValues(nn.Module):
    """The expected return of each choice."""

    is_distributional = False

    def __init__(self, config: ActionValuesConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.network = build_network(config.network, spec)
        self.head = ChoiceHead(self.network.outputs, choices_of(spec), dueling=config.dueling)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Observation parts [B, ...] to values [B, K]."""
        return self.head(encode(self.network, observation))

    def expected(self, observation: dict[str, Tensor]) -> Tensor:
        """[B, K]: the same as forward, for who does not mind the kind of head."""
        return self(observation)


class QuantileValuesConfig(ActionValuesConfig):
    """Options of the implicit quantile network."""

    cosines: int = Field(default=64, ge=1)
    acting_quantiles: int = Field(default=32, ge=1)


class QuantileValues(nn.Module):
    """The distribution of each choice's return as a function of the fraction below (IQN, arXiv:1806.06923)."""

    is_distributional = True
    fractions: Tensor
    multiples: Tensor

    def __init__(self, config: QuantileValuesConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.network = build_network(config.network, spec)
        features = self.network.outputs
        self.embedding = nn.Sequential(linear(config.cosines, features), nn.ReLU())
        self.joined = nn.Sequential(linear(features, features), nn.ReLU())
        self.head = ChoiceHead(features, choices_of(spec), dueling=config.dueling)
        count = config.acting_quantiles
        self.register_buffer("fractions", (torch.arange(count) + 0.5) / count, persistent=False)
        self.register_buffer("multiples", math.pi * torch.arange(1, config.cosines + 1), persistent=False)

    def forward(self, observation: dict[str, Tensor], fractions: Tensor) -> Tensor:
        """Observation parts [B, ...] and fractions [B, Q] from 0 to 1 to quantiles of the return [B, Q, K]."""
        features = encode(self.network, observation)
        # Eq. 4, arXiv:1806.06923; the product joins what is seen with which quantile is asked for.
        embedded = self.embedding((fractions.unsqueeze(-1) * self.multiples).cos())
        return self.head(self.joined(features.unsqueeze(1) * embedded))

    def expected(self, observation: dict[str, Tensor]) -> Tensor:
        """[B, K]: the mean over evenly spaced quantiles; the paper draws them, these are the same every time."""
        count = next(iter(observation.values())).shape[0]
        return self(observation, self.fractions.expand(count, -1)).mean(1)


class ChoiceHead(nn.Module):
    """Features [..., F] to one number a choice [..., K]; dueling: a state's value plus each choice's advantage."""

    def __init__(self, features: int, choices: int, *, dueling: bool) -> None:
        super().__init__()
        self.advantage = linear(features, choices)
        self.value = linear(features, 1) if dueling else None

    def forward(self, features: Tensor) -> Tensor:
        advantage = self.advantage(features)
        if self.value is None:
            return advantage
        # Eq. 9, arXiv:1511.06581.
        return self.value(features) + advantage - advantage.mean(-1, keepdim=True)


def choices_of(spec: Spec) -> int:
    """How many choices an action has."""
    assert spec.action.choices is not None, "action values need actions that are choices"
    return spec.action.choices

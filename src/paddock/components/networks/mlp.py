"""The multilayer perceptron, and the initialisation that networks share."""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.activations import ACTIVATIONS, Activation
from paddock.config.schema import TargetSchema


class MLPConfig(TargetSchema):
    """Options of the multilayer perceptron."""

    hidden: list[int] = Field(default=[64, 64], min_length=1)
    activation: Activation = "tanh"
    layer_norm: bool = False
    orthogonal: bool = True


class MLP(nn.Module):
    """Vectors [..., inputs] to features [..., outputs]; the last hidden layer is the output."""

    def __init__(self, config: MLPConfig, inputs: int) -> None:
        super().__init__()
        self.config = config
        self.outputs = config.hidden[-1]
        layers: list[nn.Module] = []
        for size_in, size_out in zip([inputs, *config.hidden], config.hidden, strict=False):
            layers.append(linear(size_in, size_out, gain=math.sqrt(2) if config.orthogonal else None))
            if config.layer_norm:
                layers.append(nn.LayerNorm(size_out))
            layers.append(ACTIVATIONS[config.activation]())
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)


def linear(inputs: int, outputs: int, *, gain: float | None = None) -> nn.Linear:
    """A linear layer; with a gain, orthogonal weights of that gain and zero bias."""
    layer = nn.Linear(inputs, outputs)
    if gain is not None:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return layer


def flatten_observation(observation: dict[str, Tensor], leading: int = 1) -> Tensor:
    """All parts of an observation, by name, as one float vector [..., size]; the first `leading` axes stay."""
    ordered = [observation[name] for name in sorted(observation)]  # a dict's own order is its maker's whim
    parts = [part.flatten(leading) if part.dim() > leading else part.unsqueeze(-1) for part in ordered]
    return parts[0].float() if len(parts) == 1 else torch.cat([part.float() for part in parts], -1)


def unflatten_observation(vector: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The parts [..., *shape] that make up a vector [..., size]."""
    names = sorted(shapes)
    pieces = dict(zip(names, vector.split([math.prod(shapes[name]) for name in names], -1), strict=True))
    return {name: pieces[name].reshape(*vector.shape[:-1], *shape) for name, shape in shapes.items()}

"""Multilayer perceptrons, and what they are made of: activations, norms, initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.config.schema import Schema, TargetSchema

Activation = Literal["tanh", "relu", "elu", "silu", "gelu", "mish"]
Norm = Literal["none", "layer", "rms"]
EPSILON = 1e-3  # Large, so that a layer whose outputs hardly vary is not blown up.
TRUNCATION = 0.87962566  # Standard deviation of a unit normal that is cut off at two.


def tanh(inputs: Tensor) -> Tensor:
    """The hyperbolic tangent as 2 sigmoid(2 x) - 1, to within a rounding error of one. On a processor torch's own takes
    two to three times as long, much of what a small network costs."""
    return torch.sigmoid(inputs * 2) * 2 - 1


class Tanh(nn.Module):
    """`tanh` as a layer."""

    def forward(self, inputs: Tensor) -> Tensor:
        return tanh(inputs)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "mish": nn.Mish,
}


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
        self.layers = nn.Sequential(
            *hidden_layers(
                [inputs, *config.hidden],
                config.activation,
                partial(linear, gain=math.sqrt(2) if config.orthogonal else None),
                lambda size: [nn.LayerNorm(size)] if config.layer_norm else [],
            )
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)


class BFloat16MLP(MLP):
    """An MLP whose products are in half precision; heads, losses and parameters stay in single precision."""

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.autocast(inputs.device.type, torch.bfloat16):
            return self.layers(inputs).float()


def plain_mlp(sizes: Sequence[int], activation: Activation) -> nn.Sequential:
    """Linear layers of the given sizes with activations between them; the last one is linear."""
    return nn.Sequential(*hidden_layers(sizes, activation, linear)[:-1])


def hidden_layers(
    sizes: Sequence[int],
    activation: Activation,
    make_linear: Callable[[int, int], nn.Linear],
    make_norms: Callable[[int], list[nn.Module]] = lambda size: [],
) -> list[nn.Module]:
    """Linear, normalised, activated, layer after layer: what every MLP here is made of.

    Only an ensemble (`networks/stacked.py`) has layers of its own: its weights have one axis more.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [make_linear(inputs, outputs), *make_norms(outputs), activation_after_linear(activation)]
    return layers


def activation_after_linear(activation: Activation) -> nn.Module:
    """The activation as a layer; in place where nothing needs what was there before."""
    return nn.ReLU(inplace=True) if activation == "relu" else ACTIVATIONS[activation]()


def linear(inputs: int, outputs: int, *, gain: float | None = None) -> nn.Linear:
    """A linear layer; with a gain, orthogonal weights of that gain and zero bias."""
    layer = nn.Linear(inputs, outputs)
    if gain is not None:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return layer


def encode(network: nn.Module, observation: dict[str, Tensor]) -> Tensor:
    """Features of an observation: a network gets its parts by name if it says `reads_parts`, else one vector."""
    return network(observation if getattr(network, "reads_parts", False) else flatten_observation(observation))


def flatten_observation(observation: dict[str, Tensor], leading: int = 1) -> Tensor:
    """All parts of an observation, by name, as one float vector [..., size]; the first `leading` axes stay."""
    ordered = [observation[name] for name in sorted(observation)]  # the order of a dict depends on what made it
    parts = [part.flatten(leading) if part.dim() > leading else part.unsqueeze(-1) for part in ordered]
    return parts[0].float() if len(parts) == 1 else torch.cat([part.float() for part in parts], -1)


def unflatten_observation(vector: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The parts [..., *shape] that make up a vector [..., size]."""
    names = sorted(shapes)
    pieces = dict(zip(names, vector.split([math.prod(shapes[name]) for name in names], -1), strict=True))
    return {name: pieces[name].reshape(*vector.shape[:-1], *shape) for name, shape in shapes.items()}


class DenseConfig(Schema):
    """Options of a perceptron."""

    layers: int = Field(ge=0)
    units: int = Field(ge=1)
    activation: Activation = "silu"
    norm: Norm = "rms"


def dense(inputs: int, config: DenseConfig) -> nn.Sequential:
    """Vectors [..., inputs] to features [..., units]; without layers, the vectors as they are."""
    sizes = [inputs, *[config.units] * config.layers]
    norms = partial(make_norm, norm=config.norm)
    return nn.Sequential(*hidden_layers(sizes, config.activation, scaled_linear, norms))


def dense_layer(inputs: int, outputs: int, activation: Activation, norm: Norm) -> list[nn.Module]:
    return hidden_layers([inputs, outputs], activation, scaled_linear, partial(make_norm, norm=norm))


def normed_activation(size: int, activation: Activation, norm: Norm) -> list[nn.Module]:
    """What follows a product of weights."""
    return [*make_norm(size, norm), ACTIVATIONS[activation]()]


def make_norm(size: int, norm: Norm) -> list[nn.Module]:
    """The norm by its name, as a list that is empty where there is none."""
    if norm == "none":
        return []
    return [nn.LayerNorm(size, EPSILON) if norm == "layer" else RMSNorm(size)]


class RMSNorm(nn.Module):
    """Vectors [..., size] of root mean square 1, scaled (arXiv:1910.07467); torch's own is six times slower here."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, inputs: Tensor) -> Tensor:
        scale = (inputs.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
        return inputs * scale * self.weight


def scaled_linear(inputs: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    """A linear layer whose weights begin as a truncated normal of variance scale^2 / inputs; a scale of 0 is zero."""
    layer = nn.Linear(inputs, outputs)
    truncated_normal(layer.weight, inputs, scale)
    nn.init.zeros_(layer.bias)
    return layer


def truncated_normal(weight: Tensor, inputs: int, scale: float = 1.0) -> None:
    """Fill a weight whose outputs each read `inputs` numbers."""
    if scale == 0:
        nn.init.zeros_(weight)
        return
    deviation = scale / (math.sqrt(inputs) * TRUNCATION)
    nn.init.trunc_normal_(weight, 0.0, deviation, -2 * deviation, 2 * deviation)


class BlockLinear(nn.Module):
    """A linear layer whose weights are block-diagonal: each of the blocks of the input feeds its own of the output."""

    def __init__(self, blocks: int, inputs: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        self.blocks = blocks
        self.weight = nn.Parameter(torch.empty(blocks, inputs // blocks, outputs // blocks))
        truncated_normal(self.weight, inputs // blocks)
        self.bias = nn.Parameter(torch.zeros(blocks, 1, outputs // blocks)) if bias else None

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, inputs] to [blocks, B, outputs / blocks]: what follows is often done for each block apart."""
        split = inputs.unflatten(-1, (self.blocks, -1)).transpose(0, 1)
        return torch.bmm(split, self.weight) if self.bias is None else torch.baddbmm(self.bias, split, self.weight)

    def parts(self, inputs: Tensor, count: int) -> tuple[Tensor, ...]:
        """The same as `count` equal parts of each block's outputs. Without gradients every part is a product of its
        own: what follows is twice as fast over numbers that lie side by side."""
        if torch.is_grad_enabled() or self.bias is None:
            return self(inputs).chunk(count, -1)
        split = inputs.unflatten(-1, (self.blocks, -1)).transpose(0, 1)
        pairs = zip(self.bias.chunk(count, -1), self.weight.chunk(count, -1), strict=True)
        return tuple(torch.baddbmm(bias, split, weight) for bias, weight in pairs)

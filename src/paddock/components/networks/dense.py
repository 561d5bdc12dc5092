"""Perceptrons of a world model: linear, normalised, activated, layer after layer; sized by whoever builds them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.activations import ACTIVATIONS, Activation
from paddock.config.schema import Schema

Norm = Literal["none", "layer", "rms"]
EPSILON = 1e-3  # Large, so that a layer whose outputs hardly vary is not blown up.
TRUNCATION = 0.87962566  # Standard deviation of a unit normal that is cut off at two.


class DenseConfig(Schema):
    """Options of a perceptron."""

    layers: int = Field(ge=0)
    units: int = Field(ge=1)
    activation: Activation = "silu"
    norm: Norm = "rms"


def dense(inputs: int, config: DenseConfig) -> nn.Sequential:
    """Vectors [..., inputs] to features [..., units]; without layers, the vectors as they are."""
    sizes = [inputs, *[config.units] * config.layers]
    layers = [layer for pair in pairwise(sizes) for layer in dense_layer(*pair, config.activation, config.norm)]
    return nn.Sequential(*layers)


def dense_layer(inputs: int, outputs: int, activation: Activation, norm: Norm) -> list[nn.Module]:
    return [scaled_linear(inputs, outputs), *normed_activation(outputs, activation, norm)]


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

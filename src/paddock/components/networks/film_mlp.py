"""A residual MLP over a flattened chunk of actions, modulated by what is seen (FiLM, arXiv:1709.07871).

Shapes: B chunks, T steps, A numbers of an action, C numbers of an input step, H observations, F features of one,
W the width.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.chunks import ChunkSizes, SinusoidalEmbedding
from paddock.components.networks.mlp import ACTIVATIONS, Activation
from paddock.config.schema import TargetSchema


class FilmMLPConfig(TargetSchema):
    """width: W of every layer. blocks: residual blocks. condition_size: numbers that what is seen is brought down to,
    from which every block's scales and offsets are made. time_size: numbers that tell the time (even)."""

    width: int = Field(default=512, ge=1)
    blocks: int = Field(default=4, ge=1)
    condition_size: int = Field(default=128, ge=1)
    time_size: int = Field(default=64, ge=2, multiple_of=2)
    activation: Activation = "silu"


class FilmMLP(nn.Module):
    """Chunks [B, T, C], times [B] and observations [B, H, F] to chunks [B, T, A]."""

    def __init__(self, config: FilmMLPConfig, sizes: ChunkSizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        width = config.width
        size = config.condition_size
        self.time = nn.Sequential(SinusoidalEmbedding(config.time_size), nn.Linear(config.time_size, size))
        self.activation = ACTIVATIONS[config.activation]()
        self.condition = nn.Sequential(nn.Linear(sizes.condition, width), self.activation, nn.Linear(width, size))
        # Scales and offsets of all blocks at once: one product in place of many.
        self.film = nn.Linear(size, config.blocks * 2 * width)
        self.first = nn.Linear(sizes.horizon * sizes.inputs, width)
        self.blocks = nn.ModuleList(ResidualBlock(width, config.activation) for _ in range(config.blocks))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, sizes.horizon * sizes.outputs))
        nn.init.zeros_(self.film.weight)
        nn.init.zeros_(self.film.bias)

    def forward(self, chunk: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        seen = self.activation(self.condition(condition.flatten(1)) + self.time(time))
        film = self.film(seen).unflatten(-1, (self.config.blocks, 2, -1))
        features = self.first(chunk.flatten(1))
        for index, block in enumerate(self.blocks):
            features = block(features, film[:, index, 0], film[:, index, 1])
        return self.last(features).unflatten(-1, (self.sizes.horizon, self.sizes.outputs))


class ResidualBlock(nn.Module):
    """Features [B, W] plus what two layers make of them, normalised, scaled and moved."""

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, features: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
        modulated = self.norm(features) * (1 + scale) + offset
        return features + self.second(self.activation(self.first(self.activation(modulated))))

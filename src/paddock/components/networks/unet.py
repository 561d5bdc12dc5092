"""The published one-dimensional U-Net of diffusion policies (arXiv:2303.04137): convolutions over a chunk's time.

Shapes: B chunks, T steps, A numbers of an action, C channels, H observations, F features of one.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from paddock.components.networks.chunks import ChunkSizes, SinusoidalEmbedding
from paddock.components.networks.time_convolution import TimeConvolution, TimeGroupNorm, TimeUpsampling
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError

GROUPS = 8


class UNetConfig(TargetSchema):
    """channels: of each level, multiples of 8; each level has half the time steps of the one before. kernel: odd.
    time_size: numbers that tell the time (even)."""

    channels: list[int] = Field(default=[256, 512, 1024], min_length=2)
    kernel: int = Field(default=5, ge=1)
    time_size: int = Field(default=256, ge=2, multiple_of=2)

    @field_validator("channels")
    @classmethod
    def _fit_groups(cls, channels: list[int]) -> list[int]:
        if any(one < GROUPS or one % GROUPS for one in channels):
            raise ValueError(f"channels are multiples of {GROUPS}, not {channels}")
        return channels

    @field_validator("kernel")
    @classmethod
    def _has_middle(cls, kernel: int) -> int:
        if kernel % 2 == 0:
            raise ValueError(f"kernel = {kernel}; an odd one has a middle")
        return kernel


class UNet(nn.Module):
    """Chunks [B, T, C], times [B] and observations [B, H, F] to chunks [B, T, A]."""

    def __init__(self, config: UNetConfig, sizes: ChunkSizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        channels, kernel, time_size = config.channels, config.kernel, config.time_size
        halvings = len(channels) - 1
        if sizes.horizon % 2**halvings:
            raise InputError(
                f"horizon = {sizes.horizon}; a U-Net of {len(channels)} levels halves it {halvings} times, so it has "
                f"to be a multiple of {2**halvings}."
            )
        self.time = nn.Sequential(
            SinusoidalEmbedding(time_size),
            nn.Linear(time_size, 4 * time_size),
            nn.Mish(),
            nn.Linear(4 * time_size, time_size),
        )
        condition = time_size + sizes.condition

        def pair(inputs: int, outputs: int) -> nn.ModuleList:
            return nn.ModuleList(
                [ResidualBlock(inputs, outputs, condition, kernel), ResidualBlock(outputs, outputs, condition, kernel)]
            )

        levels = list(pairwise([sizes.inputs, *channels]))
        self.down = nn.ModuleList(pair(*level) for level in levels)
        self.halving = nn.ModuleList(TimeConvolution(one, one, 3, stride=2) for one in channels[:-1])
        self.middle = pair(channels[-1], channels[-1])
        self.up = nn.ModuleList(pair(2 * above, below) for below, above in reversed(levels[1:]))
        self.doubling = nn.ModuleList(TimeUpsampling(below) for below, _ in reversed(levels[1:]))
        self.last = nn.Sequential(
            ConvolutionBlock(channels[0], channels[0], kernel), TimeConvolution(channels[0], sizes.outputs, 1)
        )

    def forward(self, chunk: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        seen = nn.functional.mish(torch.cat([self.time(time), condition.flatten(1)], -1))
        features, skipped = chunk, []
        for level, blocks in enumerate(self.down):
            features = _through(blocks, features, seen)
            skipped.append(features)
            if level < len(self.halving):
                features = self.halving[level](features)
        features = _through(self.middle, features, seen)
        for blocks, double in zip(self.up, self.doubling, strict=True):
            features = double(_through(blocks, torch.cat([features, skipped.pop()], -1), seen))
        return self.last(features)


def _through(blocks: nn.Module, features: Tensor, seen: Tensor) -> Tensor:
    for block in blocks.children():
        features = block(features, seen)
    return features


class ConvolutionBlock(nn.Sequential):
    """Convolution, group normalisation, Mish."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__(TimeConvolution(inputs, outputs, kernel), TimeGroupNorm(GROUPS, outputs), nn.Mish())


class ResidualBlock(nn.Module):
    """Two convolution blocks; what is seen scales and moves the channels between them (FiLM)."""

    def __init__(self, inputs: int, outputs: int, condition: int, kernel: int) -> None:
        super().__init__()
        self.first, self.second = ConvolutionBlock(inputs, outputs, kernel), ConvolutionBlock(outputs, outputs, kernel)
        self.film = nn.Linear(condition, 2 * outputs)
        self.shortcut = TimeConvolution(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, features: Tensor, seen: Tensor) -> Tensor:
        scale, offset = self.film(seen).unsqueeze(1).chunk(2, -1)
        return self.second(scale * self.first(features) + offset) + self.shortcut(features)

"""A small vision transformer (arXiv:2010.11929): pictures as patches that attend to each other."""

from __future__ import annotations

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.networks.images import ImageEncoder
from paddock.components.networks.mlp import MLPConfig
from paddock.core.errors import InputError
from paddock.core.specs import Spec


class ViTConfig(MLPConfig):
    """Options of a vision transformer, and of the perceptron that joins everything."""

    patch: int = Field(default=8, ge=1)
    width: int = Field(default=64, ge=1)
    depth: int = Field(default=2, ge=1)
    heads: int = Field(default=4, ge=1)
    expansion: int = Field(default=2, ge=1)

    @model_validator(mode="after")
    def _check(self) -> ViTConfig:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be shared among {self.heads} heads; it has to be a multiple")
        return self


class ViT(ImageEncoder):
    """A transformer over each picture's patches; see ImageEncoder for the rest."""

    config: ViTConfig

    def __init__(self, config: ViTConfig, spec: Spec) -> None:
        super().__init__(config, spec)

    def _reader(self, channels: int, height: int, width: int) -> nn.Module:
        patch = self.config.patch
        if height % patch or width % patch:
            fitting = [size for size in range(2, min(height, width)) if height % size == width % size == 0]
            raise InputError(
                f"pictures of {height} x {width} pixels cannot be cut into patches of {patch}; "
                f"sizes that fit: {', '.join(map(str, fitting)) or 'none'}."
            )
        return PatchTransformer(self.config, channels, (height // patch) * (width // patch))


class PatchTransformer(nn.Module):
    """[B, channels, height, width] to [B, width]: the mean of what the patches have become."""

    def __init__(self, config: ViTConfig, channels: int, patches: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, config.width, config.patch, config.patch)
        self.position = nn.Parameter(torch.randn(patches, config.width) * 0.02)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.depth)))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, picture: Tensor) -> Tensor:
        tokens = self.patches(picture).flatten(2).transpose(1, 2) + self.position
        return self.norm(self.blocks(tokens)).mean(1)


class Block(nn.Module):
    """Attention, then a perceptron, each added to what comes in; normalised beforehand."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.attention_norm, self.perceptron_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention_inputs, self.attention_output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, config.expansion * width), nn.GELU(), nn.Linear(config.expansion * width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, N, width] to the same."""
        queries, keys, values = self.attention_inputs(self.attention_norm(tokens)).chunk(3, -1)
        by_head = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (queries, keys, values)]
        attended = functional.scaled_dot_product_attention(*by_head).transpose(1, 2).flatten(2)
        tokens = tokens + self.attention_output(attended)
        return tokens + self.perceptron(self.perceptron_norm(tokens))

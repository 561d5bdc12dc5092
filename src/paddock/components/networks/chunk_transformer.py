"""The published transformer of diffusion policies (arXiv:2303.04137): a chunk's steps look at what was seen.

Shapes: B chunks, T steps, A numbers of an action, C numbers of an input step, H observations, F features of one,
W the width.
"""

from __future__ import annotations

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from paddock.components.networks.chunks import ChunkSizes, SinusoidalEmbedding
from paddock.config.schema import TargetSchema

SPREAD = 0.02  # of the weights at the start


class ChunkTransformerConfig(TargetSchema):
    """width: W of every token. layers, heads: of the decoder. dropout: of its attention and its layers."""

    width: int = Field(default=256, ge=2, multiple_of=2)
    layers: int = Field(default=8, ge=1)
    heads: int = Field(default=4, ge=1)
    dropout: float = Field(default=0.01, ge=0, lt=1)

    @model_validator(mode="after")
    def _check(self) -> ChunkTransformerConfig:
        if self.width % self.heads:
            raise ValueError(f"width = {self.width} has to be a multiple of heads = {self.heads}")
        return self


class ChunkTransformer(nn.Module):
    """Chunks [B, T, C], times [B] and observations [B, H, F] to chunks [B, T, A].

    A step attends to itself and to earlier ones, and to all of what is seen.
    """

    causal: Tensor

    def __init__(self, config: ChunkTransformerConfig, sizes: ChunkSizes) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.time = SinusoidalEmbedding(width)
        self.observation = nn.Linear(sizes.features, width)
        self.memory = nn.Sequential(nn.Linear(width, 4 * width), nn.Mish(), nn.Linear(4 * width, width))
        self.step = nn.Linear(sizes.inputs, width)
        self.step_places = nn.Parameter(torch.empty(1, sizes.horizon, width).normal_(0.0, SPREAD))
        self.memory_places = nn.Parameter(torch.empty(1, 1 + sizes.history, width).normal_(0.0, SPREAD))
        layer = nn.TransformerDecoderLayer(
            width, config.heads, 4 * width, config.dropout, "gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, config.layers)
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, sizes.outputs))
        for part in self.modules():  # The copies that a decoder makes of its layer begin alike otherwise.
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, 0.0, SPREAD)
                nn.init.zeros_(part.bias)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(sizes.horizon), persistent=False)

    def forward(self, chunk: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        seen = torch.cat([self.time(time).unsqueeze(1), self.observation(condition)], 1)
        memory = self.memory(seen + self.memory_places)
        steps = self.step(chunk) + self.step_places
        return self.last(self.decoder(steps, memory, tgt_mask=self.causal, tgt_is_causal=True))

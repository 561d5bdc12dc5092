"""What networks over chunks of actions share: their sizes, and how the time of denoising is encoded.

Shapes: B chunks, T steps, A numbers of an action, C numbers of an input step, H observations, F features of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

TIME_SCALE = 100.0  # Times are from 0 to 1; the published frequencies are for whole numbers up to 100.
LONGEST_PERIOD = 10_000.0


@dataclass(frozen=True)
class ChunkSizes:
    """horizon: T. inputs: C. outputs: A. history: H. features: F."""

    horizon: int
    inputs: int
    outputs: int
    history: int
    features: int

    @property
    def condition(self) -> int:
        """Numbers of all observations together."""
        return self.history * self.features


class SinusoidalEmbedding(nn.Module):
    """Times [B] from 0 to 1 to sines and cosines [B, size] of many frequencies (arXiv:1706.03762)."""

    frequencies: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        assert size % 2 == 0, size
        half = size // 2
        frequencies = torch.exp(torch.arange(half) * (-math.log(LONGEST_PERIOD) / max(half - 1, 1)))
        self.register_buffer("frequencies", TIME_SCALE * frequencies, persistent=False)

    def forward(self, time: Tensor) -> Tensor:
        angles = time.unsqueeze(-1) * self.frequencies
        return torch.cat([angles.sin(), angles.cos()], -1)

"""Convolutional encoders for pictures. The network group has the usual ones: Nature's for Atari, the racing one."""

from __future__ import annotations

import math
from itertools import pairwise

from pydantic import Field, model_validator
from torch import nn

from paddock.components.networks.images import ImageEncoder
from paddock.components.networks.mlp import ACTIVATIONS, MLPConfig
from paddock.core.errors import InputError
from paddock.core.specs import Spec

KERNELS = (8, 4, 3)  # pixels on a side, by layer; the last goes on for further layers
STRIDES = (4, 2, 1)


class CNNConfig(MLPConfig):
    """Options of a convolutional encoder: layer by layer, and the perceptron that joins everything."""

    channels: list[int] = Field(default=[16, 32], min_length=1)
    kernels: list[int] | None = None
    strides: list[int] | None = None

    @model_validator(mode="after")
    def _check(self) -> CNNConfig:
        for name, values in (("kernels", self.kernels), ("strides", self.strides)):
            if values is not None and len(values) != len(self.channels):
                raise ValueError(f"{name} has {len(values)} numbers for {len(self.channels)} layers of channels")
        return self


class CNN(ImageEncoder):
    """Convolutions over each picture; see ImageEncoder for the rest."""

    config: CNNConfig

    def __init__(self, config: CNNConfig, spec: Spec) -> None:
        super().__init__(config, spec)

    def _reader(self, channels: int, height: int, width: int) -> nn.Module:
        layers: list[nn.Module] = []
        sizes, side = pairwise([channels, *self.config.channels]), min(height, width)
        for index, (inputs, outputs) in enumerate(sizes):
            kernel, stride = self._layer(index)
            if kernel > side:
                raise InputError(
                    f"pictures of {height} x {width} pixels are too small for this CNN: its layer {index + 1} looks at "
                    f"{kernel} x {kernel} where {side} x {side} are left. Use fewer layers, smaller kernels or strides."
                )
            side = (side - kernel) // stride + 1
            layer = nn.Conv2d(inputs, outputs, kernel, stride)
            if self.config.orthogonal:
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            layers += [layer, ACTIVATIONS[self.config.activation]()]
        return nn.Sequential(*layers, nn.Flatten())

    def _layer(self, index: int) -> tuple[int, int]:
        kernels = self.config.kernels or KERNELS
        strides = self.config.strides or STRIDES
        return kernels[min(index, len(kernels) - 1)], strides[min(index, len(strides) - 1)]

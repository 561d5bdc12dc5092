"""The two policies that TMRL ships, layer by layer, so that its weights act and learn here under their own names.

A squashed Gaussian over a perceptron, or over four convolutions and a perceptron whose last layer is linear. Parts of
the observation are read in a given order, which is the order of TMRL's tuples.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import SquashedGaussian
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

CONVOLUTIONS = ("conv1", "conv2", "conv3", "conv4")
CHANNELS = (64, 64, 128, 128)
KERNELS = (8, 4, 4, 4)
STRIDE = 2


class TmrlPolicyConfig(TargetSchema):
    """parts: what is read, in TMRL's order. scales: what a part is divided by, as TMRL's preprocessor does; 1 for
    those that are not named."""

    parts: list[str] = Field(min_length=1)
    scales: dict[str, float] = Field(default_factory=dict)
    hidden: list[int] = Field(default=[256, 256], min_length=1)
    log_std_range: tuple[float, float] = (-20.0, 2.0)

    @model_validator(mode="after")
    def _check(self) -> TmrlPolicyConfig:
        if strangers := [name for name in self.scales if name not in self.parts or self.scales[name] == 0]:
            raise ValueError(f"scales are of parts that are read, and not 0: {', '.join(strangers)}")
        if self.log_std_range[0] >= self.log_std_range[1]:
            raise ValueError(f"log_std_range goes from low to high, not {list(self.log_std_range)}")
        return self


class TmrlPolicy(nn.Module):
    """Observation parts [B, ...] to a distribution over actions [B, A] in [-1, 1].

    Its weights have the names of TMRL's actors: `net.*`, `mu_layer.*`, `log_std_layer.*`.
    """

    def __init__(self, config: TmrlPolicyConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        read = spec.only(config.parts).observation
        pictures = [name for name, part in read.items() if is_picture(part)]
        if len(pictures) > 1:
            raise InputError(f"TMRL's policies read one picture; the parts here have {', '.join(pictures)}.")
        self._picture = pictures[0] if pictures else None
        numbers = sum(part.size for name, part in read.items() if name not in pictures)
        if self._picture is None:
            self.net: nn.Module = perceptron([numbers, *config.hidden], ends_linear=False)
        else:
            self.net = PictureNet(read[self._picture].shape, numbers, config.hidden)
        self.mu_layer = nn.Linear(config.hidden[-1], spec.action.size)
        self.log_std_layer = nn.Linear(config.hidden[-1], spec.action.size)

    def forward(self, observation: dict[str, Tensor]) -> SquashedGaussian:
        pieces = [self._scaled(name, observation[name]) for name in self.config.parts]
        if self._picture is not None:
            index = self.config.parts.index(self._picture)
            assert isinstance(self.net, PictureNet)
            pieces[index] = self.net.features(pieces[index])
            features = self.net.mlp(torch.cat([piece.flatten(1) for piece in pieces], -1))
        else:
            features = self.net(torch.cat([piece.flatten(1) for piece in pieces], -1))
        log_std = self.log_std_layer(features).clamp(*self.config.log_std_range)
        return SquashedGaussian(self.mu_layer(features), log_std)

    def _scaled(self, name: str, part: Tensor) -> Tensor:
        scale = self.config.scales.get(name, 1.0)
        return part.float() if scale == 1.0 else part.float() / scale


class PictureNet(nn.Module):
    """Four convolutions over pictures [B, history, height, width], and the perceptron that joins them with numbers."""

    def __init__(self, shape: tuple[int, ...], numbers: int, hidden: list[int]) -> None:
        super().__init__()
        channels, height, width = shape
        layers = zip(CONVOLUTIONS, pairwise((channels, *CHANNELS)), KERNELS, strict=True)
        for name, (inputs, outputs), kernel in layers:
            height, width = ((side - kernel) // STRIDE + 1 for side in (height, width))
            if min(height, width) < 1:
                raise InputError(f"pictures of {shape[1]} x {shape[2]} pixels are too small for TMRL's convolutions.")
            setattr(self, name, nn.Conv2d(inputs, outputs, kernel, STRIDE))
        self.mlp = perceptron([CHANNELS[-1] * height * width + numbers, *hidden], ends_linear=True)

    def features(self, pictures: Tensor) -> Tensor:
        """[B, history, height, width] to [B, F]."""
        for name in CONVOLUTIONS:
            pictures = functional.relu(getattr(self, name)(pictures))
        return pictures.flatten(1)


def is_picture(part: ArraySpec) -> bool:
    """Whether a part is a history of grey pictures [history, height, width]."""
    return len(part.shape) == 3


def perceptron(sizes: list[int], *, ends_linear: bool) -> nn.Sequential:
    """Linear layers with ReLU between them, and behind the last one unless `ends_linear`."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if ends_linear else layers))


def input_size(shape: tuple[int, ...] | None, numbers: int) -> int:
    """Inputs of the first linear layer: the numbers, and the features of pictures of this shape."""
    if shape is None:
        return numbers
    sides = list(shape[1:])
    for kernel in KERNELS:
        sides = [(side - kernel) // STRIDE + 1 for side in sides]
    return numbers + CHANNELS[-1] * math.prod(sides)

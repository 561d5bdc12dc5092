"""Observations of any kind to one embedding: pictures through strided convolutions, numbers through a perceptron."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.activations import ACTIVATIONS, Activation
from paddock.components.networks.dense import EPSILON, DenseConfig, Norm, dense
from paddock.components.networks.images import split_parts
from paddock.components.networks.mlp import flatten_observation
from paddock.components.normalizers import RunningMoments
from paddock.components.symlog import symexp, symlog
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

SMALLEST = 4  # pixels on a side at which convolutions stop
MIN_STD = 1e-2  # what hardly ever changed is not blown up


class ObservationNetConfig(DenseConfig):
    """Options that encoder and decoder share: a perceptron for numbers, and convolutions whose channels are `depth`
    and double with every halving of the picture."""

    depth: int = Field(ge=1)


class ObservationEncoderConfig(ObservationNetConfig):
    """How numbers are read, and predicted as well: `standardize` brings each to zero mean and unit deviation over what
    was seen so far, `symlog` then takes the symlog of it."""

    symlog: bool = True
    standardize: bool = False


class ObservationEncoder(nn.Module):
    """Observation parts [N, ...] to an embedding [N, outputs]."""

    def __init__(self, config: ObservationEncoderConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        pictures, self.numbers = split_parts(spec)
        self.layouts = {name: ImageLayout(name, part) for name, part in pictures.items()}
        self.pictures = nn.ModuleDict({name: self._reader(layout) for name, layout in self.layouts.items()})
        sizes = [math.prod(layout.shapes(config.depth)[-1]) for layout in self.layouts.values()]
        if self.numbers:
            count = sum(spec.observation[name].size for name in self.numbers)
            self.perceptron = dense(count, config)
            self.moments = RunningMoments((count,), MIN_STD) if config.standardize else None
            sizes.append(config.units if config.layers else count)
        self.outputs = sum(sizes)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        features = [
            self.pictures[name](layout.to_network(observation[name])).flatten(1)
            for name, layout in self.layouts.items()
        ]
        if self.numbers:
            features.append(self.perceptron(self.vector(observation)))
        return torch.cat(features, -1)

    def vector(self, observation: dict[str, Tensor]) -> Tensor:
        """[N, numbers]: everything that is not a picture, as the networks see it."""
        flat = self._flat(observation)
        scaled = flat if self.moments is None else self.moments(flat)
        return symlog(scaled) if self.config.symlog else scaled

    def from_vector(self, vector: Tensor) -> Tensor:
        """The reverse of `vector`: numbers [N, numbers] in the observation's own units."""
        scaled = symexp(vector) if self.config.symlog else vector
        return scaled if self.moments is None else self.moments.inverse(scaled)

    def learn_scale(self, observation: dict[str, Tensor]) -> None:
        """Take what is seen [N, ...] into the moments by which numbers are standardized."""
        if self.numbers and self.moments is not None:
            self.moments.update(self._flat(observation))

    def _flat(self, observation: dict[str, Tensor]) -> Tensor:
        return flatten_observation({name: observation[name] for name in self.numbers})

    def _reader(self, layout: ImageLayout) -> nn.Module:
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(layout.shapes(self.config.depth)):
            layers.append(nn.Conv2d(inputs[0], outputs[0], 4, 2, 1))
            layers += image_activation(outputs[0], self.config.activation, self.config.norm)
        return nn.Sequential(*layers)


class ImageLayout:
    """How a picture lies in an observation, and the shapes that it takes on its way through halvings."""

    def __init__(self, name: str, part: ArraySpec) -> None:
        first, second, third = part.shape
        self.is_channels_first = first < third
        self.shape = (first, second, third) if self.is_channels_first else (third, first, second)
        _, height, width = self.shape
        self.halvings = int(math.log2(min(height, width) / SMALLEST)) if min(height, width) >= 2 * SMALLEST else 0
        if not self.halvings or height % 2**self.halvings or width % 2**self.halvings:
            raise InputError(
                f"picture '{name}' has {height} x {width} pixels; a world model halves pictures down to about "
                f"{SMALLEST} x {SMALLEST}, so sides have to be {SMALLEST} times a power of two, or multiples of it. "
                "Choose another picture size, for example 64."
            )

    def shapes(self, depth: int) -> list[tuple[int, int, int]]:
        """(channels, height, width) from the picture to its smallest form."""
        channels, height, width = self.shape
        smaller = [(depth * 2**n, height >> (n + 1), width >> (n + 1)) for n in range(self.halvings)]
        return [(channels, height, width), *smaller]

    def to_network(self, picture: Tensor) -> Tensor:
        """uint8 [N, ...] to [N, channels, height, width] from 0 to 1."""
        channels_first = picture if self.is_channels_first else picture.movedim(-1, 1)
        # Convolutions on a CPU are up to twice as fast when a pixel's channels lie side by side in memory.
        return channels_first.to(torch.float32, memory_format=torch.channels_last) / 255.0

    def from_network(self, picture: Tensor) -> Tensor:
        """The reverse, from 0 to 255 as the observation has it, not rounded."""
        scaled = picture.clamp(0, 1) * 255.0
        return scaled if self.is_channels_first else scaled.movedim(1, -1)


def image_activation(channels: int, activation: Activation, norm: Norm) -> list[nn.Module]:
    """What follows a convolution; either norm is one over all channels and pixels of a picture."""
    norms: list[nn.Module] = [] if norm == "none" else [nn.GroupNorm(1, channels, EPSILON)]
    return [*norms, ACTIVATIONS[activation]()]

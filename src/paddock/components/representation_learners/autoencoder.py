"""Observations of any kind to one embedding, and features back to the observation that they stand for: images through
strided convolutions, all other numbers through an MLP."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.heads import symexp, symlog
from paddock.components.networks.images import image_shape, is_channels_first, split_parts, unit_image
from paddock.components.networks.mlp import (
    ACTIVATIONS,
    EPSILON,
    Activation,
    DenseConfig,
    Norm,
    dense,
    flatten_observation,
    scaled_linear,
    unflatten_observation,
)
from paddock.components.normalizers import RunningMoments
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

SMALLEST = 4  # pixels on a side at which convolutions stop
MIN_STD = 1e-2  # what hardly ever changed is not blown up
VECTOR = "numbers"
Predictions = dict[str, Tensor]


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
        self.part = part
        self.shape = image_shape(part)
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
        return unit_image(picture, self.part)

    def from_network(self, picture: Tensor) -> Tensor:
        """The reverse, from 0 to 255 as the observation has it, not rounded."""
        scaled = picture.clamp(0, 1) * 255.0
        return scaled if is_channels_first(self.part.shape) else scaled.movedim(1, -1)


def image_activation(channels: int, activation: Activation, norm: Norm) -> list[nn.Module]:
    """What follows a convolution; either norm is one over all channels and pixels of a picture."""
    norms: list[nn.Module] = [] if norm == "none" else [nn.GroupNorm(1, channels, EPSILON)]
    return [*norms, ACTIVATIONS[activation]()]


class ObservationDecoder(nn.Module):
    """Features [N, inputs] to predictions: each picture, and all numbers as one vector, as the encoder sees them."""

    def __init__(self, config: ObservationNetConfig, inputs: int, spec: Spec, encoder: ObservationEncoder) -> None:
        super().__init__()
        self.config = config
        self.spec = spec
        self.layouts, self.numbers = encoder.layouts, encoder.numbers
        self.seen = [encoder]  # In a list, so that it is not registered as a part of the decoder.
        last = config.units if config.layers else inputs
        if self.numbers:
            count = sum(spec.observation[name].size for name in self.numbers)
            self.perceptron = nn.Sequential(dense(inputs, config), scaled_linear(last, count))
        self.pictures = nn.ModuleDict({name: self._painter(layout, inputs) for name, layout in self.layouts.items()})

    def forward(self, features: Tensor) -> Predictions:
        predictions = {name: part(features) for name, part in self.pictures.items()}
        if self.numbers:
            predictions[VECTOR] = self.perceptron(features)
        return predictions

    def loss(self, predictions: Predictions, observation: dict[str, Tensor]) -> Tensor:
        """[N]: squared errors, summed over everything that is seen."""
        errors = [
            (predictions[name] - layout.to_network(observation[name])).square().flatten(1).sum(1)
            for name, layout in self.layouts.items()
        ]
        if self.numbers:
            errors.append((predictions[VECTOR] - self.seen[0].vector(observation)).square().sum(-1))
        return torch.stack(errors).sum(0)

    def to_observation(self, predictions: Predictions) -> dict[str, Tensor]:
        """Predictions as observation parts [N, ...], in the observation's own units."""
        parts = {name: layout.from_network(predictions[name]) for name, layout in self.layouts.items()}
        if self.numbers:
            shapes = {name: self.spec.observation[name].shape for name in self.numbers}
            parts |= unflatten_observation(self.seen[0].from_vector(predictions[VECTOR]), shapes)
        return {name: parts[name] for name in self.spec.observation}

    def _painter(self, layout: ImageLayout, inputs: int) -> nn.Module:
        shapes = layout.shapes(self.config.depth)[::-1]
        smallest = shapes[0]
        layers: list[nn.Module] = [scaled_linear(inputs, math.prod(smallest)), nn.Unflatten(1, smallest)]
        layers += image_activation(smallest[0], self.config.activation, self.config.norm)
        for before, after in pairwise(shapes):
            layers.append(nn.ConvTranspose2d(before[0], after[0], 4, 2, 1))
            if after is not shapes[-1]:
                layers += image_activation(after[0], self.config.activation, self.config.norm)
        return nn.Sequential(*layers, nn.Sigmoid())

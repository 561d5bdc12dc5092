"""A small convolutional encoder for pictures, with the numbers beside them."""

from __future__ import annotations

from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.mlp import ACTIVATIONS, MLP, MLPConfig, flatten_observation
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

KERNELS = (8, 4, 3)  # pixels on a side, by layer; the last goes on for further layers
STRIDES = (4, 2, 1)


class CNNConfig(MLPConfig):
    """Options of the convolutional encoder: channels by layer, and the perceptron that joins everything."""

    channels: list[int] = Field(default=[16, 32], min_length=1)


class CNN(nn.Module):
    """Observation parts to features [B, outputs]: convolutions over each picture (uint8, three axes, the shorter end
    is the channels), joined with all other numbers by a perceptron."""

    reads_parts = True

    def __init__(self, config: CNNConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.outputs = config.hidden[-1]
        pictures = {name: part for name, part in spec.observation.items() if is_picture(part)}
        if not pictures:
            raise InputError("the CNN needs a picture (uint8 with three axes) in the observation; use an MLP here.")
        self._numbers = [name for name in spec.observation if name not in pictures]
        self._is_channels_first = {name: part.shape[0] < part.shape[-1] for name, part in pictures.items()}
        self.convolutions = nn.ModuleDict({name: self._convolutions(part) for name, part in pictures.items()})
        with torch.no_grad():
            sizes = [
                self.convolutions[name](self._prepared(name, torch.zeros(1, *part.shape))).shape[1]
                for name, part in pictures.items()
            ]
        numbers = sum(max(spec.observation[name].size, 1) for name in self._numbers)
        self.joined = MLP(config, sum(sizes) + numbers)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        features = [part(self._prepared(name, observation[name])) for name, part in self.convolutions.items()]
        if self._numbers:
            features.append(flatten_observation({name: observation[name] for name in self._numbers}))
        return self.joined(torch.cat(features, -1))

    def _prepared(self, name: str, picture: Tensor) -> Tensor:
        """[B, channels, height, width] from -0.5 to 0.5."""
        channels_first = picture if self._is_channels_first[name] else picture.movedim(-1, 1)
        return channels_first.float() / 255.0 - 0.5

    def _convolutions(self, part: ArraySpec) -> nn.Sequential:
        depth = min(part.shape[0], part.shape[-1])
        layers: list[nn.Module] = []
        for index, (inputs, outputs) in enumerate(pairwise([depth, *self.config.channels])):
            kernel, stride = KERNELS[min(index, len(KERNELS) - 1)], STRIDES[min(index, len(STRIDES) - 1)]
            layers += [nn.Conv2d(inputs, outputs, kernel, stride), ACTIVATIONS[self.config.activation]()]
        return nn.Sequential(*layers, nn.Flatten())


def is_picture(part: ArraySpec) -> bool:
    """Whether an observation's part is to be convolved."""
    return part.dtype == "uint8" and len(part.shape) == 3

"""What networks that read pictures share: which parts of an observation are pictures, and how they join the numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paddock.components.networks.mlp import MLP, MLPConfig, flatten_observation
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec


class ImageEncoder(nn.Module):
    """Observation parts to features [B, outputs]: a network of its own reads each picture (uint8, three axes, the
    shorter end is the channels), and a perceptron joins all of them with all other numbers."""

    reads_parts = True

    def __init__(self, config: MLPConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.outputs = config.hidden[-1]
        pictures, self._numbers = split_parts(spec)
        if not pictures:
            name = type(self).__name__
            raise InputError(f"the {name} needs a picture (uint8 with three axes) in the observation; use an MLP here.")
        self._images = pictures
        self.convolutions = nn.ModuleDict({name: self._reader(*image_shape(part)) for name, part in pictures.items()})
        with torch.no_grad():
            sizes = [
                self.convolutions[name](self._prepared(name, torch.zeros(1, *part.shape))).shape[1]
                for name, part in pictures.items()
            ]
        numbers = sum(spec.observation[name].size for name in self._numbers)
        self.joined = MLP(config, sum(sizes) + numbers)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        features = [part(self._prepared(name, observation[name])) for name, part in self.convolutions.items()]
        if self._numbers:
            features.append(flatten_observation({name: observation[name] for name in self._numbers}))
        return self.joined(torch.cat(features, -1))

    def _reader(self, channels: int, height: int, width: int) -> nn.Module:
        """What reads one picture: [B, channels, height, width] from -0.5 to 0.5, to features [B, F]."""
        raise NotImplementedError

    def _prepared(self, name: str, picture: Tensor) -> Tensor:
        # A world model's images are from 0 to 1, because its decoder ends in a sigmoid; saved networks of both kinds
        # know nothing but their own range.
        return unit_image(picture, self._images[name]).sub_(0.5)


def split_parts(spec: Spec) -> tuple[dict[str, ArraySpec], list[str]]:
    """The pictures among an observation's parts, and the names of the others."""
    pictures = {name: part for name, part in spec.observation.items() if is_image(part)}
    return pictures, [name for name in spec.observation if name not in pictures]


def unit_image(picture: Tensor, part: ArraySpec) -> Tensor:
    """uint8 [N, ...] to [N, channels, height, width] from 0 to 1, in memory of its own."""
    channels_first = picture if is_channels_first(part.shape) else picture.movedim(-1, 1)
    # Convolutions on a CPU are up to twice as fast when a pixel's channels lie side by side in memory; bytes are
    # moved there, which is cheaper than moving what becomes of them.
    return channels_first.contiguous(memory_format=torch.channels_last) / 255.0


def image_shape(part: ArraySpec) -> tuple[int, int, int]:
    """(channels, height, width) of an image, whichever way it lies."""
    first, second, third = part.shape
    return (first, second, third) if is_channels_first(part.shape) else (third, first, second)


def is_channels_first(shape: tuple[int, ...]) -> bool:
    """Whether an image of this shape is [channels, height, width]: the shorter end is the channels."""
    return shape[0] < shape[-1]


def is_image(part: ArraySpec) -> bool:
    """Whether an observation's part is to be read as a picture."""
    return part.dtype == "uint8" and len(part.shape) == 3

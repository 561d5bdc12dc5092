"""Observations of any kind to one latent vector, as TD-MPC reads them: numbers by an MLP, images by a small CNN whose
pictures are shifted at random while it learns; several of them are projected and added up."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.images import image_shape, is_channels_first, split_parts, unit_image
from paddock.components.networks.latent_mlp import LatentMLPConfig, SimNorm, latent_mlp, normed_linear
from paddock.components.networks.mlp import flatten_observation
from paddock.core.errors import InputError
from paddock.core.specs import Spec

LAYERS = ((7, 2), (5, 2), (3, 2), (3, 1))  # kernel and stride of each convolution


class LatentEncoderConfig(LatentMLPConfig):
    """The MLP of numbers; channels of the convolutions, and by how many pixels images are shifted while learning."""

    channels: int = Field(default=32, ge=1)
    shift: int = Field(default=3, ge=0)


class LatentEncoder(nn.Module):
    """Observation parts [N, ...] to latents [N, L]."""

    def __init__(self, config: LatentEncoderConfig, spec: Spec, latent: int, simnorm: int | None) -> None:
        super().__init__()
        self.config = config
        self.pictures, self.numbers = split_parts(spec)
        self.convolutions = nn.ModuleDict()
        self.projections = nn.ModuleDict()
        for name, part in self.pictures.items():
            shape = image_shape(part)
            self.convolutions[name] = self._reader(name, shape)
            size = math.prod(_reduced(shape[1:])) * config.channels
            self.projections[name] = normed_linear(size, latent, config.weight_std)
        if self.numbers:
            count = sum(spec.observation[name].size for name in self.numbers)
            self.vector = latent_mlp(count, config, latent)
        self.output = nn.Sequential(*([] if simnorm is None else [nn.LayerNorm(latent), SimNorm(simnorm)]))

    def forward(self, observation: dict[str, Tensor], *, augments: bool = False) -> Tensor:
        latents = []
        for name, part in self.pictures.items():
            picture = observation[name]
            if augments and self.config.shift:
                picture = shifted(picture, self.config.shift, channels_first=is_channels_first(part.shape))
            read = self.convolutions[name](unit_image(picture, part).sub_(0.5))
            latents.append(self.projections[name](read.flatten(1)))
        if self.numbers:
            latents.append(self.vector(flatten_observation({name: observation[name] for name in self.numbers})))
        return self.output(torch.stack(latents).sum(0) if len(latents) > 1 else latents[0])

    def _reader(self, name: str, shape: tuple[int, int, int]) -> nn.Module:
        channels, height, width = shape
        if min(_reduced((height, width))) < 1:
            raise InputError(
                f"picture '{name}' has {height} x {width} pixels, too small for the encoder's convolutions; it needs "
                "at least 32 x 32. Choose a larger picture, for example 64 x 64."
            )
        layers: list[nn.Module] = []
        sizes = pairwise([channels, *[self.config.channels] * len(LAYERS)])
        for (before, after), (kernel, stride) in zip(sizes, LAYERS, strict=True):
            layers += [nn.Conv2d(before, after, kernel, stride), nn.ReLU()]
        return nn.Sequential(*layers[:-1])


def _reduced(sides: tuple[int, int]) -> tuple[int, ...]:
    """Height and width of an image behind the convolutions."""
    for kernel, stride in LAYERS:
        sides = tuple((side - kernel) // stride + 1 for side in sides)  # type: ignore[assignment]
    return sides


def shifted(pictures: Tensor, reach: int, *, channels_first: bool) -> Tensor:
    """Images [N, ...] each moved by up to `reach` pixels in both directions, their edges repeated (DrQ,
    arXiv:2004.13649)."""
    count = len(pictures)
    height, width = pictures.shape[2:] if channels_first else pictures.shape[1:3]
    moves = torch.randint(-reach, reach + 1, (2, count, 1), device=pictures.device)
    rows = (torch.arange(height, device=pictures.device) + moves[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=pictures.device) + moves[1]).clamp(0, width - 1)
    images = torch.arange(count, device=pictures.device)[:, None, None]
    pixels = pictures.movedim(1, -1) if channels_first else pictures
    moved = pixels[images, rows[:, :, None], columns[:, None, :]]
    return moved.movedim(-1, 1) if channels_first else moved

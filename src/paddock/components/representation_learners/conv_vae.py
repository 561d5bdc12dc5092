"""The variational autoencoder of World Models (Sec. 3.1, arXiv:1803.10122): one picture to a small Gaussian latent, and
back. Numbers beside the picture are standardized and go along as latents that are known exactly.

Shapes: N observations, L latent numbers, of which Z stand for the picture.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from paddock.components.networks.images import image_shape, is_channels_first, split_parts, unit_image
from paddock.components.representation_learners.identity import KNOWN, Numbers
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec

ENCODER_KERNEL, STRIDE = 4, 2
LOG_VARIANCE_LIMIT = 10.0  # Far outside of what is learned; keeps an exponential finite.
Losses = dict[str, Tensor]


class ConvVAEConfig(TargetSchema):
    """Sizes of the autoencoder. The encoder halves the picture once for each of `channels`; the decoder begins with one
    pixel and enlarges it by a transposed convolution for each of `decoder_kernels`.

    free_nats: KL of the whole latent below which it costs nothing, for each of the picture's latent numbers.
    """

    latent: int = Field(default=32, ge=1)
    channels: list[int] = Field(default=[32, 64, 128, 256], min_length=1)
    decoder_kernels: list[int] = Field(default=[5, 5, 6, 6], min_length=1)
    free_nats: float = Field(default=0.5, ge=0)

    @model_validator(mode="after")
    def _check(self) -> ConvVAEConfig:
        if len(self.decoder_kernels) != len(self.channels):
            raise ValueError("decoder_kernels needs as many entries as channels")
        return self

    def latent_size(self, spec: Spec) -> int:
        """L: the picture's latent numbers and the observation's other numbers."""
        return self.latent + sum(spec.observation[name].size for name in split_parts(spec)[1])


class ConvVAE(nn.Module):
    """Observation parts [N, ...] to means and log-variances [N, L], and latents [N, L] to observation parts."""

    def __init__(self, config: ConvVAEConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        pictures, numbers = split_parts(spec)
        if len(pictures) != 1:
            raise InputError(
                f"the autoencoder reads one picture, and the observation has {len(pictures)}: "
                f"{', '.join(spec.observation)}. Choose an observation with one picture, or for numbers alone "
                "components/representation_learners/identity.py (IdentityRepresentation)."
            )
        ((self.name, self.part),) = pictures.items()
        self.spec = spec
        self.numbers = Numbers(spec.only(numbers)) if numbers else None
        self.latent_size = config.latent_size(spec)
        shape = image_shape(self.part)
        self.encoder, flat = _encoder(config, shape)
        self.mean, self.log_variance = nn.Linear(flat, config.latent), nn.Linear(flat, config.latent)
        self.decoder = _decoder(config, shape, flat)

    def encode(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Means and log-variances [N, L] of what is seen."""
        mean, log_variance = self._encode_picture(unit_image(observation[self.name], self.part))
        if self.numbers is None:
            return mean, log_variance
        known = self.numbers(observation)
        return torch.cat([mean, known], -1), torch.cat([log_variance, torch.full_like(known, KNOWN)], -1)

    def decode(self, latent: Tensor) -> dict[str, Tensor]:
        """Observation parts [N, ...] in their own units; pictures from 0 to 255, not rounded."""
        picture = self.decoder(latent[..., : self.config.latent]) * 255.0
        parts = {self.name: picture if is_channels_first(self.part.shape) else picture.movedim(1, -1)}
        if self.numbers is not None:
            parts |= self.numbers.inverse(latent[..., self.config.latent :])
        return {name: parts[name] for name in self.spec.observation}

    def losses(self, observation: dict[str, Tensor]) -> Losses:
        """[]: squared errors of a picture, summed, and the KL beyond the free nats; means over N pictures."""
        picture = unit_image(observation[self.name], self.part)
        mean, log_variance = self._encode_picture(picture)
        error = (self.decoder(sample_latent(mean, log_variance)) - picture).square().flatten(1).sum(1)
        kl = kl_to_unit_normal(mean, log_variance)
        free = self.config.free_nats * self.config.latent
        return {"reconstruction": error.mean(), "kl": kl.clamp(min=free).mean()}

    def learn_scale(self, observation: dict[str, Tensor]) -> None:
        """Take parts [N, ...] into what the numbers are standardized by."""
        if self.numbers is not None:
            self.numbers.learn_scale(observation)

    def _encode_picture(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encoder(picture)
        return self.mean(features), self.log_variance(features).clamp(-LOG_VARIANCE_LIMIT, LOG_VARIANCE_LIMIT)


def sample_latent(mean: Tensor, log_variance: Tensor) -> Tensor:
    """A draw of each latent, with gradients to both."""
    return torch.addcmul(mean, (0.5 * log_variance).exp(), torch.randn_like(mean))


def kl_to_unit_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    """[N]: KL of N(mean, exp(log_variance)) [N, Z] from N(0, 1), summed over the latent."""
    return 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(-1)


def _encoder(config: ConvVAEConfig, shape: tuple[int, int, int]) -> tuple[nn.Sequential, int]:
    """Convolutions of the picture, and how many numbers they end with."""
    layers: list[nn.Module] = []
    _, height, width = shape
    for inputs, outputs in pairwise([shape[0], *config.channels]):
        layers += [nn.Conv2d(inputs, outputs, ENCODER_KERNEL, STRIDE), nn.ReLU()]
        height, width = ((side - ENCODER_KERNEL) // STRIDE + 1 for side in (height, width))
    if min(height, width) < 1:
        raise InputError(
            f"a picture of {shape[1]} x {shape[2]} pixels is too small for {len(config.channels)} layers; give fewer "
            "channels, or a larger picture."
        )
    return nn.Sequential(*layers, nn.Flatten()), config.channels[-1] * height * width


def _decoder(config: ConvVAEConfig, shape: tuple[int, int, int], flat: int) -> nn.Sequential:
    side = 1
    for kernel in config.decoder_kernels:
        side = (side - 1) * STRIDE + kernel
    if shape[1:] != (side, side):
        raise InputError(
            f"decoder_kernels = {config.decoder_kernels} paint {side} x {side} pixels, and the picture has "
            f"{shape[1]} x {shape[2]}. For 64 pixels take [5, 5, 6, 6], for 16 take [5, 8]."
        )
    channels = [flat, *reversed(config.channels[:-1]), shape[0]]
    layers: list[nn.Module] = [nn.Linear(config.latent, flat), nn.Unflatten(1, (flat, 1, 1))]
    for (inputs, outputs), kernel in zip(pairwise(channels), config.decoder_kernels, strict=True):
        layers += [nn.ConvTranspose2d(inputs, outputs, kernel, STRIDE), nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.Sigmoid())


def parameter_count(component: nn.Module) -> int:
    """Numbers that are learned."""
    return sum(math.prod(parameter.shape) for parameter in component.parameters())

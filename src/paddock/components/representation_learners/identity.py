"""Observations of numbers alone as their own latent: each number standardized, known exactly.

Shapes: N observations, L numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paddock.components.networks.images import split_parts
from paddock.components.networks.mlp import flatten_observation, unflatten_observation
from paddock.components.normalizers import RunningMoments
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec

KNOWN = -9.0  # log-variance of a number that is seen as it is: a deviation of 0.01
LIMIT = 10.0  # deviations that a number may be off its mean
MIN_STD = 1e-2  # what hardly ever changed is not blown up


class Numbers(nn.Module):
    """The numbers of an observation at unit scale, [N, L], and back."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.shapes = {name: part.shape for name, part in spec.observation.items()}
        self.moments = RunningMoments((sum(part.size for part in spec.observation.values()),), MIN_STD)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        return self.moments(self._flat(observation)).clamp(-LIMIT, LIMIT)

    def inverse(self, numbers: Tensor) -> dict[str, Tensor]:
        """Observation parts [N, ...] in their own units."""
        return unflatten_observation(self.moments.inverse(numbers), self.shapes)

    def learn_scale(self, observation: dict[str, Tensor]) -> None:
        self.moments.update(self._flat(observation))

    def _flat(self, observation: dict[str, Tensor]) -> Tensor:
        return flatten_observation({name: observation[name] for name in self.shapes})


class IdentityConfig(TargetSchema):
    """Nothing to choose."""

    def latent_size(self, spec: Spec) -> int:
        """L: every number of the observation."""
        return sum(part.size for part in spec.observation.values())


class IdentityRepresentation(nn.Module):
    """In place of an autoencoder where nothing has to be learned in order to see."""

    def __init__(self, config: IdentityConfig, spec: Spec) -> None:
        super().__init__()
        if pictures := list(split_parts(spec)[0]):
            raise InputError(
                f"{', '.join(pictures)} is a picture, which is no latent by itself. Choose an observation of numbers, "
                "or components/representation_learners/conv_vae.py (ConvVAE)."
            )
        self.config = config
        self.numbers = Numbers(spec)
        self.latent_size = config.latent_size(spec)

    def encode(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Means and log-variances [N, L]."""
        known = self.numbers(observation)
        return known, torch.full_like(known, KNOWN)

    def decode(self, latent: Tensor) -> dict[str, Tensor]:
        """Observation parts [N, ...] in their own units."""
        return self.numbers.inverse(latent)

    def losses(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """Nothing is learned."""
        return {}

    def learn_scale(self, observation: dict[str, Tensor]) -> None:
        """Take parts [N, ...] into what the numbers are standardized by."""
        self.numbers.learn_scale(observation)

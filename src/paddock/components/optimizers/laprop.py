"""The optimizer of DreamerV3 (2024): gradients clipped by the size of what they move, scaled by their root mean square,
then given momentum (LaProp, arXiv:2002.04839), at a learning rate that warms up, and may fade."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import nn

from paddock.components.optimizers.adam import Adam, AdamConfig, Flat
from paddock.components.torch_internals import multiply_each, norm_each

SMALLEST_NORM = 1e-3  # of a parameter, for clipping: what begins at zero has to be able to move
MOMENTUM, MEMORY = 0.9, 0.999


class LaPropConfig(AdamConfig):
    """Options of LaProp. `adaptive_clip` bounds each parameter's gradient by so much of the parameter's own norm
    (arXiv:2102.06171); `warm_up` is the number of steps until the learning rate is full, `half_life` that after which
    half of it is left."""

    adaptive_clip: float | None = Field(default=0.3, gt=0)
    warm_up: int = Field(default=0, ge=0)
    half_life: int | None = Field(default=None, ge=1)


class LaProp(Adam):
    """Like Adam over named components, but momentum is of gradients that are scaled already: a sudden large one cannot
    move anything far."""

    config: LaPropConfig

    def __init__(self, config: LaPropConfig, components: Mapping[str, nn.Module]) -> None:
        super().__init__(config, components)

    @torch.no_grad()
    def _step(self, flats: list[Flat]) -> None:
        for flat in flats:
            if self.config.adaptive_clip is not None:
                clip_adaptively(flat, self.config.adaptive_clip)
            flat.step += 1
            count = flat.step.item()
            flat.second.mul_(MEMORY).addcmul_(flat.gradient, flat.gradient, value=1 - MEMORY)
            root = (flat.second / (1 - MEMORY**count)).sqrt_().add_(self.config.epsilon)
            flat.first.lerp_(flat.gradient / root, 1 - MOMENTUM)
            rate = self.learning_rate * self._scales[flat.name] * min(1.0, count / max(self.config.warm_up, 1))
            if self.config.half_life is not None:
                rate *= 0.5 ** (count / self.config.half_life)
            if self.config.weight_decay:
                flat.values.mul_(1 - rate * self.config.weight_decay)
            flat.values.sub_(flat.first, alpha=rate / (1 - MOMENTUM**count))


def clip_adaptively(flat: Flat, share: float) -> None:
    """Scale down each parameter's gradient to at most `share` of the parameter's norm."""
    gradients = torch.stack(norm_each(flat.gradients))
    values = torch.stack(norm_each([parameter.detach() for parameter in flat.parameters]))
    factors = (share * values.clamp(min=SMALLEST_NORM) / gradients.clamp(min=1e-12)).clamp(max=1.0)
    multiply_each(flat.gradients, list(factors.unbind()))

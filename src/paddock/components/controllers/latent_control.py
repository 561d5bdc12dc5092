"""Policy and value over the latents of a world model: features in, no observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.actions import Categorical, Gaussian, SquashedGaussian
from paddock.components.controllers.mean_init import start_mean_at
from paddock.components.dynamics.rssm import RSSMConfig
from paddock.components.networks.heads import NumberHead, NumberHeadConfig
from paddock.components.networks.mlp import DenseConfig, dense, scaled_linear
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec

MEAN_LIMIT = 5.0  # of a squashed policy, before the tanh: farther out there is no gradient
Distribution = Categorical | Gaussian | SquashedGaussian


def stacked(distributions: Sequence[Distribution]) -> Distribution:
    """Distributions of one kind over [N], H of them, as one over [H, N]."""
    parts = [tuple(vars(one).values()) for one in distributions]
    return type(distributions[0])(*(torch.stack(part) for part in zip(*parts, strict=True)))


class LatentPolicyConfig(DenseConfig, TargetSchema):
    """Options of a policy over latents. Continuous actions are `bounded` (a normal whose mean is within +-1 and whose
    standard deviation is within `std`) or `squashed` (the tanh of a normal, whose deviation begins at `std[1]`). They
    begin about `mean_init`."""

    latent: RSSMConfig
    continuous: Literal["bounded", "squashed"] = "bounded"
    std: tuple[float, float] = (0.1, 1.0)
    unimix: float = Field(default=0.01, ge=0, lt=1)
    output_scale: float = Field(default=0.01, ge=0)
    mean_init: list[float] | None = None


class LatentPolicy(nn.Module):
    """Features [..., F] to a distribution over actions: choices [...] or numbers [..., A]."""

    def __init__(self, config: LatentPolicyConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.choices = spec.action.choices
        self.hidden = dense(config.latent.features, config)
        outputs = 2 * spec.action.size if self.choices is None else self.choices
        self.output = scaled_linear(config.units, outputs, config.output_scale)
        if self.choices is not None and config.mean_init is not None:
            raise InputError(f"mean_init = {config.mean_init}; it is for continuous actions, and these are choices.")
        start_mean_at(self.output, config.mean_init, spec.action.size, squashed=True)
        if config.mean_init is not None and config.continuous == "squashed":
            with torch.no_grad():
                self.output.bias.div_(MEAN_LIMIT).atanh_().mul_(MEAN_LIMIT)

    def forward(self, features: Tensor) -> Distribution:
        outputs = self.output(self.hidden(features))
        if self.choices is not None:
            return self._categorical(outputs)
        low, high = self.config.std
        mean, raw = outputs.chunk(2, -1)
        if self.config.continuous == "bounded":
            std = low + (high - low) * (raw + 2).sigmoid()
            return Gaussian(mean.tanh(), std.log())
        begin = torch.tensor(high - low).expm1().log()
        std = nn.functional.softplus(raw + begin) + low
        return SquashedGaussian(MEAN_LIMIT * (mean / MEAN_LIMIT).tanh(), std.log())

    def _categorical(self, logits: Tensor) -> Categorical:
        share = self.config.unimix
        if not share:
            return Categorical(logits)
        return Categorical(((1 - share) * logits.softmax(-1) + share / logits.shape[-1]).log())


class LatentValueConfig(NumberHeadConfig, TargetSchema):
    """Options of a value over latents."""

    latent: RSSMConfig


class LatentValue(NumberHead):
    """Features [..., F] to what describes the expected return; see NumberHead."""

    def __init__(self, config: LatentValueConfig, spec: Spec) -> None:
        super().__init__(config, config.latent.features)
        self.config = config

"""The policy of TD-MPC: it proposes actions to the planner and stands for what follows a plan's horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.actions import Categorical, SquashedGaussian
from paddock.components.networks.latent_mlp import LatentMLPConfig, latent_mlp
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec


@dataclass(frozen=True)
class NoisyAction:
    """A deterministic action [..., A] in [-1, 1], and noise of deviation `std` cut to +-`clip` (TD3's, used everywhere
    in arXiv:2203.04955). Cutting does not stop the gradient."""

    mean: Tensor
    std: float
    clip: float

    def sample(self) -> Tensor:
        return self.sample_with_log_prob(torch.randn_like(self.mean))[0]

    def mode(self) -> Tensor:
        return self.mean

    def sample_with_log_prob(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The action that standard normal `noise` leads to; it has no entropy that counts: zeros [...]."""
        moved = (self.mean + (noise * self.std).clamp(-self.clip, self.clip)).detach().clamp(-1, 1)
        return self.mean + (moved - self.mean.detach()), torch.zeros_like(self.mean[..., 0])


Prior = Categorical | SquashedGaussian | NoisyAction


class PolicyPriorConfig(LatentMLPConfig, TargetSchema):
    """Options of the policy. Continuous actions are `squashed` (the tanh of a normal whose log std is within
    `log_std_range`) or `noisy` (a tanh with noise of deviation `std`, cut to +-`clip`)."""

    inputs: int = Field(ge=1)
    continuous: Literal["squashed", "noisy"] = "squashed"
    log_std_range: tuple[float, float] = (-10.0, 2.0)
    std: float = Field(default=0.05, ge=0)
    clip: float = Field(default=0.3, gt=0)


class PolicyPrior(nn.Module):
    """Features [..., F] to a distribution over actions: choices [...] or numbers [..., A]."""

    def __init__(self, config: PolicyPriorConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.choices = spec.action.choices
        each = 2 if config.continuous == "squashed" else 1
        self.network = latent_mlp(config.inputs, config, self.choices or each * spec.action.size)

    def forward(self, features: Tensor) -> Prior:
        outputs = self.network(features)
        if self.choices is not None:
            return Categorical(outputs)
        if self.config.continuous == "noisy":
            return NoisyAction(outputs.tanh(), self.config.std, self.config.clip)
        mean, raw = outputs.chunk(2, -1)
        low, high = self.config.log_std_range
        return SquashedGaussian(mean, low + 0.5 * (high - low) * (raw.tanh() + 1))

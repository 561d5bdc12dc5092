"""The policy of soft actor-critic: a Gaussian whose spread depends on the state, squashed into [-1, 1]."""

from __future__ import annotations

from pydantic import Field, model_validator
from torch import Tensor, nn

from paddock.components.actions import SquashedGaussian
from paddock.components.controllers.mean_init import start_mean_at
from paddock.components.networks.building import build_network
from paddock.components.networks.mlp import encode, linear
from paddock.config.schema import Part, TargetSchema
from paddock.core.specs import Spec


class SquashedPolicyConfig(TargetSchema):
    """Options of a squashed Gaussian policy."""

    network: Part
    log_std_range: tuple[float, float] = (-20.0, 2.0)
    mean_init: list[float] | None = None
    head_gain: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check(self) -> SquashedPolicyConfig:
        if self.log_std_range[0] >= self.log_std_range[1]:
            raise ValueError(f"log_std_range goes from low to high, not {list(self.log_std_range)}")
        return self


class SquashedPolicy(nn.Module):
    """Observation parts [B, ...] to a distribution over actions [B, A] in [-1, 1]."""

    def __init__(self, config: SquashedPolicyConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.network = build_network(config.network, spec)
        self.size = spec.action.size
        self.head = linear(self.network.outputs, 2 * self.size, gain=config.head_gain)
        start_mean_at(self.head, config.mean_init, self.size, squashed=True)

    def forward(self, observation: dict[str, Tensor]) -> SquashedGaussian:
        mean, log_std = self.head(encode(self.network, observation)).chunk(2, -1)
        return SquashedGaussian(mean, log_std.clamp(*self.config.log_std_range))

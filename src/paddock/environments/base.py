"""What every environment's configuration has. Its owner is `make(config, num_envs, render_mode) -> VectorEnv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError

Vectorization = Literal["sync", "async", "custom"]


class SingleCopyError(InputError):
    """Several copies were asked for of an environment that exists once."""


class EnvironmentConfig(TargetSchema):
    """The base of environment schemas."""

    num_envs: int = Field(ge=1)

    @property
    def reward_phases(self) -> Mapping[str, Mapping[str, float]]:
        """The weights that the reward set changes as a phase of training begins, by the phase's name."""
        return {}

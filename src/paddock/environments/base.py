"""What every environment's configuration has. Its owner is `make(config, num_envs, render_mode) -> VectorEnv`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from paddock.config.schema import TargetSchema

Vectorization = Literal["sync", "async", "custom"]


class EnvironmentConfig(TargetSchema):
    """The base of environment schemas."""

    num_envs: int = Field(ge=1)

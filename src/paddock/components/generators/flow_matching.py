"""Flow matching (arXiv:2210.02747) along straight lines: a velocity carries noise at time 0 to actions at time 1.

Shapes: B chunks, T steps, A numbers of an action.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.generators.protocol import Committed, Lesson, Predict
from paddock.config.schema import TargetSchema

BETA_POWER, BETA_REACH = 1.5, 0.999  # of Beta(1.5, 1), as in arXiv:2410.24164


class FlowMatchingConfig(TargetSchema):
    """steps: Euler steps from noise to a chunk. times: how times of training are drawn, `uniform` or by Beta(1.5, 1)
    towards the noise."""

    steps: int = Field(default=5, ge=1, le=100)
    times: Literal["uniform", "beta"] = "uniform"


class FlowMatching:
    """The network predicts the velocity from noise to actions."""

    def __init__(self, config: FlowMatchingConfig) -> None:
        self.config = config

    def lesson(self, actions: Tensor) -> Lesson:
        noise = torch.randn_like(actions)
        time = flow_times(len(actions), self.config.times).to(actions.device)
        return Lesson(interpolate(noise, actions, time), time, actions - noise)

    def generate(self, predict: Predict, noise: Tensor, committed: Committed) -> Tensor:
        return integrate(predict, noise, self.config.steps, committed).clamp(-1, 1)


def flow_times(count: int, times: str) -> Tensor:
    """[B] from 0 (noise) to 1 (actions)."""
    uniform = torch.rand(count)
    if times == "uniform":
        return uniform
    # The inverse of the distribution function of Beta(a, 1) is u^(1 / a).
    return 1.0 - BETA_REACH * uniform.pow(1 / BETA_POWER)


def interpolate(noise: Tensor, actions: Tensor, time: Tensor) -> Tensor:
    """The point [B, T, A] at time [B] on the line from noise to actions."""
    return torch.lerp(noise, actions, time.view(-1, 1, 1))


def integrate(predict: Predict, noise: Tensor, steps: int, committed: Committed) -> Tensor:
    """Follow the velocity in Euler steps of 1 / steps; fixed actions are held all the way."""
    chunk = committed.put_into(noise)
    for step in range(steps):
        time = noise.new_full((len(noise),), step / steps)
        chunk = committed.put_into(chunk + predict(chunk, time) / steps)
    return chunk

"""Regression as a generator: one pass of the same network, which sees no noise, gives the mean of the chunks."""

from __future__ import annotations

import torch
from torch import Tensor

from paddock.components.generators.protocol import Committed, Lesson, Predict
from paddock.config.schema import TargetSchema


class RegressionConfig(TargetSchema):
    """Nothing to choose."""


class Regression:
    """The answer itself is the chunk."""

    def __init__(self, config: RegressionConfig) -> None:
        self.config = config

    def lesson(self, actions: Tensor) -> Lesson:
        return Lesson(torch.zeros_like(actions), actions.new_zeros(len(actions)), actions)

    def generate(self, predict: Predict, noise: Tensor, committed: Committed) -> Tensor:
        empty = committed.put_into(torch.zeros_like(noise))
        return committed.put_into(predict(empty, noise.new_zeros(len(noise)))).clamp(-1, 1)

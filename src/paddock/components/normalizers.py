"""Running statistics that bring observations, rewards and returns to unit scale; saved with the policy as buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from paddock.components.learning import is_frozen
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec


class NormalizerConfig(TargetSchema):
    """Options of an observation normaliser."""

    enabled: bool = True
    clip: float = Field(default=10.0, gt=0)
    min_std: float = Field(default=1e-4, gt=0)


class ObservationNormalizer(nn.Module):
    """Zero mean and unit variance for every number of a float observation; images (uint8) pass through."""

    def __init__(self, config: NormalizerConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        floats = {name: part for name, part in spec.observation.items() if part.dtype.startswith("float")}
        self.statistics = nn.ModuleDict(
            {name: RunningMoments(part.shape, config.min_std) for name, part in floats.items()}
        )

    def forward(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        if not self.config.enabled:
            return observation
        return {
            name: self.statistics[name](part).clamp(-self.config.clip, self.config.clip)
            if name in self.statistics
            else part
            for name, part in observation.items()
        }

    def scaling(self, parts: Sequence[str] | None) -> NDArray[np.float32]:
        """[3, D] of the named parts (None for all) laid end to end by name: what is taken from a number, what it is
        times then, and how large it may become. All of them have to be floats."""
        names = sorted(self.statistics if parts is None else parts)
        statistics: list[Any] = [self.statistics[name] for name in names]
        offsets = [part.offset.numpy().ravel() for part in statistics]
        scaling = np.empty((3, sum(map(len, offsets))), np.float32)
        if self.config.enabled:
            np.concatenate(offsets, out=scaling[0])
            np.concatenate([part.inverse_deviation.numpy().ravel() for part in statistics], out=scaling[1])
            scaling[2] = self.config.clip
        else:
            scaling[...] = [[0.0], [1.0], [np.inf]]
        return scaling

    def update(self, observation: dict[str, Tensor]) -> None:
        """Learn from a batch; parts [..., *shape]."""
        if self.config.enabled and not is_frozen(self):
            for name, statistics in self.statistics.items():
                assert isinstance(statistics, RunningMoments)
                statistics.update(observation[name])


class RewardNormalizer(nn.Module):
    """Divides rewards by the running deviation of the discounted return, so that values are of order one."""

    def __init__(self, config: NormalizerConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.statistics = RunningMoments((), config.min_std)
        self.running_return: Tensor | None = None  # [B], of the episodes under way

    def forward(self, reward: Tensor) -> Tensor:
        if not self.config.enabled:
            return reward
        return (reward * self.statistics.inverse_deviation).clamp(-self.config.clip, self.config.clip)

    @torch.no_grad()
    def update(self, reward: Tensor, done: Tensor, gamma: float) -> None:
        """Learn from a rollout; `reward` and `done` are [T, B]."""
        if not self.config.enabled or is_frozen(self):
            return
        reward, goes_on = reward.double(), (~done).double()
        running = torch.zeros_like(reward[0]) if self.running_return is None else self.running_return.to(reward.device)
        returns = torch.empty_like(reward)
        for t in range(len(reward)):
            running = running * gamma + reward[t]
            returns[t] = running
            running = running * goes_on[t]
        self.running_return = running
        self.statistics.update(returns)

    def get_extra_state(self) -> Tensor:
        return torch.zeros(0, dtype=torch.float64) if self.running_return is None else self.running_return.clone()

    def set_extra_state(self, state: Tensor) -> None:
        self.running_return = state.clone() if state.numel() else None


class RunningMoments(nn.Module):
    """Mean and variance of all batches seen, merged by Chan's parallel formula in double precision."""

    mean: Tensor
    variance: Tensor
    count: Tensor
    offset: Tensor
    inverse_deviation: Tensor

    def __init__(self, shape: tuple[int, ...], min_std: float = 1e-4) -> None:
        super().__init__()
        self.shape = shape
        self.least_variance = min_std**2
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        # The same in single precision, ready for use.
        self.register_buffer("offset", torch.zeros(shape))
        self.register_buffer("inverse_deviation", torch.ones(shape))

    def forward(self, values: Tensor) -> Tensor:
        return (values - self.offset) * self.inverse_deviation

    def inverse(self, scaled: Tensor) -> Tensor:
        """Values in their own units again."""
        return scaled / self.inverse_deviation + self.offset

    @torch.no_grad()
    def update(self, values: Tensor) -> None:
        rows = values.reshape(-1, *self.shape)
        count = rows.shape[0]
        # Two passes: sums of differences from a near mean lose nothing in single precision, and are fast.
        near = rows.mean(0)
        differences = rows - near
        rest = differences.mean(0).double()
        batch_mean = near.double() + rest
        batch_variance = differences.square_().mean(0).double() - rest.square()
        total = self.count + count
        difference = batch_mean - self.mean
        squares = self.variance * self.count + batch_variance * count
        squares += difference.square() * self.count * count / total
        self.mean += difference * count / total
        self.variance.copy_(squares / total)
        self.count.copy_(total)
        self.offset.copy_(self.mean)
        self.inverse_deviation.copy_((self.variance + self.least_variance).rsqrt())


class ReturnScaleConfig(TargetSchema):
    """Options of the scale: a moving average of the range between two percentiles, never below `least`."""

    enabled: bool = True
    rate: float = Field(default=0.01, gt=0, le=1)
    low: float = Field(default=0.05, ge=0, lt=1)
    high: float = Field(default=0.95, gt=0, le=1)
    least: float = Field(default=1.0, gt=0)


class ReturnScale(nn.Module):
    """Eq. 12, arXiv:2301.04104. Small returns are not blown up: where nothing is to be had, randomness wins."""

    range: Tensor
    total: Tensor

    def __init__(self, config: ReturnScaleConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("range", torch.zeros(()))
        self.register_buffer("total", torch.zeros(()))

    @torch.no_grad()
    def update(self, returns: Tensor) -> None:
        """Learn from returns of any shape."""
        if self.config.enabled and not is_frozen(self):
            limits = torch.tensor([self.config.low, self.config.high], device=returns.device)
            low, high = returns.flatten().float().quantile(limits)
            self.range.lerp_(high - low, self.config.rate)
            self.total.lerp_(torch.ones_like(self.total), self.config.rate)

    def forward(self) -> Tensor:
        """[]: what to divide by; the moving average is of what was seen, not of the zero that it began with."""
        if not self.config.enabled:
            return torch.ones_like(self.range)
        return (self.range / self.total.clamp(min=1e-8)).clamp(min=self.config.least)

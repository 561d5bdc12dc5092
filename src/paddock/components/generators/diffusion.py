"""Denoising diffusion of action chunks: DDPM (arXiv:2006.11239) and DDIM (arXiv:2010.02502), cosine schedule.

Shapes: B chunks, T steps, A numbers of an action, K steps of noise.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from paddock.components.generators.protocol import Committed, Lesson, Predict
from paddock.config.schema import TargetSchema

OFFSET, LARGEST_BETA = 0.008, 0.999  # of the squared cosine schedule, arXiv:2102.09672


class DiffusionConfig(TargetSchema):
    """noise_steps: K. sampler: `ddpm` takes all of them, `ddim` takes `steps` of them without new noise."""

    noise_steps: int = Field(default=100, ge=2)
    sampler: Literal["ddpm", "ddim"] = "ddim"
    steps: int = Field(default=10, ge=1)

    @model_validator(mode="after")
    def _check(self) -> DiffusionConfig:
        if self.sampler == "ddim" and self.steps > self.noise_steps:
            raise ValueError(f"steps = {self.steps} are more than noise_steps = {self.noise_steps}; take at most those")
        return self


class Diffusion:
    """The network predicts the noise."""

    def __init__(self, config: DiffusionConfig) -> None:
        self.config = config
        self.kept = kept_shares(config.noise_steps)

    def lesson(self, actions: Tensor) -> Lesson:
        noise = torch.randn_like(actions)
        level = torch.randint(self.config.noise_steps, (len(actions),))
        return Lesson(self._noisy(actions, noise, level), self._time(level, actions), noise)

    def generate(self, predict: Predict, noise: Tensor, committed: Committed) -> Tensor:
        chunk = committed.put_into(noise)
        levels = self._levels()
        for level, following in zip(levels, [*levels[1:], -1], strict=True):
            time = self._time(torch.full((len(noise),), level), noise)
            found = predict(chunk, time)
            step = self._ddpm_step if self.config.sampler == "ddpm" else self._ddim_step
            chunk = committed.put_into(step(chunk, found, level, following))
        return chunk.clamp(-1, 1)

    def _levels(self) -> list[int]:
        """The noise levels that sampling visits, from the most noise to the least."""
        count = self.config.noise_steps
        ratio = 1 if self.config.sampler == "ddpm" else count // self.config.steps
        visited = count if self.config.sampler == "ddpm" else self.config.steps
        return [step * ratio for step in reversed(range(visited))]

    def _noisy(self, actions: Tensor, noise: Tensor, level: Tensor) -> Tensor:
        """Eq. 4, arXiv:2006.11239."""
        kept = self.kept[level].to(actions).view(-1, 1, 1)
        return kept.sqrt() * actions + (1 - kept).sqrt() * noise

    def _clean(self, chunk: Tensor, noise: Tensor, kept: float) -> Tensor:
        """The actions that a noisy chunk and its noise belong to; clipped, since actions are normalised."""
        return ((chunk - math.sqrt(1 - kept) * noise) / math.sqrt(kept)).clamp(-1, 1)

    def _ddpm_step(self, chunk: Tensor, noise: Tensor, level: int, following: int) -> Tensor:
        """Eq. 7, arXiv:2006.11239, with the small variance; the last step adds no noise."""
        kept, before = float(self.kept[level]), self._share(following)
        alpha = kept / before
        beta = 1 - alpha
        clean = self._clean(chunk, noise, kept)
        mean = (math.sqrt(before) * beta * clean + math.sqrt(alpha) * (1 - before) * chunk) / (1 - kept)
        if following < 0:
            return mean
        variance = beta * (1 - before) / (1 - kept)
        return mean + math.sqrt(variance) * torch.randn_like(chunk)

    def _ddim_step(self, chunk: Tensor, noise: Tensor, level: int, following: int) -> Tensor:
        """Eq. 12, arXiv:2010.02502, with eta 0; the noise is that of the clipped actions."""
        kept, before = float(self.kept[level]), self._share(following)
        clean = self._clean(chunk, noise, kept)
        noise = (chunk - math.sqrt(kept) * clean) / math.sqrt(1 - kept)
        return math.sqrt(before) * clean + math.sqrt(1 - before) * noise

    def _share(self, level: int) -> float:
        """The share of the signal at a level; below the first one nothing is noise."""
        return float(self.kept[level]) if level >= 0 else 1.0

    def _time(self, level: Tensor, like: Tensor) -> Tensor:
        return (level.to(like.device).to(like.dtype) / self.config.noise_steps).to(like)


def kept_shares(noise_steps: int) -> Tensor:
    """[K], alpha bar: the share of the signal's variance that is left at each level, by a squared cosine."""

    def signal(time: float) -> float:
        return math.cos((time + OFFSET) / (1 + OFFSET) * math.pi / 2) ** 2

    betas = [
        min(1 - signal((level + 1) / noise_steps) / signal(level / noise_steps), LARGEST_BETA)
        for level in range(noise_steps)
    ]
    return (1 - torch.tensor(betas, dtype=torch.float64)).cumprod(0)

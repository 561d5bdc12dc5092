"""Actions: as the vectors that models read, distributions over them on raw network outputs, and random numbers.

A vector holds numbers in [-1, 1], or a choice as one of K. Distributions are light enough to be used inside a loop.
Of a batch that is worked on in pieces every piece gets the random numbers that its rows have in the whole: it draws for
all rows and keeps its own, so that neither ranks nor pieces change what is drawn, and all generators stand at the same
place afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from paddock.core.specs import ArraySpec

Shape = tuple[int, ...]
LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
LOG_TWO = math.log(2)


def vector_size(action: ArraySpec) -> int:
    """A: numbers in an action's vector."""
    return action.choices if action.choices is not None else action.size


def to_vector(actions: Tensor, action: ArraySpec) -> Tensor:
    """Actions as policies give and buffers hold them, [..., *shape] or choices [...], to vectors [..., A]."""
    if action.choices is not None:
        return (actions.unsqueeze(-1) == torch.arange(action.choices, device=actions.device)).float()
    lead = actions.shape[: actions.dim() - len(action.shape)]
    return actions.reshape(*lead, vector_size(action)).float().clamp(-1, 1)  # As the environment clips them.


def from_vector(vectors: Tensor, action: ArraySpec) -> Tensor:
    """Vectors [..., A] to the actions that they stand for; a choice is the largest number's."""
    if action.choices is not None:
        return vectors.argmax(-1)
    return vectors.reshape(*vectors.shape[:-1], *action.shape)


def previous_actions(vectors: Tensor, is_first: Tensor) -> Tensor:
    """From the action taken upon each row [T, B, A] to the one that led to it; none (zeros) before a first row."""
    before = torch.cat([torch.zeros_like(vectors[:1]), vectors[:-1]])
    return before * ~is_first.unsqueeze(-1)


@dataclass(frozen=True)
class Gaussian:
    """A diagonal normal distribution; `mean` [..., A], `log_std` [..., A] or [A]."""

    mean: Tensor
    log_std: Tensor

    def __getitem__(self, index: Tensor) -> Gaussian:
        return Gaussian(self.mean[index], self.log_std.expand_as(self.mean)[index])

    def sample(self) -> Tensor:
        return torch.addcmul(self.mean, self.log_std.exp(), normal_like(self.mean))

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """[...]: summed over the action's dimensions."""
        standard = (action - self.mean) * (-self.log_std).exp()
        return (-0.5 * standard.square() - self.log_std - LOG_SQRT_TWO_PI).sum(-1)

    def entropy(self) -> Tensor:
        """[...]: summed over the action's dimensions."""
        return (0.5 + LOG_SQRT_TWO_PI + self.log_std).expand_as(self.mean).sum(-1)


@dataclass(frozen=True)
class SquashedGaussian:
    """tanh of a diagonal normal distribution: actions in (-1, 1); `mean` and `log_std` [..., A] are before the tanh."""

    mean: Tensor
    log_std: Tensor

    def sample(self) -> Tensor:
        return Gaussian(self.mean, self.log_std).sample().tanh()

    def mode(self) -> Tensor:
        """The tanh of the mean, as is usual; where the spread is wide the density's true mode lies farther out."""
        return self.mean.tanh()

    def sample_with_log_prob(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The action [..., A] that standard normal `noise` leads to, and its log-probability [...]; differentiable."""
        raw = torch.addcmul(self.mean, self.log_std.exp(), noise)
        return raw.tanh(), self._log_prob(raw, noise)

    def log_prob(self, action: Tensor) -> Tensor:
        """[...]: summed over the action's dimensions. Actions at the very bounds are taken as just inside."""
        limit = 1 - torch.finfo(action.dtype).eps
        raw = action.clamp(-limit, limit).atanh()
        return self._log_prob(raw, (raw - self.mean) * (-self.log_std).exp())

    def _log_prob(self, raw: Tensor, standard: Tensor) -> Tensor:
        # Eq. 26, arXiv:1812.05905, with log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2x)), which never cancels.
        normal = -0.5 * standard.square() - self.log_std - LOG_SQRT_TWO_PI
        return (normal - 2 * (LOG_TWO - raw - functional.softplus(-2 * raw))).sum(-1)


@dataclass(frozen=True)
class Categorical:
    """A choice among K; `logits` [..., K] need not be normalised."""

    logits: Tensor

    def __getitem__(self, index: Tensor) -> Categorical:
        return Categorical(self.logits[index])

    def sample(self) -> Tensor:
        # The Gumbel-max trick: an exponential draw a choice, no normalisation. Drawn in single precision even
        # under autocast, where the tails of half precision would forbid rare choices.
        noise = exponential_like(self.logits)
        return (self.logits - noise.log()).argmax(-1)

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        flat = functional.cross_entropy(self.logits.flatten(0, -2), action.flatten(), reduction="none")
        return -flat.view(action.shape)

    def entropy(self) -> Tensor:
        log_probabilities = self.logits.log_softmax(-1)
        return -(log_probabilities.exp() * log_probabilities).sum(-1)


@dataclass(frozen=True)
class Rows:
    """Rows `start` to `stop` of `whole`; with `outer` a flat batch holds that many times as many, outer axis first."""

    start: int
    stop: int
    whole: int
    outer: int = 1


_rows: ContextVar[Rows | None] = ContextVar("rows", default=None)


@contextmanager
def only_rows(start: int, stop: int, whole: int) -> Iterator[None]:
    """Inside, batches are these rows of a whole one."""
    token = _rows.set(Rows(start, stop, whole))
    try:
        yield
    finally:
        _rows.reset(token)


@contextmanager
def flattened(outer: int) -> Iterator[None]:
    """Inside, batches are [outer, rows] laid end to end."""
    rows = _rows.get()
    token = _rows.set(rows and replace(rows, outer=outer))
    try:
        yield
    finally:
        _rows.reset(token)


def drawn(draw: Callable[[Shape], Tensor], shape: Shape, axis: int = 0) -> Tensor:
    """`draw(shape)`, whose rows are along `axis`."""
    rows = _rows.get()
    if rows is None:
        return draw(shape)
    mine = rows.stop - rows.start
    before, after = shape[:axis], shape[axis + 1 :]
    assert shape[axis] == rows.outer * mine, f"{shape} has {shape[axis]} rows, not {rows.outer} x {mine}"
    whole = draw((*before, rows.outer * rows.whole, *after)).view(*before, rows.outer, rows.whole, *after)
    return whole.narrow(axis + 1, rows.start, mine).reshape(shape)


def draw_normal(shape: Shape, device: torch.device, axis: int = 0) -> Tensor:
    """Standard normal numbers."""
    return drawn(lambda whole: torch.randn(whole, device=device), shape, axis)


def draw_uniform(shape: Shape, device: torch.device, axis: int = 0) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return drawn(lambda whole: torch.rand(whole, device=device), shape, axis)


def normal_like(tensor: Tensor) -> Tensor:
    """Standard normal numbers of a tensor's shape and type, rows first."""
    if _rows.get() is None:
        return torch.randn_like(tensor)
    return drawn(lambda whole: torch.randn(whole, dtype=tensor.dtype, device=tensor.device), tensor.shape)


def exponential_like(tensor: Tensor) -> Tensor:
    """Exponential numbers of a tensor's shape with a rate of 1, rows first, in single precision."""
    if _rows.get() is None:
        return torch.empty_like(tensor, dtype=torch.float32).exponential_()
    return drawn(lambda whole: torch.empty(whole, device=tensor.device).exponential_(), tensor.shape)

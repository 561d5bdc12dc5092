"""Random numbers of a batch that is worked on in pieces: every piece gets the numbers that its rows have in the whole.

A piece draws for all rows of the batch and keeps its own, so that neither ranks nor pieces change what is drawn, and
all generators stand at the same place afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Shape = tuple[int, ...]


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


def normal(shape: Shape, device: torch.device, axis: int = 0) -> Tensor:
    """Standard normal numbers."""
    return drawn(lambda whole: torch.randn(whole, device=device), shape, axis)


def uniform(shape: Shape, device: torch.device, axis: int = 0) -> Tensor:
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

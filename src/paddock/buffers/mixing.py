"""Batches of which a share comes from demonstrations (RLPD, arXiv:2302.02948), for whatever learns from replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from paddock.buffers.buffer import Buffer
from paddock.buffers.demonstrations import DemonstrationsBuffer
from paddock.core.errors import InputError

Batch = dict[str, Any]
INDICES = ("index", "leaf")  # where a prioritized buffer takes errors back; nothing is to be taken back for others
OTHERS = -1


def draw_batch(buffers: Mapping[str, Buffer], name: str) -> Batch:
    """A batch of the named buffer; of its size, a share of each buffer of demonstrations that is mixed into it."""
    shares = list(_shares(buffers, name))
    buffer: Any = buffers[name]
    if not shares:
        return buffer.sample()
    size = buffer.config.batch_size
    counts = [round(size * share) for share, _ in shares]
    if size <= sum(counts):
        raise InputError(f"buffers that are mixed into '{name}' take all of a batch of {size}; lower their shares.")
    batch = buffer.sample(size - sum(counts))
    for count, (_, demonstrations) in zip(counts, shares, strict=True):
        if count:
            batch = joined(batch, demonstrations.sample(count), len(buffer))
    return batch


def joined(batch: Batch, more: Batch, held: int) -> Batch:
    """Two batches one after the other. What only a prioritized batch has, is made up for the demonstrations: as if they
    were drawn uniformly from the `held` transitions of the buffer."""
    count = len(more["reward"])
    result: Batch = {}
    for name, values in batch.items():
        if isinstance(values, dict):
            result[name] = {part: torch.cat([one, more[name][part]]) for part, one in values.items()}
        elif name == "probability":
            result[name] = torch.cat([values, torch.full((count,), 1.0 / max(held, 1), dtype=values.dtype)])
        elif name in INDICES and (name not in more or more[name].shape[1:] != values.shape[1:]):
            result[name] = torch.cat([values, torch.full((count, *values.shape[1:]), OTHERS, dtype=values.dtype)])
        elif name in more:
            result[name] = torch.cat([values, more[name].to(values.dtype)])
    if result.keys() != batch.keys() or more.keys() - set(INDICES) - batch.keys():
        raise InputError(
            f"a batch of the replay has {', '.join(batch)}, one of demonstrations {', '.join(more)}; "
            "give both buffers the same n_step, gamma and length."
        )
    return result


def _shares(buffers: Mapping[str, Buffer], name: str) -> Iterator[tuple[float, DemonstrationsBuffer]]:
    for buffer in buffers.values():
        if isinstance(buffer, DemonstrationsBuffer) and buffer.config.share and name in buffer.config.into:
            yield buffer.config.share, buffer

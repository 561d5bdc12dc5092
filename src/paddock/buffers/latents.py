"""Experience whose observations were encoded once: means and log-variances of a latent in place of pictures, which are
many times larger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from msgspec import structs
from pydantic import Field
from torch import Tensor

from paddock.buffers.rows import OBSERVATION
from paddock.buffers.segments import Segment
from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.config.schema import Part
from paddock.core.specs import ArraySpec, Spec

MEAN, LOG_VARIANCE = "mean", "log_variance"
CHUNK = 1_024  # rows that are encoded at once
Encode = Callable[[dict[str, Tensor]], tuple[Tensor, Tensor]]
FIELDS = ("action", "reward", "is_first", "terminated", "truncated")


class LatentConfig(SequenceConfig):
    """Options of a buffer of latents. representation: the configuration of what encodes."""

    representation: Part
    capacity: int = Field(ge=1)

    def memory(self, spec: Spec, num_envs: int) -> int:
        return self.capacity * self.row_bytes(latent_spec(self, spec))


class LatentBuffer(SequenceBuffer):
    """A sequence buffer of latents: windows whose `observation` is `mean` and `log_variance` [B, T, L]."""

    config: LatentConfig

    def __init__(self, config: LatentConfig, spec: Spec, num_envs: int) -> None:
        super().__init__(config, latent_spec(config, spec), num_envs)
        self._filled = 0  # How often it was; segments of one filling are not those of another.

    def fill_from(self, source: Any, encode: Encode) -> int:
        """Replace everything by the encoded rows of a sequence buffer or an offline buffer; gives their number."""
        self._filled += 1
        for array in (self.totals, self._episodes, self._run):
            array[:] = 0
        self._last_whole[:] = -1
        rows = getattr(source, "sequences", source)
        for copy in range(rows.num_envs):
            # As the source has it; where it has other copies, episodes are spread evenly.
            spreads = rows.num_envs != self.num_envs
            for piece in pieces(rows, copy, by_episode=spreads):
                target = int(self.totals.argmin()) if spreads else copy
                self._append(target, piece, encode)
        return len(self)

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "filled": self._filled}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._filled = state["filled"]

    def _sealed_segment(self, copy: int, number: int) -> Segment:
        segment = super()._sealed_segment(copy, number)
        return replace(segment, name=segment.name.replace("rows-", f"rows-{self._filled:03d}-", 1))

    def _append(self, copy: int, rows: Mapping[str, Any], encode: Encode) -> None:
        observation = rows["observation"]
        with torch.inference_mode():
            mean, log_variance = encode(observation)
        latents = {f"{OBSERVATION}{MEAN}": mean, f"{OBSERVATION}{LOG_VARIANCE}": log_variance}
        encoded = {name: values.cpu().numpy() for name, values in latents.items()}
        fields = {name: rows[name].numpy() for name in FIELDS}
        if not self.totals[copy]:  # The beginning of this episode has left the source.
            fields["is_first"] = fields["is_first"].copy()
            fields["is_first"][0] = True
        self.extend(copy, {**encoded, **fields})


def latent_spec(config: LatentConfig, spec: Spec) -> Spec:
    """The spaces with a latent in place of the observation."""
    size = config.representation.latent_size(spec)  # type: ignore[attr-defined]
    part = ArraySpec(shape=(size,), dtype="float32")
    return structs.replace(spec, observation={MEAN: part, LOG_VARIANCE: part}, is_dict=True)


def pieces(source: SequenceBuffer, copy: int, *, by_episode: bool = False) -> Iterator[dict[str, Any]]:
    """Rows [K, ...] of one copy in their order: a chunk at a time, or an episode."""
    start, stop = int(source.oldest[copy]), int(source.totals[copy])
    ends = np.arange(start, stop, CHUNK)
    if by_episode and stop > start:
        ends = start + np.flatnonzero(source.episode_starts(copy))
        ends = ends if len(ends) and ends[0] == start else np.append(start, ends)
    for begin, end in pairwise([*ends.tolist(), stop]):
        batch = source.gather(np.array([copy]), np.array([begin]), end - begin)
        rows = {name: batch[name][0] for name in FIELDS}
        yield {**rows, "observation": {name: part[0] for name, part in batch["observation"].items()}}

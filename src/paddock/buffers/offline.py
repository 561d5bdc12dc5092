"""Learning from what was recorded: recordings, demonstrations and Minari datasets, held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from paddock.buffers.demonstration_files import is_demonstrations
from paddock.buffers.demonstrations import load_episodes
from paddock.buffers.episodes import rows_of
from paddock.buffers.minari_sets import MINARI
from paddock.buffers.recordings import read_recording
from paddock.buffers.rows import Rows, as_transitions
from paddock.buffers.sequence import Batch, SequenceBuffer, SequenceConfig
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec


class OfflineConfig(TargetSchema):
    """Options of an offline buffer; a source is a folder of a recording or of demonstrations, or `minari:<dataset>`."""

    sources: list[str] = Field(min_length=1)
    batch_size: int = Field(ge=1)
    sample_as: Literal["transitions", "sequences"] = "transitions"
    length: int = Field(default=2, ge=1)
    crosses_episodes: bool = False


class OfflineBuffer:
    """All episodes of the sources; batches like those of a uniform or of a sequence replay. Takes nothing new."""

    def __init__(self, config: OfflineConfig, spec: Spec, num_envs: int) -> None:
        self.config = config
        parts = [rows for source in config.sources for rows in _read(source, spec)]
        count = sum(len(rows["reward"]) for rows in parts)
        if not count:
            raise InputError(f"there is not one whole episode in {', '.join(config.sources)}.")
        is_transitions = config.sample_as == "transitions"
        settings = SequenceConfig(
            _target_="paddock.buffers.sequence.SequenceBuffer",
            capacity=count,
            batch_size=config.batch_size,
            length=2 if is_transitions else config.length,
            crosses_episodes=config.crosses_episodes and not is_transitions,
        )
        self._sequences = SequenceBuffer(settings, spec, 1)
        for rows in parts:
            self._sequences.extend(0, rows)

    @property
    def sequences(self) -> SequenceBuffer:
        """All rows, one copy's stream."""
        return self._sequences

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, transition: Any) -> None:
        raise InputError("an offline buffer takes no new experience; collect into another buffer.")

    def can_sample(self) -> bool:
        return len(self) >= self._sequences.config.length

    def sample(
        self, batch: int | None = None, length: int | None = None, generator: torch.Generator | None = None
    ) -> Batch:
        """As `UniformBuffer.sample` or `SequenceBuffer.sample`, by `sample_as`."""
        windows = self._sequences.sample(batch, length, generator)
        return as_transitions(windows) if self.config.sample_as == "transitions" else windows

    def mark_discontinuity(self) -> None:
        """Nothing here follows from the environments."""

    def get_state(self) -> dict[str, Any]:
        """Only how much there is: the data lies at its sources."""
        return {"rows": len(self)}

    def set_state(self, state: dict[str, Any]) -> None:
        if state["rows"] != len(self):
            raise InputError(
                f"the run learned from {state['rows']} rows of {', '.join(self.config.sources)}, now there are "
                f"{len(self)}; a resumed run needs the same data."
            )


def _read(source: str, spec: Spec) -> Iterator[Rows]:
    if source.startswith(MINARI) or is_demonstrations(Path(source)):
        yield from (rows_of(episode, spec) for episode in load_episodes(source, spec))
        return
    recorded, files = read_recording(Path(source))
    if recorded != spec:
        raise InputError(f"recording '{source}' is of another environment: it has {recorded}, this one {spec}.")
    for rows in files:
        yield {name: np.asarray(values) for name, values in rows.items()}

"""Demonstrations to learn from: the episodes of sets, recordings and Minari datasets, held in memory.

Shapes: T steps of an episode, N samples of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from paddock.buffers.action_range import to_policy
from paddock.buffers.demonstration_files import find_sets, is_demonstrations
from paddock.buffers.episodes import (
    Episode,
    check_same_spec,
    ends_of,
    episode_of,
    read_description,
    read_episodes,
    rows_of,
)
from paddock.buffers.minari_sets import MINARI, read_minari_episodes
from paddock.buffers.recordings import read_recording
from paddock.buffers.rows import split_episodes
from paddock.buffers.sequence import Batch, SequenceBuffer, SequenceConfig
from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec

MOST_NAMED = 5  # sets that an error names


class DemonstrationsConfig(TargetSchema):
    """Options of a buffer of demonstrations.

    sources: folders of demonstrations or recordings, or `minari:<dataset>`. share: of each batch that is drawn from the
    buffers `into`, how much comes from here in its place; 0 leaves them alone. n_step, gamma: as those buffers have
    them. length, crosses_episodes: of windows of so many rows; without a length, batches are transitions.
    episodes: only the first so many.
    """

    sources: list[str] = Field(min_length=1)
    batch_size: int = Field(ge=1)
    share: float = Field(default=0.0, ge=0, lt=1)
    into: list[str] = Field(default_factory=lambda: ["replay"])
    n_step: int = Field(default=1, ge=1)
    gamma: float | None = Field(default=None, gt=0, le=1)
    length: int | None = Field(default=None, ge=1)
    crosses_episodes: bool = False
    episodes: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> DemonstrationsConfig:
        if self.n_step > 1 and self.gamma is None:
            raise ValueError("n_step above 1 sums rewards and needs gamma: ${workflow.gamma}")
        return self


class DemonstrationsBuffer:
    """All episodes of the sources. Batches are those of a uniform or of a sequence replay. Takes nothing new."""

    def __init__(self, config: DemonstrationsConfig, spec: Spec, num_envs: int) -> None:
        self.config, self.spec = config, spec
        self.episodes = [episode for source in config.sources for episode in load_episodes(source, spec)]
        self.episodes = self.episodes[: config.episodes]
        if not self.episodes:
            raise InputError(f"there is not one whole episode in {', '.join(config.sources)}.")
        self._replay = self._transitions() if config.length is None else self._sequences(config.length)

    def __len__(self) -> int:
        return sum(len(episode) for episode in self.episodes)

    def add(self, transition: Any) -> None:
        raise InputError("demonstrations take no new experience; collect into another buffer.")

    def can_sample(self) -> bool:
        return True

    def sample(self, batch: int | None = None) -> Batch:
        """`batch_size` or `batch` transitions or windows, as `UniformBuffer` and `SequenceBuffer` give them."""
        return self._replay.sample(batch)

    def observations(self) -> dict[str, np.ndarray]:
        """Every observed part [K, ...], for normalisers."""
        parts = self.spec.observation
        return {name: np.concatenate([episode.observations[name] for episode in self.episodes]) for name in parts}

    def mark_discontinuity(self) -> None:
        """Nothing here follows from the environments."""

    def get_state(self) -> dict[str, Any]:
        """Only how much there is: the data lies at its sources."""
        return {"episodes": len(self.episodes), "steps": len(self)}

    def set_state(self, state: dict[str, Any]) -> None:
        if state != self.get_state():
            raise InputError(
                f"the run learned from {state['episodes']} demonstrations with {state['steps']} steps of "
                f"{', '.join(self.config.sources)}, now there are {len(self.episodes)} with {len(self)}; "
                "a resumed run needs the same data."
            )

    def _transitions(self) -> UniformBuffer:
        settings = UniformConfig(
            _target_="paddock.buffers.uniform.UniformBuffer",
            capacity=len(self),
            batch_size=self.config.batch_size,
            n_step=self.config.n_step,
            gamma=self.config.gamma,
        )
        replay = UniformBuffer(settings, self.spec, 1)
        replay.add_steps(_as_steps(self.episodes, self.spec))
        return replay

    def _sequences(self, length: int) -> SequenceBuffer:
        settings = SequenceConfig(
            _target_="paddock.buffers.sequence.SequenceBuffer",
            capacity=sum(len(episode) + 1 for episode in self.episodes),
            batch_size=self.config.batch_size,
            length=length,
            crosses_episodes=self.config.crosses_episodes,
        )
        replay = SequenceBuffer(settings, self.spec, 1)
        for episode in self.episodes:
            replay.extend(0, rows_of(episode, self.spec))
        return replay


def load_episodes(source: str | Path, spec: Spec | None = None) -> list[Episode]:
    """The episodes of a folder of demonstrations or of a recording, or of `minari:<dataset>`.

    spec: what they have to fit; None takes them as they are, which a Minari dataset cannot be.
    """
    if str(source).startswith(MINARI):
        if spec is None:
            raise InputError(f"'{source}' does not say how an agent sees it; import it first, as demonstrations.")
        return list(read_minari_episodes(str(source).removeprefix(MINARI), spec))
    folder = Path(source)
    there = spec_of_source(folder)
    if spec is not None:
        check_same_spec(f"'{source}' holds demonstrations of", there, spec)
    if is_demonstrations(folder):
        return list(read_episodes(folder))
    return [
        episode_of(rows, there, {"driver": "recording"})
        for file in read_recording(folder)[1]
        for rows in split_episodes(file)
        if len(rows["reward"]) > 1
    ]


def spec_of_source(folder: Path) -> Spec:
    """What the episodes of a folder look like."""
    if not folder.exists():
        raise InputError(
            f"there is no folder '{folder}'. Record demonstrations first, in the environment of the experiment that "
            f"they are for: paddock record episodes {folder} --experiment NAME --laps 30"
        )
    if is_demonstrations(folder):
        return read_description(folder).spec
    if below := [str(found) for found in islice(find_sets(folder), MOST_NAMED)]:
        raise InputError(f"'{folder}' is a folder of sets, not a set; name one of them: {', '.join(below)}.")
    try:
        return read_recording(folder)[0]
    except InputError as error:
        raise InputError(f"'{folder}' holds neither demonstrations nor a recording: {error}") from error


def _as_steps(episodes: list[Episode], spec: Spec) -> dict[str, Any]:
    """All episodes as one stream of steps [T, 1, ...], as `UniformBuffer.add_steps` takes them."""
    lengths = np.array([len(episode) for episode in episodes])
    last = lengths.cumsum() - 1
    flags = [ends_of(episode) for episode in episodes]

    def joined(arrays: Iterator[np.ndarray]) -> np.ndarray:
        return np.concatenate(list(arrays))[:, None]

    parts = spec.observation
    final = {name: np.stack([episode.observations[name][-1] for episode in episodes]) for name in parts}
    seen = {name: joined(episode.observations[name][:-1] for episode in episodes) for name in parts}
    return {
        "observation": {name: np.concatenate([seen[name], final[name][-1:, None]]) for name in parts},
        "action": to_policy(joined(episode.actions for episode in episodes), spec.action),
        "reward": joined(episode.rewards for episode in episodes).astype(np.float32),
        "terminated": joined(terminated for terminated, _ in flags),
        "truncated": joined(truncated for _, truncated in flags),
        "valid": np.ones((int(last[-1]) + 1, 1), bool),
        "final_index": np.stack([last, np.zeros_like(last)], 1),
        "final_observation": final,
    }

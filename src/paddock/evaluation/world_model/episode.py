"""One episode as it was and as a world model imagined it, for people to look at.

Every `horizon` steps the model is shown `context` rows of what really was, and imagines the next `horizon` ones.
Shapes: T rows of the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from paddock.buffers.sequence import SequenceBuffer
from paddock.components.networks.images import is_image, split_parts
from paddock.core.seeding import derive_seed
from paddock.core.specs import Spec
from paddock.evaluation.world_model.probe import WorldModelProbeConfig, imagined, required_model, rows_of, windows_of
from paddock.rollout.actor import ActorModule
from paddock.rollout.collector import Collector
from paddock.rollout.episodes import MakeEnv, evaluation_mode

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Episode:
    """frames: the environment's own pictures [T] of [H, W, 3]. readings: by name, real and imagined numbers [T], not a
    number where nothing was imagined. pictures: by name, real and imagined ones [T, H, W, C], 0 to 255. imagined_steps:
    [T] how many steps ago the model last saw anything; 0 where it sees."""

    frames: list[np.ndarray]
    readings: dict[str, tuple[np.ndarray, np.ndarray]]
    pictures: dict[str, tuple[np.ndarray, np.ndarray]]
    imagined_steps: np.ndarray


class Film:
    """Passes transitions on to a buffer, and keeps a frame after each."""

    def __init__(self, env: VectorEnv, buffer: SequenceBuffer) -> None:
        self._env, self._buffer = env, buffer
        self.frames: list[np.ndarray] = []

    def add(self, transition: Mapping[str, Any]) -> None:
        self._buffer.add(transition)
        drawn = self._env.render()
        assert drawn is not None, "the environment draws no frames"
        self.frames.append(np.asarray(drawn[0]))


def record_episode(actor: ActorModule, make_env: MakeEnv, config: WorldModelProbeConfig, *, seed: int) -> Episode:
    """Act for an episode of at most `config.steps` steps, and have the actor's model imagine it piece by piece."""
    env, spec = make_env(1, "rgb_array"), actor.spec
    buffer = rows_of(config, spec, 1)
    film = Film(env, buffer)
    try:
        names = labels_of(env, spec)
        with evaluation_mode(actor, seed):
            Collector(env, spec, seed=derive_seed(seed, "held out")).collect(actor, film, config.steps)
    finally:
        env.close()
    context, horizon = config.context, config.horizon
    starts = np.arange(0, _first_episode(buffer) - context - horizon + 1, horizon)
    assert len(starts), f"the episode is shorter than context + horizon = {context + horizon}"
    windows = windows_of(buffer.gather(np.zeros_like(starts), starts, context + horizon), spec.action, context)
    with evaluation_mode(actor, seed):
        parts, reward = imagined(required_model(actor), windows)
    rows = buffer.gather(np.zeros(1, int), np.zeros(1, int), context + horizon * len(starts))
    real = {name: part[0].numpy() for name, part in rows["observation"].items()}
    told = {name: _late(part.flatten(0, 1).cpu().numpy(), context) for name, part in parts.items()}
    names = {name: labels for name, labels in names.items() if name in told}  # None of a model without a decoder.
    readings = {name: (real_, told_) for name, real_, told_ in _numbers(real, told, names)}
    readings["reward"] = (rows["reward"][0].numpy(), _late(reward.flatten().cpu().numpy(), context))
    pictures = {name: (real[name], np.nan_to_num(told[name])) for name in split_parts(spec)[0] if name in told}
    ahead = np.concatenate([np.zeros(context, int), np.tile(np.arange(1, horizon + 1), len(starts))])
    return Episode([film.frames[0], *film.frames][: len(ahead)], readings, pictures, ahead)


def labels_of(env: VectorEnv, spec: Spec) -> dict[str, list[str]]:
    """A name for each number of each part that is not a picture; an environment may know better than to count."""
    layout = getattr(getattr(env, "observations", None), "layout", None)
    labels: dict[str, list[str]] = {}
    for name, part in spec.observation.items():
        if is_image(part):
            continue
        labels[name] = [f"{name} {number}" for number in range(1, part.size + 1)]
        if layout is not None and not spec.is_dict:
            for piece, (first, end) in layout().items():
                count = end - first
                labels[name][first:end] = [piece] if count == 1 else [f"{piece} {i}" for i in range(1, count + 1)]
    return labels


def _first_episode(buffer: SequenceBuffer) -> int:
    """Rows of the first episode."""
    total = int(buffer.totals[0])
    is_first = buffer.gather(np.zeros(1, int), np.zeros(1, int), total)["is_first"][0].numpy()
    begins = np.flatnonzero(is_first)
    return int(begins[1]) if len(begins) > 1 else total


def _late(values: np.ndarray, rows: int) -> np.ndarray:
    """[T, ...] with so many rows of nothing before."""
    return np.concatenate([np.full((rows, *values.shape[1:]), np.nan), values])


def _numbers(real: Arrays, told: Arrays, names: dict[str, list[str]]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Each number of the parts with names: its label, and [T] real and imagined."""
    found = []
    for part, labels in names.items():
        ours, theirs = (values[part].reshape(len(values[part]), -1) for values in (real, told))
        found += [(label, ours[:, index], theirs[:, index]) for index, label in enumerate(labels)]
    return found

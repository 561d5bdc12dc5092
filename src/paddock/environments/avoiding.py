"""*Avoiding* (after D3IL, arXiv:2402.14606): past three rows of discs in a plane, which can be done in 24 ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.environments.plane import Floats, PlaneVectorEnv, record

STEP = 0.01  # at full action
FOLLOW = 0.5  # share of the way to where it is wanted that the point makes in a step
START, SPREAD = (0.525, -0.28), 0.005
FINISH = 0.35  # y
ROWS = ((-0.1, (0.44, 0.56)), (0.08, (0.36, 0.5, 0.64)), (0.26, (0.285, 0.425, 0.575, 0.715)))  # y, x of the gaps
THROUGH = 0.035  # how far before and behind a row a demonstration goes straight
TREMBLE = 0.15  # deviation of what the demonstrator adds to its actions
MAX_STEPS = 250


class AvoidingVectorEnv(PlaneVectorEnv):
    """`paddock/Avoiding-v0`: observations are where the point is wanted and where it is, float32 [4]; an action moves
    the wanted place by a step of 0.01. The goal is y > 0.35."""

    discs = np.array(
        [
            (0.5, -0.1, 0.03),
            *((x, 0.08, 0.025) for x in (0.425, 0.575)),
            *((x, 0.26, 0.025) for x in (0.35, 0.5, 0.65)),
        ]
    )
    bounds = ((0.1, 0.9), (-0.35, 0.45))
    ways, numbers = 24, 4

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, max_episode_steps: int = MAX_STEPS) -> None:
        super().__init__(num_envs, render_mode, max_episode_steps)

    def start(self, random: np.random.Generator) -> Floats:
        return np.array(START) + random.normal(0.0, SPREAD, 2)

    def move(self, actions: Floats) -> None:
        self.wanted = self.wanted + STEP * actions
        self.position = self.position + FOLLOW * (self.wanted - self.position)

    def has_arrived(self, places: Floats) -> NDArray[np.bool_]:
        return places[:, 1] > FINISH

    def note_way(self, before: Floats) -> None:
        for y, gaps in ROWS:
            passes = (before[:, 1] < y) & (self.position[:, 1] >= y)
            walls = self.discs[np.isclose(self.discs[:, 1], y), 0]
            gap = (self.position[:, 0, None] > walls).sum(1)
            self.way = np.where(passes, self.way * len(gaps) + gap, self.way)

    def seen(self, copies: NDArray[np.intp]) -> NDArray[np.float32]:
        return np.concatenate([self.wanted[copies], self.position[copies]], 1).astype(np.float32)


class DemonstrateConfig(TargetSchema):
    """How many episodes, the ways in turn, and the seed of their random numbers."""

    episodes: int = Field(default=96, ge=1)
    seed: int = Field(default=0, ge=0)


def demonstrate(config: DemonstrateConfig, spec: Spec) -> Iterator[dict[str, Any]]:
    """Episodes of a scripted driver, as arrays by name: observations [T + 1, 4], actions [T, 2] and so on."""
    for episode in range(config.episodes):
        random = np.random.default_rng([config.seed, episode])
        points = _waypoints(episode % AvoidingVectorEnv.ways)
        yield record(AvoidingVectorEnv(1), _Follower(points, random), [config.seed, episode])


class _Follower:
    """Goes from one point to the next."""

    def __init__(self, points: Floats, random: np.random.Generator) -> None:
        self._points, self._random = list(points), random

    def __call__(self, place: Floats) -> Floats:
        while len(self._points) > 1 and np.linalg.norm(self._points[0] - place) < 2 * STEP:
            self._points.pop(0)
        way = self._points[0] - place
        return way / max(float(np.linalg.norm(way)), 1e-6) + self._random.normal(0.0, TREMBLE, 2)


def _waypoints(way: int) -> Floats:
    """Points through the gaps of a way, and past the finish."""
    points: list[tuple[float, float]] = []
    for y, gaps in reversed(ROWS):
        way, gap = divmod(way, len(gaps))
        points = [(gaps[gap], y - THROUGH), (gaps[gap], y + THROUGH), *points]
    return np.array([*points, (points[-1][0], FINISH + 5 * STEP)])

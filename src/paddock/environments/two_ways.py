"""*Two ways round*: a point has to get past a disc, above it or below it. The mean of both ways is through it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.environments.plane import Floats, PlaneVectorEnv, record

STEP = 0.06  # at full action; a chunk of eight steps has passed the point where a side must be chosen
SPREAD = 0.02  # deviation of the start
GOAL, ARRIVAL = (1.0, 0.0), 0.08  # where, and how near is near enough
DISC = (0.5, 0.0, 0.2)
CLEARANCE = 0.32  # how far off the middle demonstrations pass
AHEAD = 0.12  # how far ahead the demonstrator looks
TREMBLE = 0.1  # deviation of what it adds to its actions
MAX_STEPS = 60
ABOVE, BELOW = 0, 1


class TwoWaysVectorEnv(PlaneVectorEnv):
    """`paddock/TwoWays-v0`: from about (0, 0) to (1, 0), past a disc of radius 0.2 at (0.5, 0). Observations are the
    place, float32 [2]; an action is a step in units of 0.06."""

    discs = np.array([DISC])
    bounds = ((-0.2, 1.2), (-0.7, 0.7))
    ways, numbers = 2, 2

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, max_episode_steps: int = MAX_STEPS) -> None:
        super().__init__(num_envs, render_mode, max_episode_steps)

    def start(self, random: np.random.Generator) -> Floats:
        return random.normal(0.0, SPREAD, 2)

    def move(self, actions: Floats) -> None:
        self.position = self.wanted = self.position + STEP * actions

    def has_arrived(self, places: Floats) -> NDArray[np.bool_]:
        return np.hypot(places[:, 0] - GOAL[0], places[:, 1] - GOAL[1]) < ARRIVAL

    def note_way(self, before: Floats) -> None:
        passes = (before[:, 0] < DISC[0]) & (self.position[:, 0] >= DISC[0])
        self.way = np.where(passes, np.where(self.position[:, 1] > DISC[1], ABOVE, BELOW), self.way)

    def seen(self, copies: NDArray[np.intp]) -> NDArray[np.float32]:
        return self.position[copies].astype(np.float32)


class DemonstrateConfig(TargetSchema):
    """How many episodes, which sides of the disc they pass on in turn, and the seed of their random numbers."""

    episodes: int = Field(default=200, ge=1)
    sides: list[Literal["above", "below"]] = Field(default=["above", "below"], min_length=1)
    seed: int = Field(default=0, ge=0)


def demonstrate(config: DemonstrateConfig, spec: Spec) -> Iterator[dict[str, Any]]:
    """Episodes of a scripted driver, as arrays by name: observations [T + 1, 2], actions [T, 2] and so on."""
    for episode in range(config.episodes):
        env = TwoWaysVectorEnv(1)
        random = np.random.default_rng([config.seed, episode])
        side = 1.0 if config.sides[episode % len(config.sides)] == "above" else -1.0
        yield record(env, partial(_wish, side=side, random=random), [config.seed, episode])


def _wish(place: Floats, side: float, random: np.random.Generator) -> Floats:
    """Towards a point a little ahead on an arc past the disc."""
    ahead = min(place[0] + AHEAD, GOAL[0])
    target = np.array([ahead, side * CLEARANCE * np.sin(np.pi * np.clip(ahead, 0.0, 1.0))])
    if place[0] > GOAL[0] - AHEAD:
        target = np.array(GOAL)
    way = target - place
    return way / max(float(np.linalg.norm(way)), 1e-6) + random.normal(0.0, TREMBLE, 2)

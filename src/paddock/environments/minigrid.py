"""MiniGrid and BabyAI: small grid worlds seen through a window in front of the agent."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from pydantic import Field

from paddock.core.lazy import require
from paddock.environments.base import EnvironmentConfig
from paddock.environments.copies import vectorize
from paddock.environments.gym import explained
from paddock.environments.wrappers import Replayed

DIRECTIONS = 4


class MiniGridConfig(EnvironmentConfig):
    """Options of a grid world."""

    id: str
    vectorization: Literal["sync", "async"] = "sync"
    observation: Literal["one_hot", "picture"] = "one_hot"
    fully_observable: bool = False
    tile_size: int = Field(default=8, ge=1)
    max_episode_steps: int | None = Field(default=None, ge=1)
    arguments: dict[str, Any] = Field(default_factory=dict)


def make(config: MiniGridConfig, num_envs: int, render_mode: str | None = None) -> VectorEnv:
    """`num_envs` copies of the grid world as one Gymnasium vector environment."""
    require("minigrid", extra="minigrid", purpose=f"environment '{config.id}'")
    maker = partial(_make_one, config, render_mode)
    return explained(config.id, lambda: vectorize(maker, num_envs, in_processes=config.vectorization == "async"))


def _make_one(config: MiniGridConfig, render_mode: str | None) -> gymnasium.Env:
    from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper, RGBImgObsWrapper, RGBImgPartialObsWrapper

    arguments = dict(config.arguments)
    if config.max_episode_steps is not None:
        arguments["max_steps"] = config.max_episode_steps
    env = gymnasium.make(config.id, render_mode=render_mode, disable_env_checker=True, **arguments)
    if config.observation == "picture":
        pictures = RGBImgObsWrapper if config.fully_observable else RGBImgPartialObsWrapper
        return Replayed(ImgObsWrapper(pictures(env, tile_size=config.tile_size)))
    return Replayed(OneHot(FullyObsWrapper(env) if config.fully_observable else env))


class OneHot(gymnasium.ObservationWrapper):
    """What is seen as one float32 vector of zeros and ones: kind, colour and state of every cell, then the direction.

    The mission's text is left out: agents that have to follow it need a part of their own.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Dict), env.observation_space
        cells = env.observation_space["image"].shape
        assert cells is not None
        # In the full view the agent's direction stands where a door's state would.
        counts = (len(OBJECT_TO_IDX), len(COLOR_TO_IDX), max(len(STATE_TO_IDX), DIRECTIONS))
        self._tables = [np.eye(count, dtype=np.float32) for count in counts]
        size = cells[0] * cells[1] * sum(counts) + DIRECTIONS
        self._directions = np.eye(DIRECTIONS, dtype=np.float32)
        self.observation_space = spaces.Box(0.0, 1.0, (size,), np.float32)

    def observation(self, observation: dict[str, Any]) -> NDArray[np.float32]:
        image = observation["image"]
        layers = [table[image[..., index]].ravel() for index, table in enumerate(self._tables)]
        return np.concatenate([*layers, self._directions[observation["direction"]]])

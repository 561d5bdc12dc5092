"""Gymnasium's CarRacing-v3 as the papers use it: small grey pictures, several of them, repeated actions."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Literal

import gymnasium
from gymnasium.vector import VectorEnv
from pydantic import Field

from paddock.environments.base import EnvironmentConfig
from paddock.environments.copies import vectorize
from paddock.environments.gym import explained
from paddock.environments.wrappers import ActionRepeat, FrameStack, Picture, Replayed

ID = "CarRacing-v3"
SEEN = "state_pixels"  # what the simulator calls the picture that it gives as observation


class CarRacingConfig(EnvironmentConfig):
    """Options of CarRacing-v3."""

    vectorization: Literal["sync", "async"] = "sync"
    continuous: bool = True
    domain_randomize: bool = False
    action_repeat: int = Field(default=4, ge=1)
    grey: bool = True
    image_size: int = Field(default=64, ge=8)
    frame_stack: int = Field(default=4, ge=1)
    max_episode_frames: int = Field(default=1_000, ge=1)


def make(config: CarRacingConfig, num_envs: int, render_mode: str | None = None) -> VectorEnv:
    """`num_envs` cars, each on a track of its own, as one Gymnasium vector environment."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # Frames are drawn in memory; no screen is asked for.
    maker = partial(_make_one, config, render_mode)
    return explained(ID, lambda: vectorize(maker, num_envs, in_processes=config.vectorization == "async"))


def _make_one(config: CarRacingConfig, render_mode: str | None) -> gymnasium.Env:
    env = gymnasium.make(
        ID,
        render_mode=render_mode,
        disable_env_checker=True,
        max_episode_steps=config.max_episode_frames,
        continuous=config.continuous,
        domain_randomize=config.domain_randomize,
    )
    drawn = DrawnOnce(Replayed(ActionRepeat(env, config.action_repeat)))
    return FrameStack(Picture(drawn, grey=config.grey, size=config.image_size), config.frame_stack)


class DrawnOnce(gymnasium.Wrapper):
    """Draws what is seen once for each decision, not for the frames in between: drawing is nearly all of the cost."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        base: Any = env.unwrapped
        self._draw = base._render
        base._render = lambda mode: None if mode == SEEN else self._draw(mode)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        return self._draw(SEEN), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        _, reward, terminated, truncated, info = self.env.step(action)
        return self._draw(SEEN), reward, terminated, truncated, info

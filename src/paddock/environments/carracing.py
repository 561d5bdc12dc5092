"""Gymnasium's CarRacing-v3 as the papers use it: small grey pictures, several of them, repeated actions."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from pydantic import Field

from paddock.environments.base import EnvironmentConfig
from paddock.environments.copies import vectorize
from paddock.environments.gym import explained
from paddock.environments.wrappers import ActionRepeat, FrameStack, Picture, Replayed

ID = "CarRacing-v3"
FRAME_COST = 0.1  # what the simulator takes from the score for every frame
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
    """Draws what is seen once for each decision, not for the frames in between, and only the road that is near: drawing
    is nearly all of the cost. The pictures are the simulator's own, to the pixel."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        base: Any = env.unwrapped
        self._draw = base._render
        base._render = lambda mode: None if mode == SEEN else self._draw(mode)
        base._render_road = NearRoad(base)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        return self._draw(SEEN), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        _, reward, terminated, truncated, info = self.env.step(action)
        # The score in the picture is the one from before the frame's own cost.
        base: Any = self.env.unwrapped
        score = base.reward
        base.reward = score + FRAME_COST
        picture = self._draw(SEEN)
        base.reward = score
        return picture, reward, terminated, truncated, info


class NearRoad:
    """Draws grass and road as CarRacing does, but asks at once which pieces are near the window, not one by one."""

    def __init__(self, base: Any) -> None:
        from gymnasium.envs.box2d import car_racing as simulator

        self._base, self._simulator = base, simulator
        side = simulator.GRASS_DIM
        corners = np.array([(side, 0), (0, 0), (0, side), (side, side)])
        steps = np.stack(np.meshgrid(np.arange(-20, 20, 2), np.arange(-20, 20, 2), indexing="ij"), -1)
        self._grass = steps.reshape(-1, 1, 2) * side + corners
        self._pieces: list[Any] = []
        self._road = np.zeros((0, 4, 2))

    def __call__(self, zoom: float, translation: tuple[float, float], angle: float) -> None:
        base, end = self._base, self._simulator.PLAYFIELD
        if self._pieces is not base.road_poly:
            self._pieces = base.road_poly
            self._road = np.array([piece for piece, _ in self._pieces])
        place = (zoom, translation, angle)
        field = [(end, end), (end, -end), (-end, -end), (-end, end)]
        base._draw_colored_polygon(base.surf, field, base.bg_color, *place, clip=False)
        for index in self._near(self._grass, *place):
            base._draw_colored_polygon(base.surf, self._grass[index].tolist(), base.grass_color, *place)
        for index in self._near(self._road, *place):
            piece, color = self._pieces[index]
            base._draw_colored_polygon(base.surf, piece, [int(part) for part in color], *place)

    def _near(self, pieces: NDArray[np.float64], zoom: float, translation: Any, angle: float) -> NDArray[np.intp]:
        """Which of the pieces [P, 4, 2] the simulator would draw, perhaps a few more: its own test follows."""
        cosine, sine = np.cos(angle), np.sin(angle)
        turned = pieces @ np.array([[cosine, sine], [-sine, cosine]]) * zoom + np.array(translation)
        reach = self._simulator.MAX_SHAPE_DIM + 1
        window = np.array([self._simulator.WINDOW_W, self._simulator.WINDOW_H])
        is_near = ((turned >= -reach) & (turned <= window + reach)).all(-1).any(-1)
        return np.flatnonzero(is_near)

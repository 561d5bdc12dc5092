"""Atari games with the usual preprocessing (arXiv:1312.5602, arXiv:1709.06009), by the Arcade Learning Environment."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from paddock.core.errors import unknown_choice
from paddock.core.lazy import require
from paddock.environments.base import EnvironmentConfig, Vectorization
from paddock.environments.calls import FRAMES
from paddock.environments.copies import vectorize
from paddock.environments.wrappers import FrameStack, shrink

FRAMES_PER_SECOND = 60


class AtariConfig(EnvironmentConfig):
    """Options of an Atari game."""

    game: str
    vectorization: Vectorization = "sync"
    frame_skip: int = Field(default=4, ge=1)
    frame_stack: int = Field(default=4, ge=1)
    screen_size: int = Field(default=84, ge=8)
    noop_max: int = Field(default=30, ge=0)
    fire_reset: bool = True
    life_loss_ends: bool = False
    clip_reward: bool = True
    sticky_actions: float = Field(default=0.0, ge=0, lt=1)
    full_action_space: bool = False
    max_frames: int = Field(default=108_000, ge=1)


def make(config: AtariConfig, num_envs: int, render_mode: str | None = None) -> VectorEnv:
    """`num_envs` copies of the game as one Gymnasium vector environment."""
    ale = _ale()
    games = ale.roms.get_all_rom_ids()
    if config.game not in games:
        raise unknown_choice("Atari game", config.game, games)
    if config.vectorization == "custom":
        if render_mode is not None:  # That one draws nothing; the picture is the same in either.
            config = config.model_copy(update={"vectorization": "sync"})
        else:
            return _own_vector_env(config, num_envs)
    maker = partial(_stacked, config, render_mode)
    return vectorize(maker, num_envs, in_processes=config.vectorization == "async")


def _stacked(config: AtariConfig, render_mode: str | None) -> gymnasium.Env:
    return FrameStack(AtariEnv(config, render_mode), config.frame_stack)


class AtariEnv(gymnasium.Env):
    """One console. Observations are grey uint8 [size, size]: of the last two frames, the brighter of each pixel.

    With `life_loss_ends`, a lost life is `terminated`, and the next episode goes on in the same game.
    """

    def __init__(self, config: AtariConfig, render_mode: str | None = None) -> None:
        self.config, self.render_mode = config, render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_SECOND / config.frame_skip}
        self._module = _ale()
        self._console = self._module.ALEInterface()
        # Sticky actions are drawn here: the console's own draw would not be part of its saved state.
        self._console.setFloat("repeat_action_probability", 0.0)
        self._console.setInt("random_seed", 0)
        self._console.loadROM(self._module.roms.get_rom_path(config.game))
        full = self._console.getLegalActionSet() if config.full_action_space else self._console.getMinimalActionSet()
        self._actions = list(full)
        self._fire = self._module.Action.FIRE
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 255, (config.screen_size, config.screen_size), np.uint8)
        height, width = self._console.getScreenDims()
        self._screens = np.zeros((2, height, width), np.uint8)
        self._last_action = self._actions[0]
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        is_new_game = seed is not None or not self.config.life_loss_ends or self._is_over() or self._lives == 0
        if is_new_game:
            self._console.reset_game()
            for _ in range(int(self.np_random.integers(self.config.noop_max + 1))):
                self._console.act(self._actions[0])
                if self._is_over():
                    self._console.reset_game()
        if self.config.fire_reset and self._fire in self._actions:
            self._console.act(self._fire)
            if self._is_over():
                self._console.reset_game()
        self._last_action = self._actions[0]
        self._lives = self._console.lives()
        self._screens[0] = 0
        self._console.getScreenGrayscale(self._screens[1])
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        chosen, reward, frames = self._actions[int(action)], 0.0, 0
        while frames < self.config.frame_skip and not self._is_over():
            if not self.config.sticky_actions or self.np_random.random() >= self.config.sticky_actions:
                self._last_action = chosen
            reward += self._console.act(self._last_action)
            frames += 1
            if frames >= self.config.frame_skip - 1:
                self._screens[0] = self._screens[1]
                self._console.getScreenGrayscale(self._screens[1])
        lives = self._console.lives()
        terminated = self._console.game_over(with_truncation=False)
        if self.config.life_loss_ends:
            terminated = terminated or lives < self._lives
        self._lives = lives
        truncated = not terminated and self._console.getEpisodeFrameNumber() >= self.config.max_frames
        score = np.sign(reward) if self.config.clip_reward else reward
        return self._observe(), float(score), terminated, truncated, {FRAMES: frames}

    def render(self) -> NDArray[np.uint8]:
        return self._console.getScreenRGB()

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, but for `np_random`."""
        return {
            "console": np.frombuffer(self._console.cloneState().serialize(), np.uint8).copy(),
            "screens": self._screens.copy(),
            "last_action": self._actions.index(self._last_action),
            "lives": self._lives,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._console.restoreState(self._module.ALEState(state["console"].tobytes()))
        self._screens[:] = state["screens"]
        self._last_action = self._actions[state["last_action"]]
        self._lives = state["lives"]

    def _is_over(self) -> bool:
        return self._console.game_over() or self._console.getEpisodeFrameNumber() >= self.config.max_frames

    def _observe(self) -> NDArray[np.uint8]:
        return np.asarray(shrink(Image.fromarray(self._screens.max(0)), self.config.screen_size))


def _own_vector_env(config: AtariConfig, num_envs: int) -> VectorEnv:
    """ale-py's own vector environment: threads instead of copies, without a state that could be saved."""
    env = _ale().AtariVectorEnv(
        config.game,
        num_envs,
        max_num_frames_per_episode=config.max_frames,
        repeat_action_probability=config.sticky_actions,
        full_action_space=config.full_action_space,
        autoreset_mode=AutoresetMode.SAME_STEP,
        img_height=config.screen_size,
        img_width=config.screen_size,
        stack_num=config.frame_stack,
        frameskip=config.frame_skip,
        noop_max=config.noop_max,
        episodic_life=config.life_loss_ends,
        reward_clipping=config.clip_reward,
        use_fire_reset=config.fire_reset,
    )
    return CountedFrames(env, config.frame_skip)


class CountedFrames(gymnasium.vector.VectorWrapper):
    """Says how many frames a step took; the last step of a game counts as a whole one."""

    def __init__(self, env: VectorEnv, frame_skip: int) -> None:
        super().__init__(env)
        self._frames = np.full(env.num_envs, frame_skip)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(actions)
        return observation, reward.astype(np.float64), terminated, truncated, {**info, FRAMES: self._frames}


def _ale() -> Any:
    ale = require("ale_py", extra="atari", purpose="an Atari game")
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)
    return ale

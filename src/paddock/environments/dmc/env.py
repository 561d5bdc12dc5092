"""The dm-control suite: MuJoCo bodies to be controlled from their state, from pictures, or from both."""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from pydantic import Field

from paddock.core.errors import InputError, unknown_choice
from paddock.core.lazy import require
from paddock.environments.base import EnvironmentConfig
from paddock.environments.calls import FRAMES
from paddock.environments.copies import vectorize
from paddock.environments.dmc.state import PhysicsState

RENDER_SHAPE = (240, 320)  # height and width of frames for people


class DMCConfig(EnvironmentConfig):
    """Options of a dm-control task."""

    domain: str
    task: str
    vectorization: Literal["sync", "async"] = "sync"
    action_repeat: int = Field(default=1, ge=1)
    time_limit: float | None = Field(default=None, gt=0)
    observation: Literal["state", "pixels", "both"] = "state"
    image_size: int = Field(default=64, ge=8)
    camera: int = Field(default=0, ge=0)


def make(config: DMCConfig, num_envs: int, render_mode: str | None = None) -> VectorEnv:
    """`num_envs` copies of the task as one Gymnasium vector environment."""
    _check_task(config)
    maker = partial(DMCEnv, config, render_mode)
    return vectorize(maker, num_envs, in_processes=config.vectorization == "async")


class DMCEnv(gymnasium.Env):
    """One copy. `terminated` where the task's discount falls to 0, `truncated` at its time limit.

    Observations are `state`, a float32 vector, and `pixels`, uint8 [size, size, 3]: a Dict if both are asked for.
    """

    def __init__(self, config: DMCConfig, render_mode: str | None = None) -> None:
        self.config, self.render_mode = config, render_mode
        # The suite draws some models at random; the same one every time, so that a state fits every copy.
        options = {"random": 0} | ({} if config.time_limit is None else {"time_limit": config.time_limit})
        self._env = _suite().load(config.domain, config.task, task_kwargs=options)
        self._state = PhysicsState(self._env)
        rate = 1 / (self._env.control_timestep() * config.action_repeat)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": rate}
        limits = self._env.action_spec()
        self.action_space = spaces.Box(limits.minimum.astype(np.float32), limits.maximum.astype(np.float32))
        self.observation_space = self._space()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._env.task.random.seed(self.np_random.integers(2**31))
        return self._observe(self._env.reset().observation), {}

    def step(self, action: NDArray[np.float32]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, frames = 0.0, 0
        while True:
            moment = self._env.step(action)
            reward += moment.reward
            frames += 1
            if moment.last() or frames == self.config.action_repeat:
                break
        terminated = moment.last() and moment.discount == 0
        truncated = moment.last() and not terminated
        return self._observe(moment.observation), reward, terminated, truncated, {FRAMES: frames}

    def render(self) -> NDArray[np.uint8]:
        height, width = RENDER_SHAPE
        return self._picture(height, width)

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, random numbers included."""
        return self._state.get()

    def set_state(self, state: dict[str, Any]) -> None:
        self._state.set(state)

    def close(self) -> None:
        self._env.close()

    def _space(self) -> spaces.Space:
        size = sum(part.size for part in map(np.asarray, self._env.reset().observation.values()))
        state = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        pixels = spaces.Box(0, 255, (self.config.image_size, self.config.image_size, 3), np.uint8)
        kinds: dict[str, spaces.Space] = {
            "state": state,
            "pixels": pixels,
            "both": spaces.Dict({"state": state, "pixels": pixels}),
        }
        return kinds[self.config.observation]

    def _observe(self, parts: dict[str, Any]) -> Any:
        if self.config.observation == "pixels":
            return self._picture(self.config.image_size, self.config.image_size)
        state = np.concatenate([np.ravel(part) for part in parts.values()], dtype=np.float32)
        if self.config.observation == "state":
            return state
        return {"state": state, "pixels": self._picture(self.config.image_size, self.config.image_size)}

    def _picture(self, height: int, width: int) -> NDArray[np.uint8]:
        try:
            return self._env.physics.render(height, width, camera_id=self.config.camera)
        except Exception as error:  # Each OpenGL back end fails with errors of its own.
            raise InputError(
                f"dm-control cannot draw '{self.config.domain}' with camera {self.config.camera} here: {error}. "
                "Pictures need an OpenGL renderer: set MUJOCO_GL to egl, osmesa or glfw, whichever the machine has; "
                "or set environment.observation=state."
            ) from error


def _suite() -> Any:
    if "mujoco" not in sys.modules and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # Without a screen, the renderer that needs none.
    suite = require("dm_control.suite", extra="dmc", purpose="a dm-control task")
    logging.getLogger("absl").setLevel(logging.ERROR)  # Advice to the suite's authors about their models.
    return suite


def _check_task(config: DMCConfig) -> None:
    tasks = _suite().ALL_TASKS
    if config.domain not in {domain for domain, _ in tasks}:
        raise unknown_choice("dm-control domain", config.domain, {domain for domain, _ in tasks})
    if (config.domain, config.task) not in tasks:
        allowed = [task for domain, task in tasks if domain == config.domain]
        raise unknown_choice(f"task of dm-control's '{config.domain}'", config.task, allowed)

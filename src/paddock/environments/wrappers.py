"""Layers around a single environment that several kinds of environment share.

Pictures are uint8: grey [height, width], colour [height, width, channels].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from PIL import Image

from paddock.core.errors import InputError
from paddock.environments.calls import FRAMES


class ActionRepeat(gymnasium.Wrapper):
    """Each decision lasts `repeat` simulator steps; rewards add up, and an end in between ends the decision."""

    def __init__(self, env: gymnasium.Env, repeat: int) -> None:
        super().__init__(env)
        self._repeat = repeat

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total, frames = 0.0, 0
        while True:
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            frames += 1
            if terminated or truncated or frames == self._repeat:
                return observation, total, terminated, truncated, {**info, FRAMES: frames}


class Picture(gymnasium.ObservationWrapper):
    """Pictures made grey and of another size; shrinking averages over areas."""

    def __init__(self, env: gymnasium.Env, *, grey: bool, size: int | None) -> None:
        super().__init__(env)
        space = env.observation_space
        if not (isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3):
            raise InputError(f"observations are {space}; only colour pictures (uint8, three axes) can be prepared.")
        self._grey, self._size = grey, size
        height, width = (size, size) if size is not None else space.shape[:2]
        shape = (height, width) if grey else (height, width, space.shape[2])
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def observation(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        picture = Image.fromarray(observation)
        if self._grey:
            picture = picture.convert("L")
        if self._size is not None:
            picture = shrink(picture, self._size)
        return np.asarray(picture)


def shrink(picture: Image.Image, size: int) -> Image.Image:
    """The picture as `size` x `size` pixels, each the mean of the area it covers."""
    return picture.resize((size, size), Image.Resampling.BOX)


class FrameStack(gymnasium.Wrapper):
    """The newest `count` pictures in one observation, oldest first; an episode begins with its first one repeated.

    Grey pictures become [count, height, width]; colours are joined, [height, width, count * channels].
    """

    def __init__(self, env: gymnasium.Env, count: int) -> None:
        super().__init__(env)
        space = env.observation_space
        assert isinstance(space, spaces.Box), space
        self._is_grey = len(space.shape) == 2
        self._frames = np.zeros((count, *space.shape), np.uint8)
        self.observation_space = spaces.Box(0, 255, self._stacked().shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._frames[:] = observation
        return self._stacked(), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames[:-1] = self._frames[1:]
        self._frames[-1] = observation
        return self._stacked(), reward, terminated, truncated, info

    def get_layer_state(self) -> NDArray[np.uint8]:
        return self._frames.copy()

    def set_layer_state(self, state: NDArray[np.uint8]) -> None:
        self._frames[:] = state

    def _stacked(self) -> NDArray[np.uint8]:
        return self._frames.copy() if self._is_grey else np.concatenate(self._frames, -1)


class Replayed(gymnasium.Wrapper):
    """A state for simulators that cannot give theirs but are deterministic: the random numbers before the episode's
    reset and the actions since. Putting it back plays the episode again up to that point."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._before_reset: Mapping[str, Any] = {}
        self._actions: list[NDArray[Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.unwrapped.np_random = np.random.default_rng(seed)
        self._before_reset = self.unwrapped.np_random.bit_generator.state
        self._actions.clear()
        return self.env.reset(options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._actions.append(np.array(action))
        return self.env.step(action)

    def get_state(self) -> dict[str, Any]:
        return {"before_reset": self._before_reset, "actions": np.array(self._actions)}

    def set_state(self, state: dict[str, Any]) -> None:
        self.unwrapped.np_random.bit_generator.state = state["before_reset"]
        self.reset()
        for action in state["actions"]:
            self.step(action)

"""A small task for dreams: a figure on the bottom row of a grid, and fireballs that fall towards it.

Shapes: N copies.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from paddock.core.seeding import derive_seed
from paddock.environments.rows import go_on_from, state_of

SIDE = 5  # cells on a side
CELL, SIZE = 3, 16  # pixels of a cell, and of the picture
FIGURE, FIRE = (40, 220, 60), (240, 90, 20)
GROUND, FRAME = (20, 20, 40), (0, 0, 0)
MAX_STEPS = 60
LEFT, STAY, RIGHT = 0, 1, 2
STATE = ("figure", "column", "row", "time")


class DodgeVectorEnv(VectorEnv):
    """`paddock/Dodge-v0`: choose left, stay or right. A fireball falls one row a step from a random column of the top
    row, five steps each; where it arrives at the figure, the episode ends. One point for every step until then, 60 at
    most: random choices get 22 on average.

    Observations are pictures, uint8 [16, 16, 3], or without `picture` three numbers from -1 to 1, float32 [3]: the
    figure's column, and the fire's column and row. Ended episodes begin anew within the same step.
    """

    def __init__(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        max_episode_steps: int = MAX_STEPS,
        *,
        picture: bool = True,
    ) -> None:
        self.picture = picture
        self.num_envs, self.render_mode, self.max_steps = num_envs, render_mode, max_episode_steps
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": 5,
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        pixels, numbers = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8), spaces.Box(-1, 1, (3,), np.float32)
        self.single_observation_space: spaces.Box = pixels if picture else numbers
        self.single_action_space = spaces.Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.figure, self.column, self.row, self.time = (np.zeros(num_envs, np.int64) for _ in STATE)
        self._streams = [np.random.default_rng(copy) for copy in range(num_envs)]
        self._first_row = 0

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin episodes; a seed gives every copy a stream of its own."""
        if isinstance(seed, int):
            seed = [derive_seed(seed, "copy", self._first_row + copy) for copy in range(self.num_envs)]
        if seed is not None:
            self._streams = [np.random.default_rng(one) for one in seed]
        self._begin(np.arange(self.num_envs))
        return self._seen(np.arange(self.num_envs)), {}

    def take_rows(self, first: int) -> None:
        """Be the copies from `first` on of a larger environment."""
        self._first_row = first

    def reset_alike(self, *, seed: int, starts: int) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin episodes in which copy i goes as copy i + `starts` does, as long as both choose alike."""
        return self.reset(seed=[derive_seed(seed, "start", copy % starts) for copy in range(self.num_envs)])

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Move, let fire fall, and see whether it hits."""
        self.figure = np.clip(self.figure + np.asarray(actions) - STAY, 0, SIDE - 1)
        fallen = self.row == SIDE - 1
        self.row += 1
        self._throw(np.flatnonzero(fallen))
        self.time += 1
        terminated = (self.row == SIDE - 1) & (self.column == self.figure)
        truncated = ~terminated & (self.time >= self.max_steps)
        reward = np.ones(self.num_envs, np.float32)
        seen = self._seen(np.arange(self.num_envs))
        info: dict[str, Any] = {}
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            info["final_obs"], info["_final_obs"] = seen, terminated | truncated
            self._begin(ended)
            seen = seen.copy()
            seen[ended] = self._seen(ended)
        return seen, reward, terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """Enlarged pictures of all copies."""
        return tuple(np.repeat(np.repeat(one, 16, 0), 16, 1) for one in self._pictures(np.arange(self.num_envs)))

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, random numbers included."""
        return state_of(self, STATE, self._streams)

    def set_state(self, state: dict[str, Any]) -> None:
        go_on_from(self, STATE, self._streams, state)

    def _begin(self, copies: NDArray[np.intp]) -> None:
        self.figure[copies] = [self._streams[copy].integers(SIDE) for copy in copies]
        self.time[copies] = 0
        self._throw(copies)

    def _throw(self, copies: NDArray[np.intp]) -> None:
        """New fire in the top row."""
        self.column[copies] = [self._streams[copy].integers(SIDE) for copy in copies]
        self.row[copies] = 0

    def _seen(self, copies: NDArray[np.intp]) -> NDArray[Any]:
        if self.picture:
            return self._pictures(copies)
        places = np.stack([self.figure[copies], self.column[copies], self.row[copies]], 1)
        return (2.0 * places / (SIDE - 1) - 1.0).astype(np.float32)

    def _pictures(self, copies: NDArray[np.intp]) -> NDArray[np.uint8]:
        return _painted()[self.figure[copies], self.row[copies], self.column[copies]]


@cache
def _painted() -> NDArray[np.uint8]:
    """Every picture that there is: by the figure's column, and the fire's row and column."""
    pictures = np.empty((SIDE, SIDE, SIDE, SIZE, SIZE, 3), np.uint8)
    pictures[:] = FRAME
    pictures[..., : SIDE * CELL, : SIDE * CELL, :] = GROUND
    for figure, row, column in np.ndindex(SIDE, SIDE, SIDE):
        for at, colour in (((SIDE - 1, figure), FIGURE), ((row, column), FIRE)):
            top, left = at[0] * CELL, at[1] * CELL
            pictures[figure, row, column, top : top + CELL, left : left + CELL] = colour
    return pictures

"""A point in the plane among discs: what the tasks share that have several ways to a goal.

Shapes: N copies, D discs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from paddock.core.seeding import derive_seed
from paddock.environments.rows import go_on_from, state_of

Floats = NDArray[np.float64]
SIZE = 256  # pixels of a picture's longer side
GROUND, DISC, GOAL, POINT = (245, 245, 240), (180, 60, 50), (190, 225, 190), (30, 60, 160)


class PlaneVectorEnv(VectorEnv):
    """Steps of a point are actions in [-1, 1]^2; touching a disc ends the episode, and so does the goal, which gives
    the only reward, 1. Ended episodes begin anew within the same step.

    After an end `final_info` has `success` and `way` [N]: which of the `ways` it was, by how the discs were passed.
    """

    discs: Floats  # [D, 3]: x, y, radius
    bounds: tuple[tuple[float, float], tuple[float, float]]  # lowest and highest x, and y
    ways: int
    numbers: int  # in an observation

    def __init__(self, num_envs: int, render_mode: str | None, max_episode_steps: int) -> None:
        self.num_envs, self.render_mode, self.max_steps = num_envs, render_mode, max_episode_steps
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": 20,
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (self.numbers,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.position = np.zeros((num_envs, 2))
        self.wanted = np.zeros((num_envs, 2))
        self.way = np.zeros(num_envs, np.int64)
        self.time = np.zeros(num_envs, np.int64)
        self._streams = [np.random.default_rng(copy) for copy in range(num_envs)]
        self._first_row = 0

    # --- what a task says ---

    def start(self, random: np.random.Generator) -> Floats:
        """Where an episode begins, [2]."""
        raise NotImplementedError

    def move(self, actions: Floats) -> None:
        """Change `wanted` and `position` by actions [N, 2]."""
        raise NotImplementedError

    def has_arrived(self, places: Floats) -> NDArray[np.bool_]:
        """Bool [K]: which of places [K, 2] are at the goal."""
        raise NotImplementedError

    def note_way(self, before: Floats) -> None:
        """Keep in `way` how discs were passed on the way from `before` [N, 2] to `position`."""
        raise NotImplementedError

    def seen(self, copies: NDArray[np.intp]) -> NDArray[np.float32]:
        """Observations of some copies, [K, numbers]."""
        raise NotImplementedError

    def take_rows(self, first: int) -> None:
        """Be the copies from `first` on of a larger environment."""
        self._first_row = first

    # --- Gymnasium ---

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin episodes; a seed gives every copy a stream of its own."""
        if isinstance(seed, int):
            seed = [derive_seed(seed, "copy", self._first_row + copy) for copy in range(self.num_envs)]
        if seed is not None:
            self._streams = [np.random.default_rng(one) for one in seed]
        every = np.arange(self.num_envs)
        self._begin(every)
        return self.seen(every), {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Move, then see whether a disc, the edge or the goal is reached."""
        before = self.position.copy()
        self.move(np.clip(np.asarray(actions, np.float64), -1.0, 1.0))
        self.time += 1
        self.note_way(before)
        arrived = self.has_arrived(self.position)
        terminated = arrived | self._has_crashed()
        success = arrived & ~self._has_crashed()
        truncated = ~terminated & (self.time >= self.max_steps)
        every, done = np.arange(self.num_envs), terminated | truncated
        observation = self.seen(every)
        info: dict[str, Any] = {}
        if done.any():
            info["final_obs"], info["_final_obs"] = observation, done
            info["final_info"] = {"success": success, "_success": done, "way": self.way.copy(), "_way": done}
            info["_final_info"] = done
            ended = np.flatnonzero(done)
            self._begin(ended)
            observation = observation.copy()
            observation[ended] = self.seen(ended)
        return observation, success.astype(np.float32), terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """A picture of each copy: discs, goal and point."""
        ground = self.ground()
        return tuple(self._with_point(ground, place) for place in self.position)

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, random numbers included."""
        return state_of(self, STATE, self._streams)

    def set_state(self, state: dict[str, Any]) -> None:
        go_on_from(self, STATE, self._streams, state)

    # --- inside ---

    def _begin(self, copies: NDArray[np.intp]) -> None:
        for copy in copies:
            self.position[copy] = self.start(self._streams[copy])
        self.wanted[copies] = self.position[copies]
        self.time[copies] = 0
        self.way[copies] = 0

    def _has_crashed(self) -> NDArray[np.bool_]:
        away = np.linalg.norm(self.position[:, None] - self.discs[:, :2], axis=-1)
        is_outside = [
            (self.position[:, axis] < low) | (self.position[:, axis] > high)
            for axis, (low, high) in enumerate(self.bounds)
        ]
        return (away < self.discs[:, 2]).any(1) | is_outside[0] | is_outside[1]

    def ground(self, size: int = SIZE) -> NDArray[np.uint8]:
        """A picture [height, width, 3] of discs and goal, `size` pixels along its longer side."""
        places = self._pixel_places(size)
        picture = np.empty((*places.shape[:2], 3), np.uint8)
        picture[:] = GROUND
        picture[self._is_goal(places)] = GOAL
        for x, y, radius in self.discs:
            picture[np.hypot(places[..., 0] - x, places[..., 1] - y) < radius] = DISC
        return picture

    def _with_point(self, ground: NDArray[np.uint8], place: Floats) -> NDArray[np.uint8]:
        picture, places = ground.copy(), self._pixel_places()
        size = 0.015 * (self.bounds[0][1] - self.bounds[0][0])
        picture[np.hypot(places[..., 0] - place[0], places[..., 1] - place[1]) < size] = POINT
        return picture

    def _pixel_places(self, size: int = SIZE) -> Floats:
        """[height, width, 2]: the place of each pixel; y grows upwards."""
        (left, right), (low, high) = self.bounds
        scale = size / max(right - left, high - low)
        width, height = round(scale * (right - left)), round(scale * (high - low))
        x, y = left + (np.arange(width) + 0.5) / scale, high - (np.arange(height) + 0.5) / scale
        return np.stack(np.meshgrid(x, y), -1)

    def _is_goal(self, places: Floats) -> NDArray[np.bool_]:
        return self.has_arrived(places.reshape(-1, 2)).reshape(places.shape[:-1])


STATE = ("position", "wanted", "way", "time")


def record(env: PlaneVectorEnv, choose: Callable[[Floats], Floats], seed: list[int]) -> dict[str, Any]:
    """One episode of a script that maps the wanted place [2] to an action [2], as arrays by name."""
    observation, _ = env.reset(seed=[int(np.random.default_rng(seed).integers(2**31))])
    observations, actions, rewards = [observation[0]], [], []
    while True:
        action = np.clip(choose(env.wanted[0]), -1.0, 1.0).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action[None])
        is_over = bool(terminated[0] or truncated[0])
        observations.append(info["final_obs"][0] if is_over else observation[0])
        actions.append(action)
        rewards.append(reward[0])
        if is_over:
            ends = np.arange(1, len(actions) + 1) == len(actions)
            return {
                "observations": {"observation": np.stack(observations)},
                "actions": np.stack(actions),
                "rewards": np.array(rewards, np.float32),
                "terminations": ends & terminated[0],
                "truncations": ends & truncated[0],
            }

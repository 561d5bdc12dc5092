"""A pendulum on its tip that pays for leaning and ends the episode when it falls: ends have to be foreseen."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

TIME_STEP = 0.05  # s
GRAVITY = 9.81  # rad/s^2, of a pendulum of a metre
TORQUE = 7.0  # rad/s^2 at full action: holds the pendulum up to 0.79 rad
LIMIT = 0.6  # rad, beyond which it has fallen
GUST = 0.12  # rad/s, deviation of what the wind adds with every step


class BalancePendulumEnv(gymnasium.Env):
    """Observations are float32 [2]: angle over its limit, and angular velocity, rad/s. An action is a torque [1].

    The reward is how far the pendulum leans, 0 to 1, so the best place is near the edge, and how near is a matter of
    the chance that a gust blows it over. Falling terminates; 200 steps truncate (by the registered limit).
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own convention

    def __init__(self, gust: float = GUST, render_mode: str | None = None) -> None:
        self.gust, self.render_mode = gust, render_mode
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._angle = self._velocity = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._angle, self._velocity = (float(value) for value in self.np_random.uniform(-0.2, 0.2, 2))
        return self._observe(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        torque = TORQUE * float(np.clip(action[0], -1, 1))
        self._velocity += TIME_STEP * (GRAVITY * np.sin(self._angle) + torque) + self.gust * self.np_random.normal()
        self._angle += TIME_STEP * self._velocity
        has_fallen = bool(abs(self._angle) > LIMIT)
        return self._observe(), min(abs(self._angle) / LIMIT, 1.0), has_fallen, False, {}

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, but for `np_random`."""
        return {"angle": self._angle, "velocity": self._velocity}

    def set_state(self, state: dict[str, Any]) -> None:
        self._angle, self._velocity = state["angle"], state["velocity"]

    def _observe(self) -> NDArray[np.float32]:
        return np.array([self._angle / LIMIT, self._velocity], np.float32)

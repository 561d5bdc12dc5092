"""A cart on a rail that rolls on while the agent thinks: the example of a real-time interface, without hardware."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from paddock.environments.realtime.clock import SECOND, Clock, WallClock

PUSH = 4.0  # m/s^2 at full action
DRAG = 0.5  # 1/s
RAIL = 2.0  # m to either side; beyond it the cart has fallen off
SUBSTEP = 2_000_000  # ns of one step of integration


class Cart:
    """Bring the cart to a mark on the rail, and keep it there.

    The reward of a time-step is 1 at the mark and 0 from a metre away on; leaving the rail terminates.
    """

    observation_names = ("position", "velocity", "mark")

    def __init__(self) -> None:
        self._clock: Clock = WallClock()
        self._random = np.random.default_rng()
        self._position = self._velocity = self._mark = self._push = 0.0
        self._time = 0

    def use_clock(self, clock: Clock) -> None:
        self._clock = clock

    def get_observation_space(self) -> spaces.Tuple:
        return spaces.Tuple([spaces.Box(-limit, limit, (1,), np.float32) for limit in (np.inf, np.inf, 1.0)])

    def get_action_space(self) -> spaces.Box:
        return spaces.Box(-1.0, 1.0, (1,), np.float32)

    def get_default_action(self) -> NDArray[np.float32]:
        return np.zeros(1, np.float32)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[list[Any], dict]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._position, self._mark = self._random.uniform(-1.0, 1.0, 2)
        self._velocity = self._push = 0.0
        self._time = self._clock.now()
        return self._observation(), {}

    def send_control(self, control: NDArray[Any] | None) -> None:
        self._roll()
        if control is not None:
            self._push = float(control[0])

    def get_obs_rew_terminated_info(self) -> tuple[list[Any], float, bool, dict]:
        self._roll()
        reward = max(0.0, 1.0 - abs(self._position - self._mark))
        return self._observation(), reward, abs(self._position) > RAIL, {}

    def wait(self) -> None:
        self.send_control(self.get_default_action())

    def _roll(self) -> None:
        """Let the world catch up with the clock."""
        left = self._clock.now() - self._time
        self._time += left
        while left > 0:
            seconds = min(left, SUBSTEP) / SECOND
            left -= SUBSTEP
            self._velocity += (PUSH * self._push - DRAG * self._velocity) * seconds
            self._position += self._velocity * seconds

    def _observation(self) -> list[NDArray[np.float32]]:
        return [np.array([value], np.float32) for value in (self._position, self._velocity, self._mark)]

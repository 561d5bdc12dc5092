"""A task that cannot be solved without memory: a cue is shown once, and much later it decides what is right."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class RecallEnv(gymnasium.Env):
    """Cue -1 or 1 in the first observation, then `delay` blank ones, then a question: choose 0 for -1, 1 for 1.

    Observations are float32 [3]: the cue while it is shown, whether the question is asked, noise. When it is asked
    nothing tells the cues apart, so whoever sees only the present is right half of the time: a return of 0.5.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own convention

    def __init__(self, delay: int = 6, render_mode: str | None = None) -> None:
        self.delay, self.render_mode = delay, render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._cue, self._time = 1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._cue, self._time = int(self.np_random.integers(2)) * 2 - 1, 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        is_asked = self._time > self.delay
        reward = float(is_asked and int(action) == (self._cue + 1) // 2)
        self._time += 1
        return self._observe(), reward, is_asked, False, {}

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, but for `np_random`."""
        return {"cue": self._cue, "time": self._time}

    def set_state(self, state: dict[str, Any]) -> None:
        self._cue, self._time = state["cue"], state["time"]

    def _observe(self) -> NDArray[np.float32]:
        noise = self.np_random.uniform(-1, 1)
        return np.array([self._cue * (self._time == 0), self._time > self.delay, noise], np.float32)

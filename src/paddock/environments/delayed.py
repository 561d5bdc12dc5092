"""Delays around any single Gymnasium environment, with the actions under way in the observation."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field

from paddock.core.errors import InputError
from paddock.environments.calls import PLAIN, as_dict
from paddock.environments.delays import ActionLine, Delays, FrameLine

LAST_ACTIONS = "last_actions"
CAR = np.zeros(1, np.int64)  # one environment, the first


class StepDelays(Delays):
    """Delays in an environment that takes whole steps.

    time_step: s of a step; null for the environment's own `render_fps`. act_buf_len: actions in the observation.
    """

    time_step: float | None = Field(default=None, gt=0.0)
    act_buf_len: int = Field(default=0, ge=0, le=32)

    @property
    def is_on(self) -> bool:
        return self.delays_actions or self.delays_observations or self.act_buf_len > 0


class Delayed(gymnasium.Wrapper):
    """Actions take effect, and observations arrive, as late as `delays` says; rewards and ends are not delayed.

    An action under way takes effect with the first step that begins no earlier than half a step before it arrives.
    With `act_buf_len` observations are a Dict that also has `last_actions`, flat, oldest first, a discrete action as
    one number for each choice.
    """

    def __init__(self, env: gymnasium.Env, delays: StepDelays) -> None:
        super().__init__(env)
        self.delays = delays
        self._time_step = delays.time_step or _own_time_step(env)
        action = env.action_space
        if not isinstance(action, spaces.Box | spaces.Discrete):
            raise InputError(f"environment.delays: actions are {action}; only Box and Discrete actions can be delayed.")
        self._choices = int(action.n) if isinstance(action, spaces.Discrete) else 0
        self._default = self._encoded(0) if self._choices else np.clip(0.0, action.low, action.high).ravel()  # type: ignore[union-attr]
        self._actions = ActionLine(delays, 1, self._default.size, self._time_step, substeps=1)
        self._frames: FrameLine | None = None
        self._last = np.tile(self._default, (delays.act_buf_len, 1)).astype(np.float32)
        self._seed = self._episode = self._step = 0
        if delays.act_buf_len:
            self.observation_space = self._with_buffer(env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._seed, self._episode = (self._seed, self._episode + 1) if seed is None else (seed, 0)
        self._step = 0
        self._actions.begin(np.ones(1, bool), self._default)
        self._last[:] = self._default
        if self.delays.delays_observations:
            self._frames = FrameLine(self.delays, self._time_step, _batched(observation))
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        decided = self._encoded(action)
        self._last[:-1] = self._last[1:]
        self._last[-1:] = decided
        sent, key = self._actions.given(decided[None]), (self._seed, CAR, self._episode)
        seconds = self._step * self._time_step + self._actions.delay(*key, self._step)
        self._actions.send(sent, seconds)
        effective = self._decoded(self._actions.in_force([self._step])[0, 0])
        observation, reward, terminated, truncated, info = self.env.step(effective)
        self._step += 1
        if self._frames is not None:
            self._frames.add(_batched(observation), self._step, self._frames.due(*key, [self._step]))
        return self._seen(observation), reward, terminated, truncated, info

    def get_layer_state(self) -> dict[str, Any]:
        return {
            "counts": [self._seed, self._episode, self._step],
            "last": self._last.copy(),
            "actions": self._actions.get_state(),
            "frames": None if self._frames is None else self._frames.get_state(),
        }

    def set_layer_state(self, state: dict[str, Any]) -> None:
        self._seed, self._episode, self._step = (int(count) for count in state["counts"])
        self._last[:] = state["last"]
        self._actions.set_state(state["actions"])
        if self._frames is not None:
            self._frames.set_state(state["frames"])

    def _encoded(self, action: Any) -> NDArray[np.float32]:
        if self._choices:
            return np.eye(self._choices, dtype=np.float32)[int(action)]
        return np.asarray(action, np.float32).ravel()

    def _decoded(self, sent: NDArray[np.float32]) -> Any:
        space = self.env.action_space
        return sent.argmax() if self._choices else sent.astype(space.dtype).reshape(space.shape)

    def _with_buffer(self, space: spaces.Space) -> spaces.Dict:
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {PLAIN: space}
        action = self.env.action_space
        low, high = (0.0, 1.0) if self._choices else (action.low.ravel(), action.high.ravel())  # type: ignore[attr-defined]
        lowest, highest = (np.broadcast_to(np.float32(bound), self._last.shape).ravel() for bound in (low, high))
        return spaces.Dict({**parts, LAST_ACTIONS: spaces.Box(lowest, highest, dtype=np.float32)})

    def _seen(self, observation: Any) -> Any:
        if self._frames is not None:
            newest = {name: part[0] for name, part in self._frames.newest([self._step]).items()}
            observation = newest if isinstance(observation, dict) else newest[PLAIN]
        if not self.delays.act_buf_len:
            return observation
        return {**as_dict(observation), LAST_ACTIONS: self._last.ravel().copy()}


def _batched(observation: Any) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(part)[None] for name, part in as_dict(observation).items()}


def _own_time_step(env: gymnasium.Env) -> float:
    rate = float(env.metadata.get("render_fps") or 0.0)
    if rate <= 0.0:
        raise InputError(
            "environment.delays are in seconds, and the environment does not say how long a step is; set "
            "environment.delays.time_step."
        )
    return 1.0 / rate

"""Delays in virtual time: actions and observations that arrive late, batched, without a clock that anything waits for.

Shapes: E environments, S substeps of a time-step, Q actions on their way, D frames on their way. Times are counted from
the start of an episode, in substeps for actions and in time-steps for observations. A delay depends on the seed,
the environment, the episode and the step alone, so an environment with delays is as exact as one without.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from paddock.config.schema import Schema

LONGEST = 1.0  # s
# Purposes of draws. The racing world's own are 0 to 7.
ACTION, OBSERVATION, DROP = 8, 9, 10
NEAR = 1e-6  # of a step: what is due this soon has arrived

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Delays(Schema):
    """What lies between an agent and its world, s. All zero is no delay, and costs nothing.

    action: from sending an action until it has an effect, and `jitter`, up to so much more, drawn for each action.
    observation: from a reading until the agent gets it, and `observation_jitter`, likewise. drop: the chance
    that a reading never arrives. elastic: the agent decides while a time-step goes on, as with a real-time clock: an
    action is sent when the time-step after its observation begins.
    """

    action: float = Field(default=0.0, ge=0.0, le=LONGEST)
    observation: float = Field(default=0.0, ge=0.0, le=LONGEST)
    jitter: float = Field(default=0.0, ge=0.0, le=LONGEST)
    observation_jitter: float = Field(default=0.0, ge=0.0, le=LONGEST)
    drop: float = Field(default=0.0, ge=0.0, lt=1.0)
    elastic: bool = False

    @property
    def delays_actions(self) -> bool:
        """Whether an action has its effect later than it is given."""
        return self.elastic or self.action > 0.0 or self.jitter > 0.0

    @property
    def delays_observations(self) -> bool:
        """Whether an observation may be older than the newest reading."""
        return self.observation > 0.0 or self.observation_jitter > 0.0 or self.drop > 0.0


def draw(seed: int, cars: Integers, episode: Any, step: Any, purpose: int) -> Doubles:
    """[E] numbers in [0, 1) that depend on the key alone, by the rule of the simulator's kernels."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed % 2**64) * np.uint64(0x9E3779B97F4A7C15) + np.asarray(cars).astype(np.uint64)
        z = _mixed(z) + (np.asarray(episode).astype(np.uint64) << np.uint64(32)) + np.asarray(step).astype(np.uint64)
        z = _mixed(_mixed(z) + (np.uint64(purpose) << np.uint64(32)))
    return (z >> np.uint64(11)).astype(np.float64) * (1.0 / 9007199254740992.0)


def _mixed(z: Any) -> Any:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class ActionLine:
    """Actions on their way to E environments. Of those that have arrived, the one sent last is in force.

    time_step: s. substeps: of a time-step, at whose starts an action may take effect.
    """

    def __init__(self, delays: Delays, count: int, size: int, time_step: float, substeps: int) -> None:
        self.delays, self.substeps = delays, substeps
        self._substep = time_step / substeps
        # Room for all that can be under way, and one that has arrived for certain.
        depth = math.ceil((delays.action + delays.jitter) / time_step) + 2
        self.actions = np.zeros((count, depth, size), np.float32)  # newest first
        self.arrival = np.zeros((count, depth), np.int64)
        self.held = np.zeros((count, size), np.float32)
        self._ages = np.arange(substeps)

    def begin(self, rows: Flags, default: Any = 0.0) -> None:
        """Episodes begin in `rows` [E], under the default action."""
        self.actions[rows], self.arrival[rows], self.held[rows] = default, 0, default

    def given(self, action: NDArray[np.float32]) -> NDArray[np.float32]:
        """What is sent in this time-step [E, size]: the action given, or with the elastic clock the one before."""
        if not self.delays.elastic:
            return action
        sent, self.held = self.held, np.array(action, np.float32)
        return sent

    def delay(self, seed: int, cars: Integers, episode: Any, step: Any) -> Doubles:
        """[E] s that the action sent in time-step `step` takes."""
        if self.delays.jitter == 0.0:
            return np.full(len(cars), self.delays.action)
        return self.delays.action + self.delays.jitter * draw(seed, cars, episode, step, ACTION)

    def send(self, action: NDArray[np.float32], seconds: Any) -> None:
        """An action [E, size] that arrives so many seconds [E] after the episode's start."""
        self.actions[:, 1:], self.arrival[:, 1:] = self.actions[:, :-1].copy(), self.arrival[:, :-1].copy()
        self.actions[:, 0] = action
        # The nearest substep: the time of a message over a real line is never exact.
        self.arrival[:, 0] = np.floor(np.asarray(seconds) / self._substep + 0.5).astype(np.int64)

    def in_force(self, step: Any) -> NDArray[np.float32]:
        """[E, S, size] what acts in each substep of the time-steps `step` [E]."""
        now = np.asarray(step, np.int64)[:, None] * self.substeps + self._ages
        newest = (self.arrival[:, None, :] <= now[:, :, None]).argmax(axis=2)
        return np.take_along_axis(self.actions, newest[:, :, None], axis=1)

    def get_state(self) -> dict[str, Any]:
        return {"actions": self.actions.copy(), "arrival": self.arrival.copy(), "held": self.held.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.actions[...], self.arrival[...] = state["actions"], state["arrival"]
        self.held = np.array(state["held"], np.float32)


class FrameLine:
    """Observations on their way from E environments: arrays [E, ...] by name. The agent has the newest that arrived."""

    def __init__(self, delays: Delays, time_step: float, first: dict[str, NDArray[Any]]) -> None:
        self.delays, self._time_step = delays, time_step
        count = len(next(iter(first.values())))
        self.depth = math.ceil((delays.observation + delays.observation_jitter) / time_step) + 1
        self.frames = {name: np.repeat(array[:, None], self.depth, axis=1) for name, array in first.items()}
        self.arrival = np.zeros((count, self.depth))
        self.taken = np.zeros((count, self.depth))  # time-step of each frame
        self.shown_taken = np.zeros(count)
        self.shown = {name: array.copy() for name, array in first.items()}

    def begin(self, rows: Flags, first: dict[str, NDArray[Any]]) -> None:
        """Episodes begin in `rows` [E]; their first observations (of those rows only) are seen at once."""
        self.arrival[rows] = 0.0
        self.taken[rows], self.shown_taken[rows] = 0.0, 0.0
        for name, array in first.items():
            self.frames[name][rows] = array[:, None]
            self.shown[name][rows] = array

    def add(self, frame: dict[str, NDArray[Any]], step: Any, arrival: Doubles) -> None:
        """A new reading, of time-step `step` [E], which arrives at so many time-steps [E] of its episode."""
        for times, newest in ((self.arrival, arrival), (self.taken, step)):
            times[:, 1:] = times[:, :-1].copy()
            times[:, 0] = newest
        for name, array in frame.items():
            kept = self.frames[name]
            kept[:, 1:] = kept[:, :-1].copy()
            kept[:, 0] = array

    def due(self, seed: int, cars: Integers, episode: Any, step: Any) -> Doubles:
        """[E] when the reading of `step` [E] is there, in time-steps; infinity where it never is."""
        delays = self.delays
        late = np.full(len(cars), delays.observation)
        if delays.observation_jitter > 0.0:
            late = late + delays.observation_jitter * draw(seed, cars, episode, step, OBSERVATION)
        due = np.asarray(step) + late / self._time_step - NEAR
        if delays.drop > 0.0:
            due = np.where(draw(seed, cars, episode, step, DROP) < delays.drop, np.inf, due)
        return due

    def newest(self, step: Any) -> dict[str, NDArray[Any]]:
        """What the agent has at the time `step` [E], in time-steps; copies."""
        is_there = self.arrival <= np.asarray(step)[:, None]
        rows = np.flatnonzero(is_there.any(axis=1))
        index = is_there[rows].argmax(axis=1)
        self.shown_taken[rows] = self.taken[rows, index]
        for name, shown in self.shown.items():
            shown[rows] = self.frames[name][rows, index]
        return {name: shown.copy() for name, shown in self.shown.items()}

    def get_state(self) -> dict[str, Any]:
        return {
            "frames": {name: array.copy() for name, array in self.frames.items()},
            "shown": {name: array.copy() for name, array in self.shown.items()},
            **{name: getattr(self, name).copy() for name in ("arrival", "taken", "shown_taken")},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        for name in ("arrival", "taken", "shown_taken"):
            getattr(self, name)[...] = state[name]
        for name, array in self.frames.items():
            array[...], self.shown[name][...] = state["frames"][name], state["shown"][name]

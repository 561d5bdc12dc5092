"""What can drive a car of a driving session: a person, a policy, the classical driver.

A session's world ticks faster than policies decide: they decide every `ticks_per_decision` ticks, as often as in
training.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.environments.calls import as_dict
from paddock.racing.env.actions import ActionSet
from paddock.racing.env.observations import ObservationSet
from paddock.racing.env.vector import RacingVectorEnv
from paddock.sim.cars.car import GRAVITY, CarParameters
from paddock.sim.reference.classical_driver import ClassicalDriver

Command = NDArray[np.float32]
SILENCE = 0.2  # s without an input, after which wheel and pedals are released
TURN_RATE = 10.0  # full locks a second that the wheel turns at most
PEDAL_RATE = 12.0  # full travels a second
USEFUL_SLIP = 0.16  # rad of slip that the front tyres can use


class CarDriver(Protocol):
    """Drives one car: steer (left positive) and throttle (negative brakes), both in [-1, 1], float32 [2]."""

    name: str

    def drive(self, tick: int) -> Command: ...

    def restart(self) -> None: ...


class HumanInput:
    """A person's latest inputs, released after a moment of silence. Written by one thread, read by another: the whole
    tuple is replaced at once."""

    def __init__(self, car: CarParameters) -> None:
        self._car = car
        self._given = (0.0, 0.0, -1e9)  # steer, throttle - brake, when
        self.command = np.zeros(2, np.float32)

    def update(self, steer: float, throttle: float, brake: float) -> None:
        self._given = (steer, throttle - brake, time.monotonic())

    def release(self) -> None:
        self._given = (0.0, 0.0, -1e9)

    @property
    def is_silent(self) -> bool:
        return time.monotonic() - self._given[2] > SILENCE

    @property
    def is_on_throttle(self) -> bool:
        return not self.is_silent and self._given[1] > 0.0

    def drive(self, elapsed: float, speed: float, slip: float) -> Command:
        """Where wheel and pedals are after `elapsed` s. speed: m/s; slip: rad between the car's nose and its way."""
        steer, throttle, _ = (0.0, 0.0, 0.0) if self.is_silent else self._given
        limit = self._useful_lock(speed, slip)
        wanted = np.array([min(max(steer, -limit), limit), throttle], np.float32)
        most = np.array([TURN_RATE, PEDAL_RATE], np.float32) * elapsed
        now = self.command.copy()
        if now[1] * throttle <= 0.0:
            now[1] = 0.0  # A foot comes off a pedal at once.
        self.command = np.clip(now + np.clip(wanted - now, -most, most), -1.0, 1.0)
        return self.command

    def _useful_lock(self, speed: float, slip: float) -> float:
        """The share of full lock beyond which the front tyres only slide: a key is either pressed or not."""
        car = self._car
        wheelbase = car.front_length + car.rear_length
        turn = wheelbase * car.friction * float(GRAVITY) / max(speed * speed, 1e-3)
        return min((turn + USEFUL_SLIP + abs(slip)) / car.steer_limit, 1.0)


class ClassicalCarDriver:
    """The classical driver on the reference lap."""

    name = "classical driver"

    def __init__(self, env: RacingVectorEnv, car: int) -> None:
        self._world, self._cars = env.world, np.array([car])
        step = env.world.settings.time_step
        self._driver = ClassicalDriver(env.reference.laps[0], env._car, time_step=step)

    def drive(self, tick: int) -> Command:
        return self._driver.act(self._world, self._cars)[0]

    def restart(self) -> None:
        """It remembers nothing."""


class PolicyCarDriver:
    """A saved policy, which sees and acts as it did in training."""

    def __init__(
        self,
        env: RacingVectorEnv,
        car: int,
        actor: Any,
        observations: ObservationSet,
        actions: ActionSet,
        ticks_per_decision: int,
    ) -> None:
        self.name = "agent"
        self._env, self._rows = env, np.array([car])
        self.actor, self._observations, self._actions = actor, observations, actions
        self._ticks_per_decision = ticks_per_decision
        self.last_actions = np.zeros((1, observations.config.sensing.last_actions, actions.size), np.float32)
        self._command = np.zeros(2, np.float32)
        self._state = actor.initial_state(1)

    @property
    def is_cloned(self) -> bool:
        """Whether it is a policy over chunks of actions, which can learn from corrections."""
        from paddock.rollout.chunk_actor import ChunkActor  # torch, only where a policy drives

        return isinstance(self.actor, ChunkActor)

    def drive(self, tick: int) -> Command:
        if tick % self._ticks_per_decision == 0:
            self._decide()
        return self._command

    def restart(self) -> None:
        self.last_actions[:] = 0.0
        self._command = np.zeros(2, np.float32)
        self._state = self.actor.initial_state(1)

    def take_over(self, last_actions: Command) -> None:
        """Drive on where another driver was, whose last actions [1, 2, A] are part of what is seen."""
        self.restart()
        self.last_actions[:] = last_actions

    def _decide(self) -> None:
        seen = as_dict(self._observations.read(self._env.readings, self._rows, self.last_actions))
        action, self._state = self.actor.predict(seen, self._state, deterministic=True)
        decoded = self._actions.decode(action)
        self._actions.shift(self.last_actions, self._actions.record(action, decoded))
        self._command = decoded[0]


def load_actor(folder: Path, *, trusts: bool = False) -> Any:
    """A saved policy; torch is only imported where one drives."""
    import torch

    from paddock.rollout.actor import load_policy

    torch.set_num_threads(1)
    return load_policy(folder, trusts=trusts)

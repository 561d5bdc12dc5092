"""Who drives the other cars: the classical driver on each track's reference lap, or a policy given as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.core.user_code import load_function, split_reference
from paddock.racing.env.actions import ActionSet
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.observations import ObservationSet
from paddock.racing.env.world import car_of
from paddock.sim.reference.classical_driver import ClassicalDriver, DriverSettings
from paddock.sim.reference.lap import reference_lap
from paddock.sim.world import World

Commands = NDArray[np.float32]
CLASSICAL, PERSON = "classical", "person"


class Opponents(Protocol):
    """Drives its own cars among the N of a world."""

    def drive(self, command: Commands) -> None:
        """Write steer and throttle into `command` [N, 2]."""

    def get_state(self) -> dict[str, Any]:
        """What it remembers from step to step."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` gave."""


def build_opponents(
    config: RacingConfig,
    world: World,
    observations: ObservationSet,
    actions: ActionSet,
    policy: Callable[[Any], Any] | None = None,
) -> Opponents | None:
    """The opponents' driver, or None when there are no opponents. A `policy` goes before the configured driver."""
    if config.opponents.count == 0:
        return None
    world.ghost[_opponent_cars(world)] = not config.opponents.contact
    if policy is None and config.opponents.driver in (CLASSICAL, PERSON):  # as long as no person comes
        return ClassicalOpponents(config, world)
    return PolicyOpponents(policy or _load_policy(config.opponents.driver), world, observations, actions)


def _opponent_cars(world: World) -> NDArray[np.intp]:
    cars = np.arange(world.num_cars)
    return cars[cars % world.settings.group_size > 0]


class ClassicalOpponents:
    """Pure pursuit of the reference lap at `pace` times its speed."""

    def __init__(self, config: RacingConfig, world: World) -> None:
        self.world = world
        car = car_of(config)
        settings = DriverSettings()
        # Cornering speed goes with the root of the grip.
        settings = DriverSettings(grip=settings.grip * config.opponents.pace**2)
        step = world.settings.time_step
        self._drivers = [
            ClassicalDriver(reference_lap(track, car), car, settings, time_step=step) for track in world.tracks
        ]
        self._cars = _opponent_cars(world)

    def drive(self, command: Commands) -> None:
        tracks = self.world.track_index[self._cars]
        for index, driver in enumerate(self._drivers):
            mine = self._cars[tracks == index]
            if len(mine):
                command[mine] = driver.act(self.world, mine)

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass


class PolicyOpponents:
    """A learned driver: a function from a batch of observations to a batch of actions, both in the agent's layout."""

    def __init__(
        self, policy: Callable[[Any], Any], world: World, observations: ObservationSet, actions: ActionSet
    ) -> None:
        self.policy, self.world, self.observations, self.actions = policy, world, observations, actions
        self._cars = _opponent_cars(world)
        self._last_actions = np.zeros(
            (len(self._cars), observations.config.sensing.last_actions, actions.size), np.float32
        )

    def drive(self, command: Commands) -> None:
        began = self.world.steps[self._cars] == 0
        self._last_actions[began] = 0.0
        observation = self.observations.read(self.world, self._cars, self._last_actions)
        action = np.asarray(self.policy(observation))
        decoded = self.actions.decode(action)
        if decoded.shape != (len(self._cars), 2):
            raise InputError(
                f"the opponents' driver returned actions of shape {action.shape} for {len(self._cars)} cars; "
                f"allowed: one action per car of {self.actions.space}."
            )
        self.actions.shift(self._last_actions, self.actions.record(action, decoded))
        command[self._cars] = decoded

    def get_state(self) -> dict[str, Any]:
        return {"last_actions": self._last_actions.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._last_actions[...] = state["last_actions"]


def _load_policy(reference: str) -> Callable[[Any], Any]:
    given, name = split_reference(reference)
    if not name:
        raise InputError(
            f"unknown driver '{reference}' for opponents; allowed: classical, person (in real time), or "
            "path/to/file.py:function that maps a batch of observations to a batch of actions."
        )
    return load_function(given, name, noun="opponents' driver")[0]

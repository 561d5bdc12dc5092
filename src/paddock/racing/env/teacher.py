"""The classical driver as a teacher: what it would do now, as a part of the observation that no policy has to read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from paddock.environments.calls import PLAIN, as_dict
from paddock.racing.env.actions import ActionSet
from paddock.racing.env.world import car_of
from paddock.sim.reference.classical_driver import DriverSettings
from paddock.sim.reference.classical_laps import ClassicalDrivers

if TYPE_CHECKING:
    from paddock.racing.env.vector import RacingVectorEnv

TEACHER_ACTION = "teacher_action"


def drivers_at(env: RacingVectorEnv, pace: float) -> ClassicalDrivers:
    """The classical driver of every track of an environment, at a share of its cornering speed."""
    settings = DriverSettings()
    settings = replace(settings, grip=settings.grip * pace**2)  # Cornering speed goes with the root of the grip.
    step, car = env.world.settings.time_step, car_of(env.config)
    return ClassicalDrivers(lambda track: env.reference.laps[track], car, settings, time_step=step)


class Teacher:
    """Adds `teacher_action` to observations: an action of the agent's own layout, in the range of policies."""

    def __init__(self, env: RacingVectorEnv, actions: ActionSet) -> None:
        self._env, self._actions = env, actions
        self._drivers = drivers_at(env, env.config.teacher_pace)

    def space(self, seen: spaces.Space[Any]) -> spaces.Dict:
        """The space of observations with the teacher's action."""
        parts: dict[str, spaces.Space[Any]] = dict(seen.spaces) if isinstance(seen, spaces.Dict) else {PLAIN: seen}
        own = self._actions.space
        action = spaces.Box(-1.0, 1.0, own.shape, np.float32) if isinstance(own, spaces.Box) else own
        return spaces.Dict({**parts, TEACHER_ACTION: action})

    def label(self, observation: Any, rows: NDArray[np.intp] | slice) -> dict[str, Any]:
        """Observations of the cars in `rows`, with what the teacher would do."""
        chosen = self._actions.encode(self._drivers.act(self._env.world)[rows])
        space = self._actions.space
        if isinstance(space, spaces.Box):
            center, reach = (space.high + space.low) / 2, (space.high - space.low) / 2
            chosen = ((chosen - center) / reach).astype(np.float32)
        return {**as_dict(observation), TEACHER_ACTION: np.asarray(chosen)}

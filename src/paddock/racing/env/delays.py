"""The delays of a racing environment: actions on their way to the cars, and readings on their way back.

Shapes: E environments, N cars, S substeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.environments.calls import as_dict
from paddock.environments.delays import ActionLine, Delays, FrameLine
from paddock.racing.env.observations import LAST_ACTIONS, ObservationSet
from paddock.sim.world import World

Values = NDArray[np.float32]


class DelayedCommands:
    """What the learning cars of a world do in each substep; opponents act at once."""

    def __init__(self, delays: Delays, world: World, rows: slice) -> None:
        self._world, self._rows = world, rows
        self.cars = np.arange(world.num_cars)[rows]
        settings = world.settings
        self.line = ActionLine(delays, len(self.cars), 2, settings.time_step, settings.substeps)

    def begin(self, mask: NDArray[np.bool_]) -> None:
        """Episodes begin in the environments of `mask` [E], with the wheel straight and no throttle."""
        self.line.begin(mask)

    def sent(self, decided: Values) -> Values:
        """[E, 2] what goes out in this step, from what was decided for it."""
        return self.line.given(decided)

    def plan(self, command: Values) -> Values:
        """[N, S, 2] what acts, from what is sent to each car [N, 2]."""
        world, rows = self._world, self._rows
        plan = np.repeat(command[:, None], self.line.substeps, axis=1)
        plan[rows] = self._arriving(command[rows], world.steps[rows])
        return plan

    def _arriving(self, sent: Values, step: NDArray[np.int32]) -> Values:
        world = self._world
        seconds = self.line.delay(world.seed, self.cars, world.episode[self._rows], step)
        self.line.send(sent, step * world.settings.time_step + seconds)
        return self.line.in_force(step)


class DelayedReadings:
    """What agents have of observations that take their time. Their own last actions they know at once."""

    def __init__(self, delays: Delays, world: World, rows: slice, observations: ObservationSet, first: Any) -> None:
        self._world, self._rows = world, rows
        self._cars = np.arange(world.num_cars)[rows]
        self._is_flat = not isinstance(first, dict)
        self._actions = observations.layout().get(LAST_ACTIONS)
        self.line = FrameLine(delays, world.settings.time_step, as_dict(first))

    def begin(self, mask: NDArray[np.bool_], first: Any) -> None:
        """Episodes begin in the environments of `mask` [E] with the observations `first` of those."""
        self.line.begin(mask, as_dict(first))

    def add(self, observation: Any) -> None:
        """The readings of the step that was just driven."""
        world, rows = self._world, self._rows
        step = world.steps[rows]
        self.line.add(as_dict(observation), step, self.line.due(world.seed, self._cars, world.episode[rows], step))

    @property
    def age(self) -> NDArray[np.float64]:
        """[E] control steps between what was last seen and the newest reading."""
        return self._world.steps[self._rows] - self.line.shown_taken

    def seen(self, last_actions: Values, after: float = 0.0) -> Any:
        """What agents have, `after` time-steps after the last step; last_actions: [E, L, A], newest first."""
        found = self.line.newest(self._world.steps[self._rows] + after)
        if not self._is_flat:
            if LAST_ACTIONS in found:
                found[LAST_ACTIONS] = last_actions.copy()
            return found
        (flat,) = found.values()
        if self._actions is not None:
            flat[:, slice(*self._actions)] = last_actions.reshape(len(flat), -1)
        return flat


class ArrivingCommands(DelayedCommands):
    """The same where commands are sent at any time, by `send`, and not with every step."""

    def send(self, command: Values, seconds: float) -> None:
        """Steer and throttle [1, 2] that are sent so many seconds after the episode's start."""
        world = self._world
        step = np.round(seconds / world.settings.time_step)
        delay = self.line.delay(world.seed, self.cars, world.episode[self._rows], step)
        self.line.send(command, seconds + delay)

    def _arriving(self, sent: Values, step: NDArray[np.int32]) -> Values:
        return self.line.in_force(step)

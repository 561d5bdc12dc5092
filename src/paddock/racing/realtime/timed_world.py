"""One car whose world goes on by the clock: it receives the time and drives every control step that is due.

Commands take effect where they arrive within a step, at the nearest substep, so that a step is driven only when its
time is over. The world never waits for a command; the last one that arrived stays in force.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.environments.calls import as_dict
from paddock.environments.realtime.clock import SECOND, nanoseconds
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.delays import ArrivingCommands
from paddock.racing.env.observations import LAST_ACTIONS
from paddock.racing.env.opponents import PERSON
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.realtime.person import PersonsCar
from paddock.sim.layout import OUT_LAP

BRAKE = np.array([[0.0, -1.0]], np.float32)
MOST_STEPS = 200  # control steps that are driven at once; a world that was away for longer skips the rest


class TimedWorld:
    """Times are ns of any clock that only goes forward. Rewards and ends are not delayed; sensors are, by `delays`.

    person: the car that a person may drive, where there is one. That world goes on between the agent's episodes, too.
    """

    def __init__(self, config: RacingConfig) -> None:
        # The clock of the agent is what makes a step pass before an action is sent.
        delays = config.delays.model_copy(update={"elastic": False})
        changes = {"delays": delays, "max_episode_steps": None, "num_envs": 1}
        self.env = RacingVectorEnv(1, config=config.model_copy(update=changes), commands=ArrivingCommands)
        self._step = nanoseconds(self.env.world.settings.time_step)
        self._start: int | None = None
        self._sent = np.zeros((1, 2), np.float32)
        self._reward, self._has_ended = 0.0, True
        self._laps: list[tuple[float, list[float], bool]] = []
        self._is_clean = True  # the lap under way
        self.steps = 0  # of the episode
        self.driven = 0  # steps ever
        self.skipped = 0  # ever, because the world was away
        self.person: PersonsCar | None = None
        if config.opponents.count and config.opponents.driver == PERSON:
            self.person = PersonsCar(self.env)
            self.env.let_drive(self.person)

    def due(self) -> int | None:
        """When the next step is over, ns; None while nothing goes on."""
        if self._start is None or (self._has_ended and self.person is None):
            return None
        return self._start + (self.steps + 1) * self._step

    def begin(self, now: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The episode that `env.reset` prepared begins now; its first observation, and info."""
        observation = self.env._observe(self.env._rows)
        self._start, self.steps, self._has_ended = now, 0, False
        self._sent[:] = 0.0
        self._reward, self._is_clean = 0.0, True
        self._laps.clear()
        return self._parts(observation), self._info()

    def send(self, now: int, action: NDArray[Any]) -> None:
        """An action leaves the agent now."""
        self.advance(now)
        if self._start is None or self._has_ended:
            return
        self._sent[:] = self.env._actions.decode(np.asarray(action, np.float32)[None])
        commands = self.env.commands
        assert isinstance(commands, ArrivingCommands)
        commands.send(self._sent, (now - self._start) / SECOND)

    def capture(self, now: int) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        """(sensors by part, reward since the last capture, terminated, info) as the agent has them now."""
        self.advance(now)
        assert self._start is not None, "capture before the first reset"
        after = 0.0 if self._has_ended else (now - self._start) / self._step - self.steps
        observation = self.env._observe(self.env._rows, after)
        reward, self._reward = self._reward, 0.0
        info = self._info()
        behind = 0.0 if self.env.delayed is None else float(self.env.delayed.age[0])
        info["observation_age"] = (after + behind) * self._step / SECOND
        self._laps.clear()
        return self._parts(observation), reward, self._has_ended, info

    def advance(self, now: int) -> None:
        """Drive every step that is over."""
        driven = 0
        while (due := self.due()) is not None and due <= now:
            if driven == MOST_STEPS:
                assert self._start is not None
                missed = (now - due) // self._step + 1
                self._start += missed * self._step
                self.skipped += int(missed)
                return
            self._drive()
            driven += 1

    def _drive(self) -> None:
        world, car = self.env.world, self.env._rows.start
        was_timed = world.lap_kind[car] != OUT_LAP
        _, reward, terminated, _, info = self.env.drive(self._sent)
        self.steps += 1
        self.driven += 1
        if self.person is not None:
            self.person.watch()
        if self._has_ended:
            return  # The agent is between two episodes; its car stands, or is about to.
        self._reward += float(reward[0])
        self._has_ended = bool(terminated[0])
        if self._has_ended and self.person is not None:
            self._stop_agent()
        self._is_clean &= not (was_timed and world.wheels_off[car] > 0)
        self._is_clean |= bool(world.lap_rejected[car])  # Another lap begins, which may count.
        if info["lap_completed"][0]:
            sectors = self.env.world.last_sector_times[self.env._rows][0]
            self._laps.append((float(info["lap_time"][0]), [float(one) for one in sectors], self._is_clean))
            self._is_clean = True

    def _stop_agent(self) -> None:
        self._sent[:] = BRAKE
        commands = self.env.commands
        assert isinstance(commands, ArrivingCommands)
        commands.send(self._sent, self.steps * self._step / SECOND)

    def _parts(self, observation: Any) -> dict[str, Any]:
        return {name: part[0] for name, part in as_dict(observation).items() if name != LAST_ACTIONS}

    def _info(self) -> dict[str, Any]:
        world, car = self.env.world, self.env._rows.start
        lap_time, sectors, is_clean = self._laps[-1] if self._laps else (0.0, [], False)
        return {
            "lap_completed": bool(self._laps),
            "lap_time": lap_time,
            "sector_times": sectors,
            "lap_clean": is_clean,
            "distance": float(world.distance[car]),
            "laps": int(world.lap_count[car]),
            "best_lap_time": float(world.best_lap_time[car]),
            "speed": float(world.vx[car]),
            "off_track": bool(world.off_track[car]),
            "wheels_off": int(world.wheels_off[car]),
            "world_steps": self.steps,
            "time": float(world.time[car]),
        }

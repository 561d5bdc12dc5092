"""A person's car in a racing world that goes on by the clock: one of the opponents, whose wheel a person may take."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.control.messages import MODES
from paddock.core.errors import unknown_choice
from paddock.racing.drive.drivers import HumanInput
from paddock.racing.env.opponents import ClassicalOpponents
from paddock.racing.env.vector import RacingVectorEnv

CAR = 1  # the agent's car is the first
AWAY = 3.0  # s without a word from a person at the wheel, after which the classical driver has the car again
NOBODY = "ai"


class PersonsCar:
    """Drives the opponents of an environment: the first as a person wants, all others, and the first while no person is
    at its wheel, by the classical driver. A reset of the agent leaves them where they are, unless it changes the road.
    """

    def __init__(self, env: RacingVectorEnv) -> None:
        self._env, self._world = env, env.world
        self._classical = ClassicalOpponents(env.config, env.world)
        self._input = HumanInput(env._car)
        self.mode, self.assist = NOBODY, 0.5
        self._heard = -math.inf
        self._lap: dict[str, Any] | None = None
        self._ends, self._laps, self._lap_clock = 0, 0, 0.0
        env.stays[CAR:] = len(env.world.tracks) == 1

    # --- as `Opponents` ---

    def drive(self, command: NDArray[np.float32]) -> None:
        """Write steer and throttle of the other cars into `command` [N, 2]."""
        self._classical.drive(command)
        if self.mode != NOBODY and time.monotonic() - self._heard > AWAY:
            self.set_mode(NOBODY)
        if self.mode == NOBODY:
            return
        world = self._world
        slip = float(np.arctan2(world.vy[CAR], max(float(world.vx[CAR]), 1.0)))
        by_hand = self._input.drive(world.settings.time_step, float(world.vx[CAR]), slip)
        share = self.assist if self.mode == "assisted" else 0.0
        command[CAR] = (1.0 - share) * by_hand + share * command[CAR]

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """A person is not resumed."""

    # --- the person ---

    def steer(self, steer: float, throttle: float, brake: float, *, is_released: bool = False) -> None:
        """What the person does at the wheel. Steer is positive to the left; pedals are from 0 to 1."""
        self._heard = time.monotonic()
        if is_released or not all(map(math.isfinite, (steer, throttle, brake))):
            self._input.release()
        else:
            self._input.update(*(min(max(value, -1.0), 1.0) for value in (steer, throttle, brake)))

    def set_mode(self, mode: str, assist: float | None = None) -> None:
        """Who drives: the person, the classical driver (`ai`), or both."""
        if mode not in MODES:
            raise unknown_choice("mode", mode, MODES)
        self.mode, self._heard = mode, time.monotonic()
        self.assist = self.assist if assist is None else assist
        self._input.release()
        self._env.view.human = None if mode == NOBODY else CAR

    def place(self) -> None:
        """Put the car on the line, standing."""
        chosen = np.arange(self._world.num_cars) == CAR
        self._world.reset(chosen, s=0.0, lateral=0.0, heading_error=0.0, speed=0.0)
        self._input.release()
        self._lap_clock = 0.0

    def watch(self) -> None:
        """A step was driven."""
        world = self._world
        is_complete, is_rejected = bool(world.lap_completed[CAR]), bool(world.lap_rejected[CAR])
        if is_complete or is_rejected:
            self._ends += 1
            self._laps += is_complete
            sectors = [float(one) for one in world.last_sector_times[CAR]] if is_complete else []
            lap_time = float(world.last_lap_time[CAR]) if is_complete else self._lap_clock
            self._lap = {"number": self._ends, "lap_time": lap_time, "sectors": sectors, "valid": is_complete}
        self._lap_clock = float(world.time[CAR] - world.lap_start[CAR])

    def status(self) -> dict[str, Any]:
        """What viewers know of it. lap: the last one that ended, `number` counts those that do not count as well."""
        last, best = (float(one[CAR]) for one in (self._world.last_lap_time, self._world.best_lap_time))
        return {
            "car": CAR,
            "mode": self.mode,
            "assist": self.assist,
            "laps": self._laps,
            "last_lap": last if math.isfinite(last) else None,
            "best_lap": best if math.isfinite(best) else None,
            "lap": self._lap,
        }

"""Puts an opponent that does not get on back on the road: a race against a car in the gravel is none."""

from __future__ import annotations

import numpy as np

from paddock.sim.world import World

PATIENCE = 6.0  # s without getting on
LEAST_LENGTHS = 2.0  # car lengths along the road that count as getting on


class Rescue:
    """Watches one car of a world; the times are those of its simulation."""

    def __init__(self, world: World, car: int, length: float) -> None:
        self._world, self._car, self._length = world, car, length
        self.count = 0
        self.restart()

    def restart(self) -> None:
        """The car was put elsewhere: begin to watch anew."""
        self._best, self._waited = -np.inf, 0.0

    def watch(self, elapsed: float) -> bool:
        """After a step of `elapsed` s; whether the car was put back, on the middle of the road where it left it."""
        world, car = self._world, self._car
        distance = float(world.distance[car])
        self._waited += elapsed
        if distance > self._best + LEAST_LENGTHS * self._length:
            self._best, self._waited = distance, 0.0
        if self._waited < PATIENCE:
            return False
        chosen = np.arange(world.num_cars) == car
        world.reset(chosen, s=float(world.s[car]), lateral=0.0, heading_error=0.0, speed=0.0)
        self.count += 1
        self.restart()
        return True

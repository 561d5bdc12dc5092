"""How far along a trajectory a car is: TMRL's walk, and a net one that takes back what it gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paddock.environments.trackmania.trajectory import Points

CHUNK = 64  # points whose distances are taken at once


@dataclass(frozen=True)
class WalkSettings:
    """Points of a trajectory are 0.1 m apart; the names are those of TMRL's configuration, in small letters."""

    check_forward: int = 500  # points
    check_backward: int = 10  # points
    failure_countdown: int = 10  # steps without progress that are forgiven
    min_steps: int = 70  # steps before failures count
    max_stray: float = 100.0  # m from the trajectory


class ExactProgress:
    """TMRL's rule: the nearest point ahead pays, points behind cost nothing."""

    def __init__(self, points: Points, settings: WalkSettings) -> None:
        self._points, self.settings = points, settings
        self.reset()

    def reset(self) -> None:
        self.index = self._steps = self._failures = 0
        self.is_lost = False

    def advance(self, position: Points) -> tuple[int, bool]:
        """Points gained with this step at `position` [3], and whether the episode has failed."""
        self._steps += 1
        before = self.index
        found, distance = self._walk(position, 1, len(self._points) - before, self.settings.check_forward)
        self.is_lost = distance > self.settings.max_stray
        gained = 0 if self.is_lost else found - before
        if gained:
            self.index, self._failures = found, 0
            return gained, False
        self.index, _ = self._walk(position, -1, max(1, before), self.settings.check_backward)
        if self._steps > self.settings.min_steps:
            self._failures += 1
        return 0, self._failures > self.settings.failure_countdown

    def _walk(self, position: Points, direction: int, room: int, patience: int) -> tuple[int, float]:
        """The nearest of `room` points from the present one on, the later of equals, and its distance.

        The walk ends after `patience` points without an improvement; backwards it does not reach point 0, unless it
        begins there.
        """
        nearest, least, steps, since = self.index, np.inf, 0, 0
        while True:
            chunk = self._distances(position, direction, steps, min(CHUNK, room - steps))
            for distance in chunk:
                if distance <= least:
                    nearest, least, since = self.index + direction * steps, distance, 0
                steps += 1
                since += 1
                if since >= patience:
                    return nearest, least
            if steps >= room:
                return nearest, least

    def _distances(self, position: Points, direction: int, skipped: int, count: int) -> list[float]:
        """Metres to `count` points, from the present one on in a direction, after those skipped."""
        places = self.index + direction * np.arange(skipped, skipped + count)
        return np.sqrt(np.sum((self._points[places] - position) ** 2, axis=1)).tolist()


class NetProgress:
    """The nearest point within limits that hold: a metre back costs what a metre forward paid."""

    def __init__(self, points: Points, settings: WalkSettings) -> None:
        self._points, self.settings = points, settings
        self.reset()

    def reset(self) -> None:
        self.index = self.furthest = self._steps = self._idle = 0
        self.is_lost = False

    def advance(self, position: Points) -> tuple[int, bool]:
        """Points gained with this step, negative for ground lost, and whether the episode has failed.

        Failures are steps without a new furthest point, and steps beyond the stray limit, which gain nothing.
        """
        self._steps += 1
        reach = self.settings.check_forward
        first, last = max(0, self.index - reach), min(len(self._points), self.index + reach + 1)
        squared = np.sum((self._points[first:last] - position) ** 2, axis=1)
        place = int(np.argmin(squared))
        self.is_lost = bool(squared[place] > self.settings.max_stray**2)
        gained = 0 if self.is_lost else first + place - self.index
        self.index += gained
        self._idle = 0 if self.index > self.furthest else self._idle + 1
        self.furthest = max(self.furthest, self.index)
        has_failed = self._steps > self.settings.min_steps and self._idle > self.settings.failure_countdown
        return gained, has_failed

"""What the loop does for those who watch: called after every step of the environments, it publishes by the wall clock,
and holds the simulation to a pace when somebody asked for that. Costs a comparison when nobody watches."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from paddock.control.channel import Channel
from paddock.control.requests import Control
from paddock.core.errors import PaddockError
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv, episode_frames, undisturbed

log = logging.getLogger(__name__)

SLICE = 0.05  # s of sleep at a time, so that a request is soon taken
LATE = 0.25  # s behind its pace from which on the simulation does not catch up
FILM_RATE = 25.0  # pictures a second, at most
FILM_SEED = 77


class Broadcast:
    """`speed`: times real time that the simulation is held to; None is as fast as it can.

    time_step: s of one step of the environments. view: `snapshot(watched)` of the cars, None where there are none.
    """

    def __init__(self, channel: Channel, control: Control, view: Any, film: Film, time_step: float) -> None:
        self.speed: float | None = None
        self._channel, self._control = channel, control
        self._view, self._film = view, film
        self._time_step = time_step
        self._steps = self._sequence = 0
        self._next_snapshot = self._due = 0.0

    def after_step(self) -> None:
        """One vector step has been taken."""
        self._steps += 1
        channel = self._channel
        if self.speed is None and not channel.is_watched:
            return
        if channel.rate > 0.0 and self._view is not None and time.perf_counter() >= self._next_snapshot:
            self.publish()
        if channel.wants_pictures:
            self._film.show()
        if self.speed is not None:
            self._hold(self._time_step / self.speed)

    def publish(self) -> None:
        """The cars as they are now."""
        now = time.perf_counter()
        period = 1.0 / self._channel.rate if self._channel.rate > 0.0 else 1.0
        # On a grid of its own, so that being called a little late does not lower the rate.
        self._next_snapshot = max(self._next_snapshot + period, now + 0.5 * period)
        self._sequence += 1
        snapshot = self._view.snapshot(self._channel.cars)
        snapshot |= {"time": self._steps * self._time_step, "sequence": self._sequence}
        self._channel.publish("snapshot", snapshot)

    def _hold(self, pace: float) -> None:
        now = time.perf_counter()
        self._due = self._due + pace if now - self._due < LATE + pace else now
        while (wait := self._due - time.perf_counter()) > 0.0 and not self._control.is_anything_asked:
            time.sleep(min(wait, SLICE))


class Film:
    """Pictures of a copy of the environment that the present policy drives, made only while somebody watches."""

    def __init__(self, channel: Channel, actor: Callable[[], ActorModule], make_env: MakeEnv) -> None:
        self.problem: str | None = None
        self._channel, self._actor, self._make_env = channel, actor, make_env
        self._env: Any = None
        self._frames: Iterator[np.ndarray] = iter(())
        self._next = 0.0

    def show(self) -> None:
        """The next picture, if it is time for one."""
        now = time.perf_counter()
        if now < self._next or self.problem is not None:
            return
        try:
            picture = self._picture()
        except (PaddockError, AssertionError, AttributeError, OSError, ImportError, RuntimeError) as error:
            self.problem = f"this environment cannot be filmed: {error}"
            log.warning("%s", self.problem)
            self.close()
            return
        self._channel.publish("picture", np.ascontiguousarray(picture))
        rate = min(float(self._env.metadata.get("render_fps", FILM_RATE)), FILM_RATE)
        self._next = max(self._next + 1.0 / rate, time.perf_counter() + 0.2 / rate)

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
        self._env, self._frames = None, iter(())

    def _picture(self) -> np.ndarray:
        actor = self._actor()
        with undisturbed(actor, FILM_SEED):
            if self._env is None:
                os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
                self._env = self._make_env(1, "rgb_array")
            picture = next(self._frames, None)
            if picture is None:
                self._frames = episode_frames(actor, self._env, FILM_SEED, deterministic=True)
                picture = next(self._frames)
        return picture

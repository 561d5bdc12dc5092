"""What the loop does for viewers: called after every step of the environments while it is needed, it publishes
snapshots and pictures by the wall clock, and holds the simulation to a pace where one is set. Snapshots of a world that
goes on by itself come from a thread of their own."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from paddock.control.channel import Channel
from paddock.control.messages import Snapshot
from paddock.control.requests import Control
from paddock.core.errors import PaddockError
from paddock.core.pace import Pacer, RateLimit
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv, episode_frames, evaluation_mode

log = logging.getLogger(__name__)

FILM_RATE = 25.0  # pictures a second, at most
FILM_SEED = 77
ANEW = 0.5  # s


class View(Protocol):
    """What viewers see of an environment that has cars. One that goes on whether or not the run takes steps says so by
    an attribute `goes_on`, and gives the `time` of a snapshot, s."""

    def scene(self, track: int) -> dict[str, Any]: ...

    def snapshot(self, watched: tuple[int, ...]) -> dict[str, Any]: ...


class Broadcast:
    """`speed`: times real time that the simulation is held to; None is as fast as it can.

    time_step: s of one step of the environments. view: None where there are no cars. The time of a snapshot counts the
    steps for which the broadcast was needed.
    """

    def __init__(self, channel: Channel, control: Control, view: View | None, film: Film, time_step: float) -> None:
        self.speed: float | None = None
        self._channel, self._control = channel, control
        self._view, self._film = view, film
        self._time_step = time_step
        self._steps = self._sequence = 0
        self._snapshots, self._pacer = RateLimit(), Pacer()

    @property
    def is_needed(self) -> bool:
        """Whether `after_step` has anything to do."""
        return self.speed is not None or self._channel.is_watched

    def after_step(self) -> None:
        """One vector step has been taken."""
        self._steps += 1
        channel = self._channel
        if channel.rate > 0.0 and self._view is not None and not goes_on(self._view) and self._snapshots.wait <= 0.0:
            self._snapshots.took(channel.rate)
            self._publish(self._view)
        if channel.wants_pictures:
            self._film.show()
        if self.speed is not None:
            self._pacer.wait(self._time_step / self.speed, self._control.has_requests)

    def _publish(self, view: View) -> None:
        self._sequence += 1
        seconds, sequence = self._steps * self._time_step, self._sequence
        self._channel.publish_snapshot(Snapshot(time=seconds, sequence=sequence, **view.snapshot(self._channel.cars)))


def goes_on(view: View | None) -> bool:
    """Whether a world needs no steps of the run to go on."""
    return bool(getattr(view, "goes_on", False))


class LiveSnapshots:
    """Publishes snapshots of a view that goes on by itself, as often as viewers want them.

    on_snapshot: called in this thread after each look. A moment is published once, and anew every `ANEW` s, so that a
    viewer who comes to a world that stands sees it.
    """

    def __init__(self, channel: Channel, view: View, on_snapshot: Callable[[], None]) -> None:
        self._channel, self._view, self._on_snapshot = channel, view, on_snapshot
        self._changed, self._is_closed = threading.Event(), False
        self._limit = RateLimit()
        self._sequence = 0
        self._shown: tuple[float, tuple[int, ...]] | None = None
        self._published = 0.0
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Viewers have come, gone, or want something else."""
        self._changed.set()

    def close(self) -> None:
        self._is_closed = True
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            rate = self._channel.rate
            self._changed.wait(max(self._limit.wait, 0.0) if rate > 0.0 else None)
            self._changed.clear()
            if rate > 0.0 and self._limit.wait <= 0.0 and not self._is_closed:
                self._limit.took(rate)
                self._publish(self._channel.cars)

    def _publish(self, cars: tuple[int, ...]) -> None:
        found = self._view.snapshot(cars)
        self._on_snapshot()
        now, moment = time.monotonic(), (float(found["time"]), cars)
        if moment == self._shown and now - self._published < ANEW:
            return
        self._shown, self._published = moment, now
        self._sequence += 1
        self._channel.publish_snapshot(Snapshot(sequence=self._sequence, **found))


class Film:
    """Pictures of another environment that the present policy acts in, made only while a viewer wants them."""

    def __init__(self, channel: Channel, actor: Callable[[], ActorModule], make_env: MakeEnv) -> None:
        self.problem: str | None = None
        self._channel, self._actor, self._make_env = channel, actor, make_env
        self._env: Any = None
        self._frames: Iterator[np.ndarray] = iter(())
        self._limit = RateLimit()

    def show(self) -> None:
        """The next picture, if it is time for one."""
        if self._limit.wait > 0.0 or self.problem is not None:
            return
        try:
            picture = self._picture()
        except (PaddockError, AssertionError, AttributeError, OSError, ImportError, RuntimeError) as error:
            self.problem = f"this environment cannot be filmed: {error}"
            log.warning("%s", self.problem)
            self.close()
            return
        self._channel.publish_picture(np.ascontiguousarray(picture))
        self._limit.took(min(float(self._env.metadata.get("render_fps", FILM_RATE)), FILM_RATE))

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
        self._env, self._frames = None, iter(())

    def _picture(self) -> np.ndarray:
        actor = self._actor()
        with evaluation_mode(actor, FILM_SEED):
            if self._env is None:
                os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
                self._env = self._make_env(1, "rgb_array")
            picture = next(self._frames, None)
            if picture is None:
                self._frames = episode_frames(actor, self._env, FILM_SEED, deterministic=True)
                picture = next(self._frames)
        return picture

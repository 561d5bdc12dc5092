"""Demonstrations on the page: their steps as frames in real time, with what was seen and what was done.

Racing's observations are drawn as the road that they tell of; those of other environments as images or numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.buffers.action_range import to_policy
from paddock.buffers.demonstrations import load_episodes
from paddock.buffers.episodes import INTERVENTION, Description, Episode
from paddock.config.validate import validate
from paddock.control import messages as m
from paddock.control.session import LiveSession
from paddock.core.errors import InputError, PaddockError
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.demonstration_sets import describe
from paddock.racing.env.actions import build_actions
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.observations import ROAD_WIDTH, ObservationSet
from paddock.racing.env.world import car_of
from paddock.render.demonstration_picture import demonstration_picture

USUAL_TIME_STEP = 0.05  # s, where a set does not say its own
RACING = "paddock.racing.env.vector.make"
SEEN_BY = ("observation", "flat", "images", "privileged", "sensing", "car", "scale", "action")  # options of racing
STEER_THROTTLE = ("steer", "throttle")
PANELS = ("Seen", "Done")


class Playback:
    """The episodes of a set, step after step; after the last one the first one begins again."""

    def __init__(self, folder: Path, first: int = 0) -> None:
        self.about, self.episodes = describe(folder), load_episodes(folder)
        if not 0 <= first < len(self.episodes):
            count = len(self.episodes)
            raise InputError(f"there is no episode {first} in '{folder}', which has {count}; they count from 0.")
        self.first, self.number, self.step = first, first, 0
        self.rate = 1.0 / (self.about.time_step or USUAL_TIME_STEP)
        self._road = road_reader(self.about)

    @property
    def episode(self) -> Episode:
        return self.episodes[self.number]

    def begin(self) -> None:
        """The present episode from its first step on."""
        self.step = 0

    def advance(self) -> None:
        self.step += 1
        if self.step == len(self.episode):
            self.number, self.step = (self.number + 1) % len(self.episodes), 0

    def picture(self) -> NDArray[np.uint8]:
        """The present step, uint8 [height, width, 3]."""
        episode, spec = self.episode, self.about.spec
        seen = {name: part[self.step] for name, part in episode.observations.items()}
        return demonstration_picture(
            seen,
            _drawable(episode.actions, spec.action),
            self.step,
            labels=None if episode.labels is None else _drawable(episode.labels, spec.action),
            marked=episode.marks.get(INTERVENTION),
            names=STEER_THROTTLE if spec.action.size == 2 and self._road is not None else (),
            road=None if self._road is None else self._road(seen),
            title=f"episode {self.number} by {episode.driver}, {self.step / self.rate:.1f} s",
        )


def _drawable(actions: NDArray[Any], spec: Any) -> NDArray[np.floating]:
    """Actions [T, A] from -1 to 1; of choices, the number of the choice."""
    if spec.is_discrete:
        most = max((spec.choices or 2) - 1, 1)
        return 2.0 * actions.reshape(len(actions), -1) / most - 1.0
    return to_policy(actions, spec).reshape(len(actions), -1)


def road_reader(about: Description) -> Callable[[dict[str, NDArray[Any]]], NDArray[np.floating]] | None:
    """What gives the road ahead, [K, 4] m, of an observation of racing's `course`; None for any other one.

    A set's configuration comes from elsewhere: only the options that say what a car sees are read.
    """
    given = about.environment or {}
    if given.get("_target_") != RACING:
        return None
    try:
        config = validate(
            {"_target_": RACING, **{name: given[name] for name in SEEN_BY if name in given}}, RacingConfig
        )
        assert isinstance(config, RacingConfig)
        seen = ObservationSet(config, car_of(config), build_actions(config).size)
    except PaddockError:
        return None
    parts = {part.name: part for part in seen.parts}
    if "course" not in parts:
        return None
    reach = 0.5 * config.sensing.course_horizon * seen.car.top_speed
    width = ROAD_WIDTH * config.track_scale
    units = np.array([reach, reach, width, width])
    begin, end = seen.layout()["course"]

    def read(observation: dict[str, NDArray[Any]]) -> NDArray[np.floating]:
        numbers = observation["course"] if "course" in observation else next(iter(observation.values()))[begin:end]
        return numbers.reshape(-1, 4) * units

    sizes = about.spec.observation
    is_alike = "course" in sizes or [part.size for part in sizes.values()] == [sum(part.size for part in seen.parts)]
    return read if is_alike else None


class PlaybackSession(LiveSession):
    """Watched, not driven; `reset` begins the present episode anew."""

    kind = "playback"
    speeds = (0.1, 10.0)

    def __init__(self, playback: Playback, run: RunFolder, name: str) -> None:
        super().__init__(run)
        self._playback, self._name, self._steps = playback, name, 0

    # --- the session's own thread ---

    @property
    def period(self) -> float:
        return 1.0 / self._playback.rate

    def tick(self) -> None:
        """Show the present step, and go on to the next one."""
        if self.channel.wants_pictures:
            self.channel.publish_picture(self._playback.picture())
        self._playback.advance()
        self._steps += 1

    def begin(self) -> None:
        self._playback.begin()

    def finish(self) -> dict[str, Any]:
        return {"steps": self._steps}

    # --- the channel's thread ---

    def welcome(self) -> m.Welcome:
        return m.Welcome("video", self.can(), self.status())

    def scene(self, track: int) -> dict[str, Any]:
        return {"kind": "video", "panels": list(PANELS), "playback_of": self._name}

    def status(self) -> m.Status:
        playback = self._playback
        return m.Status(
            status="paused" if self.is_paused else "running",
            agent_steps=self._steps,
            seconds=round(playback.step / playback.rate, 2),
            steps_per_second=round(playback.rate * self._speed, 1),
            speed=self._speed,
            driver=playback.episode.driver,
        )

    def input(self, message: m.DriverInput) -> None:
        """What was driven is not driven again."""


def playback_folder(folder: Path, runs_dir: Path) -> RunFolder:
    """A folder for what happens in a session, beside those of the drives."""
    title = "playback-" + (re.sub(r"[^\w.-]+", "-", folder.resolve().name) or "set")
    config = {"name": title, "playback": str(folder)}
    run = RunFolder.create(runs_dir / "drives", title, config, is_own=False)
    run.write_manifest(**manifest(config, seed=0))
    return run

"""What a driving session keeps: laps as files to race against, and demonstrations to learn from."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.buffers.episode_builder import EpisodeBuilder
from paddock.buffers.episodes import Description, Episode, EpisodeWriter
from paddock.core.specs import Spec
from paddock.environments.calls import as_dict
from paddock.environments.spaces import spec_of_spaces
from paddock.racing.env.actions import ActionSet
from paddock.racing.env.observations import ObservationSet
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.records import RecordedLap, Recorder, write_lap

STANDING = 0.1  # m/s below which a car has not started


class LapRecorder:
    """Records the person's car, and writes each lap that was driven by hand from line to line."""

    def __init__(self, env: RacingVectorEnv, folder: Path, driver: str) -> None:
        self._env, self._folder, self._driver = env, folder, driver
        self._recorder = Recorder(slice(0, 1))
        self._is_by_hand = True

    def watch(self, *, is_by_hand: bool, is_sampled: bool) -> RecordedLap | None:
        """After a tick; a lap that was just completed by hand, written. is_sampled: whether this tick is to be kept."""
        world = self._env.world
        self._is_by_hand &= is_by_hand
        is_complete = bool(world.lap_completed[0])
        if is_sampled or is_complete:
            self._recorder(world, np.ones(1, np.bool_))
        if not is_complete:
            return None
        was_by_hand, recorder = self._is_by_hand, self._recorder
        self.restart()
        self._is_by_hand = is_by_hand
        if not was_by_hand:
            return None
        track, car = world.tracks[0].name, self._env.config.car
        lap = recorder.lap(0, driver=self._driver, track=track, car_name=car)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        name = re.sub(r"[^\w.-]+", "-", f"{track}-{car}-{self._driver}-{stamp}-{lap.lap_time:.3f}")
        write_lap(self._folder / f"{name}.json", lap)
        return lap

    def restart(self) -> None:
        """Whatever lap was under way does not count."""
        self._recorder = Recorder(slice(0, 1))
        self._is_by_hand = True


class Demonstration:
    """Decisions of a person in an agent's own terms: what it would have seen, what it would have had to choose.

    One decision is `ticks_per_decision` ticks: the action is the mean of the commands, the reward their sum. A stretch
    that the person drove is an episode of a set of demonstrations in `folder`, where there is one. A stretch in which
    the person corrects a policy has the mark `is_intervention`. `on_episode`, where set, is given every stretch.
    """

    def __init__(
        self,
        env: RacingVectorEnv,
        observations: ObservationSet,
        actions: ActionSet,
        ticks_per_decision: int,
        folder: Path | None,
        driver: str = "you",
    ) -> None:
        self._env, self._observations, self._actions = env, observations, actions
        self._ticks_per_decision = ticks_per_decision
        self.spec: Spec = spec_of_spaces(observations.space, actions.space)
        self.time_step = env.world.settings.time_step * ticks_per_decision
        about = Description(self.spec, env.config.to_dict(), self.time_step)
        self._writer = None if folder is None else EpisodeWriter(folder, about)
        self.on_episode: Callable[[Episode], None] | None = None
        self.is_correction = False
        track = env.world.tracks[0].name
        self._builder = EpisodeBuilder(self.spec, {"driver": driver, "track": track, "car": env.config.car})
        self.last_actions = np.zeros((1, observations.config.sensing.last_actions, actions.size), np.float32)
        self._is_begun = False
        self._commands: list[NDArray[np.float32]] = []
        self._reward = 0.0

    def watch(self, command: NDArray[np.float32], reward: float, *, is_end: bool) -> None:
        """After a tick in which the person drove; is_end: the episode is cut here."""
        if not self._is_begun:
            self._builder.begin(self._look())
            self._is_begun = True
            return
        self._commands.append(command.copy())
        self._reward += reward
        if len(self._commands) == self._ticks_per_decision or is_end:
            self._add(is_end)

    def cut(self) -> None:
        """The person no longer drives: end the episode, and write what there is."""
        if self._is_begun and self._commands:
            self._add(is_end=True)
        else:
            self._write()
        self._is_begun = False
        self._commands.clear()
        self._reward = 0.0
        self.is_correction = False
        self.last_actions[:] = 0.0

    def correct(self, last_actions: NDArray[np.float32]) -> None:
        """The person takes over from a policy, whose last actions [1, 2, A] are part of what is seen."""
        self.is_correction = True
        self.last_actions[:] = last_actions

    def _look(self) -> dict[str, NDArray[Any]]:
        read = self._observations.read(self._env.readings, np.array([0]), self.last_actions)
        return {name: part[0] for name, part in as_dict(read).items()}

    def _add(self, is_end: bool) -> None:
        mean = np.stack(self._commands).mean(axis=0, keepdims=True, dtype=np.float32)
        chosen = self._actions.encode(mean)
        decoded = self._actions.decode(chosen)
        self._actions.shift(self.last_actions, self._actions.record(chosen, decoded))
        following = self._look()
        speed = float(np.hypot(self._env.world.vx[0], self._env.world.vy[0]))
        mark = True if self.is_correction else None
        is_idle = speed < STANDING
        self._builder.add(chosen[0], self._reward, following, truncated=is_end, is_intervention=mark, is_idle=is_idle)
        self._commands.clear()
        self._reward = 0.0
        if is_end:
            self._write()
            self._builder.begin(following)

    def _write(self) -> None:
        if (episode := self._builder.finish()) is None:
            return
        if self._writer is not None:
            self._writer.add(episode)
        if self.on_episode is not None:
            self.on_episode(episode)

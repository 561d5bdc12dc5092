"""What a driving session keeps: laps as files to race against, and demonstrations to learn from."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.buffers.recordings import RecordingBuffer, RecordingConfig
from paddock.core.specs import Spec
from paddock.environments.calls import as_dict
from paddock.environments.spaces import spec_of_spaces
from paddock.racing.env.actions import ActionSet
from paddock.racing.env.observations import ObservationSet
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.records import RecordedLap, Recorder, write_lap

ROWS_PER_FILE = 10_000


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

    One decision is `ticks_per_decision` ticks: the action is the mean of the commands, the reward their sum.
    """

    def __init__(
        self,
        env: RacingVectorEnv,
        observations: ObservationSet,
        actions: ActionSet,
        ticks_per_decision: int,
        folder: Path,
    ) -> None:
        self._env, self._observations, self._actions = env, observations, actions
        self._ticks_per_decision = ticks_per_decision
        self.spec: Spec = spec_of_spaces(observations.space, actions.space)
        config = RecordingConfig(
            _target_="paddock.buffers.recordings.RecordingBuffer", folder=str(folder), rows_per_file=ROWS_PER_FILE
        )
        self._buffer = RecordingBuffer(config, self.spec, 1)
        self._last_actions = np.zeros((1, observations.config.sensing.last_actions, actions.size), np.float32)
        self._seen: dict[str, NDArray[Any]] | None = None
        self._is_first = True
        self._commands: list[NDArray[np.float32]] = []
        self._reward = 0.0

    def watch(self, command: NDArray[np.float32], reward: float, *, is_end: bool) -> None:
        """After a tick in which the person drove; is_end: the episode is cut here."""
        if self._seen is None:
            self._seen = self._look()
            return
        self._commands.append(command.copy())
        self._reward += reward
        if len(self._commands) == self._ticks_per_decision or is_end:
            self._add(is_end)

    def cut(self) -> None:
        """The person no longer drives: end the episode, and write what there is."""
        if self._seen is not None and self._commands:
            self._add(is_end=True)
        self._seen, self._is_first = None, True
        self._commands.clear()
        self._last_actions[:] = 0.0
        self._buffer.mark_discontinuity()
        self._buffer.flush()

    def _look(self) -> dict[str, NDArray[Any]]:
        rows = np.array([0])
        return {name: part.copy() for name, part in as_dict(self._read(rows)).items()}

    def _read(self, rows: NDArray[np.intp]) -> Any:
        return self._observations.read(self._env.readings, rows, self._last_actions)

    def _add(self, is_end: bool) -> None:
        mean = np.stack(self._commands).mean(axis=0, keepdims=True, dtype=np.float32)
        chosen = self._actions.encode(mean)
        decoded = self._actions.decode(chosen)
        self._actions.shift(self._last_actions, chosen, decoded)
        following = self._look()
        self._buffer.add(
            {
                "observation": self._seen,
                "action": self._in_policy_range(chosen),
                "reward": np.array([self._reward], np.float32),
                "terminated": np.zeros(1, np.bool_),
                "truncated": np.array([is_end]),
                "valid": np.ones(1, np.bool_),
                "is_first": np.array([self._is_first]),
                "next_observation": following,
            }
        )
        self._seen, self._is_first = following, is_end
        self._commands.clear()
        self._reward = 0.0
        if is_end:
            self._buffer.flush()

    def _in_policy_range(self, chosen: Any) -> NDArray[Any]:
        """Policies act in [-1, 1] whatever the environment's bounds are."""
        action = self.spec.action
        if action.is_discrete:
            return np.asarray(chosen)
        low, high = action.bounds()
        return (np.asarray(chosen) - (high + low) / 2) / ((high - low) / 2)

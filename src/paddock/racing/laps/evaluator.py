"""The evaluator of racing runs, chosen in YAML by `evaluation.evaluator`: laps in place of episodes."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from paddock.config.schema import TargetSchema
from paddock.evaluation.evaluator import record_video
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.archive import keep_drives
from paddock.racing.laps.classical import classical_lap
from paddock.racing.laps.drive import Laps, PolicyDriver, drive_laps, evaluation_config
from paddock.racing.laps.film import QUICK_RATE, QUICK_SIZE, film_lap
from paddock.racing.laps.records import Recorder
from paddock.racing.laps.traces import LapTracer
from paddock.racing.view import drawn_road
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv, evaluation_mode

FILMED = 4  # starts, of which the best lap is filmed


class LapEvaluatorConfig(TargetSchema):
    """Where laps are driven; by default on the tracks of training."""

    track: str | list[str] | None = None
    procedural: int = Field(default=0, ge=0)
    procedural_seed: int = Field(default=0, ge=0)


class LapEvaluator:
    """One flying lap from each of many standing starts, spread over the lap. Its environments are made once."""

    needs_reward = False  # The simulator's clock is what counts.

    def __init__(self, config: LapEvaluatorConfig) -> None:
        self.config = config
        self._envs: dict[int, RacingVectorEnv] = {}  # by their number of cars
        self._tracer: LapTracer | None = None

    def __call__(self, actor: ActorModule, make_env: MakeEnv, *, episodes: int, seed: int, deterministic: bool) -> Laps:
        """Laps of `episodes` starts; training's random numbers are left as they were."""
        env = self._environment(make_env, episodes)
        self._tracer = LapTracer(env)
        with evaluation_mode(actor, seed):
            driver = PolicyDriver(actor, episodes, seed=seed, deterministic=deterministic)
            return drive_laps(env, driver, seed=seed, watch=self._tracer)

    def traces(self, laps: Laps) -> dict[str, Any]:
        """What is kept of the laps that were evaluated last."""
        assert self._tracer is not None, "nothing has been evaluated yet"
        return self._tracer.traces(laps)

    def keep_drives(self, folder: Path, laps: Laps, *, agent_steps: int, kept: Container[str]) -> None:
        """Keep what was driven by the policy that was evaluated last; `kept`: names of policies whose drives stay."""
        assert self._tracer is not None, "nothing has been evaluated yet"
        env = self._envs[len(laps.track)]
        drives = [
            (drawn_road(env.world.tracks[index], env.config.car, env._car, env.reference.laps[index]), drive)
            for index, drive in self._tracer.drives(laps)
        ]
        keep_drives(folder, agent_steps, drives, kept=kept)

    def record_video(
        self, actor: ActorModule, make_env: MakeEnv, file: Path, *, seed: int, deterministic: bool = True
    ) -> int:
        """Film the best of a few laps against the classical driver's; an episode where no lap was completed."""
        env = self._environment(make_env, FILMED)
        recorder = Recorder(env._rows)
        with evaluation_mode(actor, seed):
            driver = PolicyDriver(actor, FILMED, seed=seed, deterministic=deterministic)
            laps = drive_laps(env, driver, seed=seed, watch=recorder)
        if not laps.finished.any():
            return record_video(actor, make_env, file, seed=seed, deterministic=deterministic)
        best = int(np.nanargmin(laps.lap_time))
        index = int(env.world.track_index[env._rows][best])
        lap = recorder.lap(best, driver="agent", track=laps.track[best], car_name=env.config.car)
        # Training waits for it: a film of full size and rate takes about ten times as long.
        ghost = classical_lap(env.config, index)
        return film_lap(file, env.world.tracks[index], lap, ghost, size=QUICK_SIZE, frames_per_second=QUICK_RATE)

    def _environment(self, make_env: MakeEnv, cars: int) -> RacingVectorEnv:
        if cars not in self._envs:
            trained_in = make_env(1, None)
            self._envs[cars] = RacingVectorEnv(cars, config=evaluation_config(trained_in, **self.changes()))
            trained_in.close()
        return self._envs[cars]

    def changes(self) -> dict[str, Any]:
        """Options of the environment in which evaluation differs from training: where laps are driven."""
        config = self.config
        if config.procedural:
            return {"procedural": config.procedural, "procedural_seed": config.procedural_seed}
        return {} if config.track is None else {"procedural": 0, "track": config.track}

"""The judge of racing runs, chosen in YAML by `evaluation.judge`: laps in place of episodes."""

from __future__ import annotations

import torch
from pydantic import Field

from paddock.config.schema import TargetSchema
from paddock.environments.racing import RacingVectorEnv
from paddock.rollout.actor import ActorModule
from paddock.rollout.evaluation import MakeEnv
from paddock.rollout.racing_laps import Laps, PolicyDriver, drive_laps, judging_config


class LapJudgeConfig(TargetSchema):
    """Where laps are driven; by default on the tracks of training."""

    track: str | list[str] | None = None
    procedural: int = Field(default=0, ge=0)
    procedural_seed: int = Field(default=0, ge=0)


class LapJudge:
    """One flying lap from each of many standing starts, spread over the lap. Keeps its environment from call to call."""

    def __init__(self, config: LapJudgeConfig) -> None:
        self.config = config
        self._env: RacingVectorEnv | None = None

    def __call__(
        self, actor: ActorModule, make_env: MakeEnv, *, episodes: int, seed: int, deterministic: bool
    ) -> Laps:
        """Laps of `episodes` starts; training's random numbers are left as they were."""
        env = self._environment(make_env, episodes)
        was_training = actor.training
        with torch.random.fork_rng(devices=[]):
            laps = drive_laps(env, PolicyDriver(actor, episodes, seed=seed, deterministic=deterministic), seed=seed)
        actor.train(was_training)
        return laps

    def _environment(self, make_env: MakeEnv, cars: int) -> RacingVectorEnv:
        if self._env is None or self._env.num_envs != cars:
            config, changes = self.config, {}
            if config.procedural:
                changes = {"procedural": config.procedural, "procedural_seed": config.procedural_seed}
            elif config.track is not None:
                changes = {"procedural": 0, "track": config.track}
            trained_in = make_env(1, None)
            self._env = RacingVectorEnv(cars, config=judging_config(trained_in, **changes))
            trained_in.close()
        return self._env

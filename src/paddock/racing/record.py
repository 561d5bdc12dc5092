"""Recording demonstrations: by the classical driver, by a policy or at random, in racing or any other environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from paddock.buffers.episodes import Description, Episode, EpisodeWriter
from paddock.config.compose import compose
from paddock.config.schema import TargetSchema, instantiate, validate_target
from paddock.core.errors import InputError
from paddock.core.trust import sign
from paddock.environments.spaces import spec_of
from paddock.orchestration.subject import find_subject
from paddock.racing.drive.recording import STANDING
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.teacher import drivers_at
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import NAME
from paddock.rollout.actor import ActorModule, RandomActor, RandomActorConfig
from paddock.rollout.collector import time_step
from paddock.rollout.episodes import evaluation_mode
from paddock.rollout.recorder import ActorDriver, EpisodeDriver, EpisodeRecorder, RecordingRules

CLASSICAL, RANDOM = "classical", "random"
RANDOM_ACTOR = "paddock.rollout.actor.RandomActor"
NO_LIMIT = "environment.max_episode_steps=null"  # A lap may take longer than an episode of training.
# A start at high speed in the middle of a corner says little of a driver.
SLOW_STARTS = "environment.start.speed=[0.0,0.1]"
PATIENCE = 20  # episodes in a row that may be dropped until a recording is given up


@dataclass(frozen=True)
class RecordRequest:
    """What is to be recorded. driver: `classical`, `random`, a run or a policy's folder; a policy drives in its own
    environment, the others in that of `experiment`. laps: whole laps of racing, in place of `episodes`.

    pace: share of its cornering speed that the classical driver takes. keeps_failures: of laps, also those that were
    not completed. min_return: of episodes, the least that is kept.
    student: a run or a policy's folder that drives in its own environment while the classical driver says in each step
    what it would have done, and takes that step itself with the chance `teacher_share`. All of its episodes are kept.
    """

    folder: Path
    driver: str
    experiment: str = "racing"
    overrides: Sequence[str] = ()
    episodes: int | None = None
    laps: int | None = None
    noise: float = 0.0
    seed: int = 1
    num_envs: int = 8
    stochastic: bool = False
    keeps_idle: bool = False
    keeps_failures: bool = False
    min_return: float | None = None
    student: str | None = None
    teacher_share: float = 0.0
    pace: float = 1.0
    runs_dir: Path = Path("runs")
    trusts: bool = False


def record(request: RecordRequest, advance: Callable[[int], None] = lambda count: None) -> dict[str, Any]:
    """Record into a folder of demonstrations; gives what was kept and what was dropped."""
    if (request.episodes is None) == (request.laps is None):
        raise InputError("say how much is to be recorded: either a number of episodes or a number of laps.")
    wanted = request.laps or request.episodes or 0
    if request.student is not None and request.driver != CLASSICAL:
        raise InputError(f"a student is taught by the classical driver, not by '{request.driver}'.")
    if request.pace != 1.0 and request.driver != CLASSICAL:
        raise InputError(f"--pace {request.pace:g} is of the classical driver; '{request.driver}' drives as it does.")
    env, environment, actor = _subject(request, min(request.num_envs, wanted))
    spec = spec_of(env)
    driver: EpisodeDriver
    if actor is not None and request.student is None:
        driver = ActorDriver(actor, env.num_envs, Path(request.driver).name, deterministic=not request.stochastic)
    elif isinstance(env, RacingVectorEnv):
        driver = ClassicalDemonstrator(env, request.pace)
    else:
        raise InputError(f"the classical driver drives in racing only; record '{request.experiment}' with a policy.")
    rules = _rules(env, request, actor)
    writer = EpisodeWriter(request.folder, Description(spec, environment, time_step(env)))
    sign(request.folder, {"environment": environment})
    recorder = EpisodeRecorder(env, spec, driver, rules, seed=request.seed)
    with closing(env), nullcontext() if actor is None else evaluation_mode(actor, request.seed, "recording"):
        kept, dropped = _keep(recorder, writer, request, wanted, advance)
    returns = [float(episode.rewards.sum()) for episode in kept]
    return {
        "folder": str(request.folder),
        "driver": driver.name,
        "episodes": len(kept),
        "steps": sum(len(episode) for episode in kept),
        "mean_return": float(np.mean(returns)),
        "dropped": dropped,
    }


def _keep(
    recorder: EpisodeRecorder,
    writer: EpisodeWriter,
    request: RecordRequest,
    wanted: int,
    advance: Callable[[int], None],
) -> tuple[list[Episode], int]:
    kept: list[Episode] = []
    dropped = in_a_row = 0
    for episode in recorder.episodes():
        keeps_all = request.keeps_failures or request.student is not None
        is_failure = request.laps is not None and bool(episode.terminations[-1]) and not keeps_all
        is_poor = request.min_return is not None and float(episode.rewards.sum()) < request.min_return
        if is_failure or is_poor:
            dropped, in_a_row = dropped + 1, in_a_row + 1
            if in_a_row >= PATIENCE * max(len(kept), 1):
                what = "none of the last" if kept else "none of the first"
                raise InputError(
                    f"{what} {in_a_row} episodes was good enough to be kept; change the driver or --noise."
                )
            continue
        in_a_row = 0
        writer.add(episode)
        kept.append(episode)
        advance(1)
        if len(kept) == wanted:
            break
    return kept, dropped


def _subject(request: RecordRequest, copies: int) -> tuple[VectorEnv, dict[str, Any] | None, ActorModule | None]:
    """The environment, its configuration where it says, and the policy that drives; None for the classical driver."""
    overrides = list(request.overrides)
    if request.student is not None or request.driver not in (CLASSICAL, RANDOM):
        overrides += [NO_LIMIT] if request.laps is not None else []
        subject = find_subject(
            request.student or request.driver,
            request.runs_dir,
            overrides=overrides,
            keeps_reward=True,
            trusts=request.trusts,
        )
        env = subject.make_env(copies, None)
        config = getattr(env, "config", None)
        return env, config.to_dict() if isinstance(config, TargetSchema) else None, subject.actor
    config = validate_target(compose(request.experiment, overrides=overrides).values["environment"])
    if request.laps is not None and isinstance(config, RacingConfig):
        changes = [NO_LIMIT, SLOW_STARTS, *overrides]
        config = validate_target(compose(request.experiment, overrides=changes).values["environment"])
    env = instantiate(config, copies, None)
    if request.driver == CLASSICAL:
        return env, config.to_dict(), None
    return env, config.to_dict(), RandomActor(RandomActorConfig(_target_=RANDOM_ACTOR), {}, spec_of(env))


def _rules(env: VectorEnv, request: RecordRequest, actor: ActorModule | None) -> RecordingRules:
    options: dict[str, Any] = {"noise": request.noise, "keeps_idle": request.keeps_idle}
    if request.student is not None and actor is not None:
        name, deterministic = Path(request.student).name, not request.stochastic
        options["student"] = ActorDriver(actor, env.num_envs, name, deterministic=deterministic)
        options["teacher_share"] = request.teacher_share
    if isinstance(env, RacingVectorEnv):
        return racing_rules(env, by_lap=request.laps is not None, **options)
    if request.laps is not None:
        raise InputError("laps are driven in racing only; say a number of episodes.")
    return RecordingRules(**options)


class ClassicalDemonstrator:
    """The classical driver as an `EpisodeDriver`: it looks at the world itself, and chooses among the agent's
    actions."""

    def __init__(self, env: RacingVectorEnv, pace: float = 1.0) -> None:
        self._env, self._drivers = env, drivers_at(env, pace)
        self.name = NAME if pace == 1.0 else f"{NAME} at {pace:g}"

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        env = self._env
        return np.asarray(env._actions.encode(self._drivers.act(env.world)[env._rows]))

    def restart(self, begins: np.ndarray) -> None:
        """It remembers nothing."""


def racing_rules(env: RacingVectorEnv, *, by_lap: bool, **rules: Any) -> RecordingRules:
    """How episodes of cars are recorded. by_lap: an episode ends with its first whole lap."""
    world, rows = env.world, env._rows

    def about(copy: int) -> dict[str, Any]:
        car = rows.indices(world.num_cars)[0] + copy * (rows.step or 1)
        return {"track": world.tracks[int(world.track_index[car])].name, "car": env.config.car}

    return RecordingRules(
        cuts=(lambda info: np.asarray(info["lap_completed"])) if by_lap else None,
        is_idle=lambda info: np.abs(info["speed"]) < STANDING,
        about=about,
        **rules,
    )

"""Demonstrations by the classical driver, made where they are needed: laps with noise, labelled by what it wanted.

Shapes: N cars, T control steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field

from paddock.config.schema import Part, TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec
from paddock.environments.calls import as_dict
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.teacher import drivers_at
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.drive import GRACE, PATIENCE, with_evaluation_rules

PERSISTENCE = 0.9  # of the noise from one step to the next: noise that changes with each step hardly moves a car
SPARE = 1.25  # cars that start for each lap that is wanted, because noise may end one
MOST_CARS = 64  # at the same time


class ClassicalDemonstratorConfig(TargetSchema):
    """environment: where it drives. laps: how many, as road that is driven: each is divided into `stints` that begin
    standing at random places of the lap. pace: share of its cornering speed that the driver takes. noise: std of what
    is added to steer and throttle. seed: of starts and noise."""

    environment: Part
    laps: int = Field(default=30, ge=1)
    stints: int = Field(default=1, ge=1)
    pace: float = Field(default=1.0, gt=0, le=1)
    noise: float = Field(default=0.05, ge=0, le=1)
    seed: int = Field(default=0, ge=0)


def demonstrate(config: ClassicalDemonstratorConfig, spec: Spec) -> Iterator[dict[str, Any]]:
    """Episodes as arrays by name. `actions` are those that were taken, `labels` those that the driver wanted."""
    if not isinstance(config.environment, RacingConfig):
        raise InputError("the classical driver drives in racing only; give demonstrations of others as sources.")
    kept, round_, wanted = 0, 0, config.laps * config.stints
    while kept < wanted:
        cars = min(int(SPARE * (wanted - kept)) + 1, MOST_CARS)
        found = _drive(config, cars, np.random.default_rng([config.seed, round_]))
        if not found:
            raise InputError(f"the classical driver completed nothing with noise = {config.noise}; take less.")
        yield from found[: wanted - kept]
        kept, round_ = kept + len(found), round_ + 1


def _drive(config: ClassicalDemonstratorConfig, cars: int, random: np.random.Generator) -> list[dict[str, Any]]:
    """The completed stints of some cars, in the order of the cars."""
    assert isinstance(config.environment, RacingConfig)
    env = RacingVectorEnv(cars, config=with_evaluation_rules(config.environment))
    track = np.arange(cars) % len(env.world.tracks)
    lengths = np.array([env.world.tracks[index].length for index in track])
    starts = {"s": random.uniform(0.0, lengths), "speed": 0.0, "track_index": track}
    observation, _ = env.reset(seed=int(random.integers(2**31)), options=starts)
    driver, noise = drivers_at(env, config.pace), np.zeros((cars, 2))
    reference = max(lap.lap_time for lap in env.reference.laps)
    steps: dict[str, list[Any]] = {name: [] for name in ("actions", "labels", "rewards")}
    seen, driving, ended = [as_dict(observation)], np.ones(cars, bool), np.zeros(cars, np.int64)
    for step in range(1, int((2 * PATIENCE * reference + GRACE) * env.config.control_rate)):
        wanted = driver.act(env.world)[env._rows]
        drawn = random.normal(size=noise.shape) * config.noise * np.sqrt(1 - PERSISTENCE**2)
        noise = PERSISTENCE * noise + drawn
        taken = env._actions.encode(np.clip(wanted + noise, -1.0, 1.0).astype(np.float32))
        observation, reward, terminated, _, _ = env.advance(taken)
        seen.append(as_dict(observation))
        for name, values in (("actions", taken), ("labels", env._actions.encode(wanted)), ("rewards", reward)):
            steps[name].append(values)
        done = driving & (env.world.distance[env._rows] >= lengths / config.stints)
        ended[done] = step
        driving &= ~(done | terminated)
        if not driving.any():
            break
    env.close()
    return [_episode(seen, steps, car, int(ended[car])) for car in np.flatnonzero(ended).tolist()]


def _episode(seen: list[Any], steps: dict[str, list[Any]], car: int, length: int) -> dict[str, Any]:
    """The first `length` steps of one car."""
    last = np.arange(1, length + 1) == length
    return {
        "observations": {name: np.stack([one[name][car] for one in seen[: length + 1]]) for name in seen[0]},
        **{name: np.stack([one[car] for one in values[:length]]) for name, values in steps.items()},
        "terminations": np.zeros(length, bool),
        "truncations": last,
        "marks": {"corrected": np.ones(length, bool)},
    }

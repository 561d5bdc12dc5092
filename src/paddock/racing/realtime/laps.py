"""Laps of policies that drive in real time: by the wall clock one start after another, or many in virtual time."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.env.world import car_of, tracks_of
from paddock.racing.laps.drive import GRACE, PATIENCE, Laps, PolicyDriver, spread_starts, with_evaluation_rules
from paddock.racing.laps.evaluator import LapEvaluator, LapEvaluatorConfig
from paddock.racing.realtime.racing_realtime import RacingRealTimeConfig, RacingRealTimeEnv, make
from paddock.rollout.actor import ActorModule
from paddock.rollout.episodes import MakeEnv, evaluation_mode
from paddock.sim.reference.lap import reference_lap


class RealTimeLapEvaluatorConfig(LapEvaluatorConfig):
    """in_real_time: drive every start by the clock, one after another, in place of all of them in virtual time."""

    in_real_time: bool = False


class RealTimeLapEvaluator(LapEvaluator):
    """Laps of `racing_realtime`. In virtual time they are those of `racing` with the same delays and the elastic clock,
    which take no more time than any other evaluation."""

    config: RealTimeLapEvaluatorConfig

    def __init__(self, config: RealTimeLapEvaluatorConfig) -> None:
        super().__init__(config)

    def __call__(self, actor: ActorModule, make_env: MakeEnv, *, episodes: int, seed: int, deterministic: bool) -> Laps:
        if not self.config.in_real_time:
            return super().__call__(actor, make_env, episodes=episodes, seed=seed, deterministic=deterministic)
        config = _config_of(make_env)
        with evaluation_mode(actor, seed):
            return drive_in_real_time(actor, config, starts=episodes, seed=seed, deterministic=deterministic)[0]

    def _environment(self, make_env: MakeEnv, cars: int) -> RacingVectorEnv:
        if cars not in self._envs:
            config = with_evaluation_rules(_config_of(make_env).in_virtual_time(), **self.changes())
            self._envs[cars] = RacingVectorEnv(cars, config=config)
        return self._envs[cars]


def _config_of(make_env: MakeEnv) -> RacingRealTimeConfig:
    env: Any = make_env(1, None)
    env.close()
    config = env.config
    assert isinstance(config, RacingRealTimeConfig)
    return config


def drive_in_real_time(
    actor: ActorModule,
    config: RacingRealTimeConfig,
    *,
    starts: int,
    seed: int,
    deterministic: bool = True,
    only: int | None = None,
) -> tuple[Laps, list[dict[str, float]]]:
    """One flying lap from each of `starts` standing starts, as `drive_laps` does; and of each start its `steps`, how
    many were late by a time-step (`overruns`) or `timed_out`, and the median of `late_by`, s. only: just this start."""
    with_rules = with_evaluation_rules(config.without_person())
    assert isinstance(with_rules, RacingRealTimeConfig)
    tracks, car = tracks_of(config), car_of(config)
    index = np.arange(starts) % len(tracks)
    places = spread_starts(index, np.array([track.length for track in tracks]))
    chosen = range(starts) if only is None else (only,)
    env = make(with_rules, 1)
    rows = []
    try:
        actor.watch(env)
        for start in chosen:
            reference = reference_lap(tracks[index[start]], car)
            options = {"s": places[start], "speed": 0.0, "track_index": index[start]}
            limit = (2.0 * PATIENCE * reference.lap_time + GRACE) * config.control_rate
            driver = PolicyDriver(actor, 1, seed=seed, deterministic=deterministic)
            rows.append({**_drive(env, driver, seed, options, limit), "lap": reference, "start": start})
    finally:
        env.close()
    laps = Laps(
        track=[tracks[index[row["start"]]].name for row in rows],
        start=places[list(chosen)],
        lap_time=np.array([row["lap_time"] for row in rows]),
        reference=np.array([row["lap"].lap_time for row in rows]),
        sectors=np.array([row["sectors"] for row in rows]),
        reference_sectors=np.stack([row["lap"].sector_times for row in rows]),
        distance=np.array([row["distance"] for row in rows]),
        off_track=np.array([row["off_track"] for row in rows]),
        wheels_off=np.array([row["wheels_off"] for row in rows]),
        returns=np.array([row["returns"] for row in rows]),
        clean=np.array([row["clean"] for row in rows]),
    )
    return laps, [{name: row[name] for name in ("steps", "overruns", "timed_out", "late_by")} for row in rows]


def _drive(
    env: RacingRealTimeEnv, driver: PolicyDriver, seed: int, options: dict[str, Any], limit: float
) -> dict[str, Any]:
    """Until a flying lap is complete, the episode ends, or `limit` control steps have passed."""
    observation, _ = env.reset(seed=seed, options=options)
    time_step = 1.0 / env.config.control_rate
    found: dict[str, Any] = {"lap_time": np.nan, "sectors": [np.nan] * 3, "distance": 0.0}
    found |= {
        "off_track": 0.0,
        "wheels_off": 0.0,
        "returns": 0.0,
        "clean": False,
        "overruns": 0,
        "timed_out": 0,
        "steps": 0,
    }
    late: list[float] = []
    while found["steps"] < limit:
        observation, reward, terminated, truncated, info = env.step(driver.act(observation, None))  # type: ignore[arg-type]
        found["steps"] += 1
        found["returns"] += float(reward[0])
        found["distance"] = float(info["distance"][0])
        found["off_track"] += float(info["off_track"][0]) * time_step
        found["wheels_off"] += float(info["wheels_off"][0] > 0) * time_step
        late.append(float(info["realtime"]["late_by"][0]))
        found["overruns"] += int(late[-1] >= time_step)
        found["timed_out"] += int(info["realtime"]["timed_out"][0])
        if info["lap_completed"][0]:
            found["lap_time"], found["sectors"] = float(info["lap_time"][0]), list(info["sector_times"][0])
            found["clean"] = bool(info["lap_clean"][0])
            break
        if terminated[0] or truncated[0]:
            break
    return {**found, "late_by": float(np.median(late))}

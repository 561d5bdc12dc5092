"""Honest laps: a frozen policy on the road from many starts, timed by the simulator itself.

Shapes: N starts, T control steps, S sectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.environments.calls import as_dict
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.rewards import Ends
from paddock.racing.env.vector import RacingVectorEnv
from paddock.rollout.actor import ActorModule
from paddock.sim.layout import OUT_LAP
from paddock.sim.world import World

Floats = NDArray[np.float64]
PATIENCE = 2.0  # reference laps that a counted lap may take, and as much again to get to the line
GRACE = 20.0  # s on top of that
OFF_ROAD = 0.5  # what a lap with a wheel off the road counts: driving clean comes first, and any lap beats none
STRANDED = 200  # control steps without getting further after which a start has failed


class Driver(Protocol):
    """Who drives: observations of all cars, and the world they are in, to actions of the environment."""

    def act(self, observation: Any, world: World) -> NDArray[np.floating]: ...


@dataclass(frozen=True)
class Laps:
    """What became of each start; times in s.

    lap_time: of the first flying lap, not a number where none was completed. distance: m driven until then or until the
    end. off_track: with all wheels off the road; wheels_off: with at least one. sectors: [N, S]. clean: whether all
    wheels stayed on the road in every control step of the flying lap.
    """

    track: list[str]
    start: Floats
    lap_time: Floats
    reference: Floats
    sectors: Floats
    reference_sectors: Floats
    distance: Floats
    off_track: Floats
    wheels_off: Floats
    returns: Floats
    clean: NDArray[np.bool_]

    @property
    def finished(self) -> NDArray[np.bool_]:
        """[N] whether a lap was counted."""
        return np.isfinite(self.lap_time)

    @property
    def ratio(self) -> Floats:
        """[N] lap time / reference lap."""
        return self.lap_time / self.reference

    def of_track(self, name: str) -> Laps:
        """Only the starts on one track."""
        chosen = np.array([track == name for track in self.track])
        arrays = {key: value[chosen] for key, value in self.__dict__.items() if key != "track"}
        return Laps(track=[name] * int(chosen.sum()), **arrays)

    def metrics(self, prefix: str = "eval/") -> dict[str, float]:
        """Numbers to log; those of lap times are left out where no start finished."""
        pace = np.where(self.finished, 1.0 / np.where(self.finished, self.ratio, 1.0), 0.0)
        values = {
            "finish_rate": self.finished.mean(),
            "clean_rate": (self.finished & self.clean).mean(),
            "pace": pace.mean(),
            "clean_pace": np.where(self.clean, pace, OFF_ROAD * pace).mean(),
            "distance": self.distance.mean(),
            "off_track": self.off_track.mean(),
            "wheels_off": self.wheels_off.mean(),
            "return": self.returns.mean(),
            "return_std": self.returns.std(),
        }
        if self.finished.any():
            times, ratios = self.lap_time[self.finished], self.ratio[self.finished]
            values |= {
                "best_lap": times.min(),
                "mean_lap": times.mean(),
                "lap_std": times.std(),
                "best_ratio": ratios.min(),
                "ratio": ratios.mean(),
            }
            if (self.finished & self.clean).any():
                values["clean_ratio"] = self.ratio[self.finished & self.clean].min()
            deltas = (self.sectors - self.reference_sectors)[self.finished].mean(axis=0)
            values |= {f"sector_{number}_delta": delta for number, delta in enumerate(deltas, start=1)}
        return {f"{prefix}{name}": float(value) for name, value in values.items()}

    def table(self) -> list[dict[str, str]]:
        """A row for each track, and one for all of them together where there are several."""
        names = list(dict.fromkeys(self.track))
        rows = [_row(name, self.of_track(name)) for name in names]
        return rows if len(names) == 1 else [*rows, _row("all", self)]

    def details(self) -> dict[str, Any]:
        """Every start; what does not exist is None."""
        columns = {name: value for name, value in self.__dict__.items() if name != "track"}
        starts = [
            {"track": track, **{name: _plain(value[index]) for name, value in columns.items()}}
            for index, track in enumerate(self.track)
        ]
        return {"starts": starts}


def _row(name: str, laps: Laps) -> dict[str, str]:
    found = laps.metrics("")
    counts = {"finished": laps.finished, "clean": laps.finished & laps.clean}
    row = {"track": name} | {each: f"{which.sum()}/{len(laps.track)}" for each, which in counts.items()}
    times = ("best_lap", "mean_lap", "lap_std")
    row |= {each.replace("_", " "): f"{found[each]:.3f} s" if each in found else "" for each in times}
    ratios = ("best_ratio", "ratio", "clean_ratio")
    row |= {each.replace("_", " "): f"{found[each]:.4f}" if each in found else "" for each in ratios}
    sectors = [f"sector_{number}_delta" for number in range(1, laps.sectors.shape[1] + 1)]
    row |= {f"S{k} delta": f"{found[each]:+.3f} s" if each in found else "" for k, each in enumerate(sectors, start=1)}
    return row | {"off track": f"{found['off_track']:.2f} s", "wheels off": f"{found['wheels_off']:.1f} s"}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value]
    return float(value) if np.isfinite(value) else None


class PolicyDriver:
    """A policy at the wheel, with recurrent state of its own; its random numbers begin with `seed`."""

    def __init__(self, actor: ActorModule, cars: int, *, seed: int, deterministic: bool) -> None:
        self.actor, self.deterministic = actor, deterministic
        self._state = actor.initial_state(cars)
        self._seed: int | None = seed

    def act(self, observation: Any, world: World) -> NDArray[np.floating]:
        if self._seed is not None:
            torch.manual_seed(self._seed)
            self._seed = None
        device = self.actor.device
        seen = {name: torch.as_tensor(part, device=device) for name, part in as_dict(observation).items()}
        with torch.inference_mode():
            action, self._state = self.actor.act(seen, self._state, deterministic=self.deterministic)
        return self.actor.to_environment(action)


def evaluation_config(env: VectorEnv, **changes: Any) -> RacingConfig:
    """The options of a racing environment, with the end rules of evaluation: only a stranded car is out."""
    if not isinstance(env, RacingVectorEnv):
        raise InputError("laps are driven in the racing environment only; this policy was trained in another one.")
    return with_evaluation_rules(env.config, **changes)


def with_evaluation_rules(config: RacingConfig, **changes: Any) -> RacingConfig:
    """The same options with the end rules of evaluation."""
    ends = Ends(no_progress_steps=STRANDED, off_track=False)
    reward = config.reward.model_copy(update={"ends": ends})
    return config.model_copy(update={"reward": reward, "max_episode_steps": None, **changes})


def drive_laps(
    env: RacingVectorEnv,
    driver: Driver,
    *,
    seed: int,
    speed: Floats | float = 0.0,
    track_index: NDArray[np.intp] | None = None,
    watch: Callable[[World, NDArray[np.bool_]], None] | None = None,
) -> Laps:
    """Drive until every start has completed one flying lap or is given up; starts are spread evenly over each lap.

    speed: m/s at the start. track_index: [N] the track of each start; by default the tracks in turn.
    `watch(world, driving)` is called after every step with who is still driving, [N].
    """
    if isinstance(driver, PolicyDriver):
        driver.actor.watch(env)
    world, rows = env.world, env._rows
    count = env.num_envs
    lengths = np.array([track.length for track in world.tracks])
    track_index = np.arange(count) % len(lengths) if track_index is None else track_index
    start = spread_starts(track_index, lengths)
    observation, _ = env.reset(seed=seed, options={"s": start, "speed": speed, "track_index": track_index})
    laps = [env.reference.laps[index] for index in track_index]
    reference = np.array([lap.lap_time for lap in laps])
    limit = (2.0 * PATIENCE * reference + GRACE) * env.config.control_rate

    time_step = world.settings.time_step
    sums = {name: np.zeros(count) for name in ("off_track", "wheels_off", "returns")}
    lap_time, distance = np.full(count, np.nan), np.zeros(count)
    sectors = np.full((count, world.settings.sectors), np.nan)
    driving, clean = np.ones((2, count), dtype=np.bool_)
    while driving.any():
        was_timed = world.lap_kind[rows] != OUT_LAP
        observation, reward, terminated, _, _ = env.advance(driver.act(observation, world))
        sums["returns"] += reward * driving
        sums["off_track"] += world.off_track[rows] * driving * time_step
        sums["wheels_off"] += (world.wheels_off[rows] > 0) * driving * time_step
        clean &= ~(was_timed & driving & (world.wheels_off[rows] > 0))
        clean |= driving & world.lap_rejected[rows]  # Another lap begins, which may count.
        distance[driving] = world.distance[rows][driving]
        done = driving & world.lap_completed[rows]
        lap_time[done] = world.last_lap_time[rows][done]
        sectors[done] = world.last_sector_times[rows][done]
        if watch is not None:
            watch(world, driving)
        driving &= ~(done | terminated | (world.steps[rows] >= limit))
    return Laps(
        track=[world.tracks[index].name for index in track_index],
        start=start,
        lap_time=lap_time,
        reference=reference,
        sectors=sectors,
        reference_sectors=np.stack([lap.sector_times for lap in laps]),
        distance=distance,
        clean=clean,
        **sums,
    )


def spread_starts(track: NDArray[np.intp], lengths: Floats) -> Floats:
    """[N] m along the lap of the `track` of each start, `lengths` m long: evenly spread, never on the line."""
    start = np.zeros(len(track))
    for index in np.unique(track):
        mine = np.flatnonzero(track == index)
        start[mine] = (np.arange(len(mine)) + 0.5) / len(mine) * lengths[index]
    return start

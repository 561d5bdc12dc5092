"""A race against the clock: policies, the classical driver and recorded people on one track, with one car."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paddock.core.errors import InputError
from paddock.evaluation.subject import Subject
from paddock.orchestration.subject import find_subject
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import NAME as CLASSICAL
from paddock.racing.laps.classical import ClassicalAtTheWheel, without_agent
from paddock.racing.laps.drive import Driver, PolicyDriver, drive_laps, evaluation_config
from paddock.racing.laps.records import RecordedLap, Recorder, read_laps
from paddock.racing.unseen import saved_environment, unseen_note
from paddock.rollout.episodes import evaluation_mode
from paddock.sim.reference.lap import ReferenceLap
from paddock.sim.tracks.track import Track

AGENT, PROGRAM, PERSON = "agent", "program", "person"


@dataclass(frozen=True)
class Standing:
    """A driver's place on the leaderboard. lap: the best lap; None where none was completed. finished: of `starts`."""

    name: str
    kind: str
    lap: RecordedLap | None
    finished: int
    starts: int
    mean_lap: float
    off_track: float  # s per start


@dataclass(frozen=True)
class Race:
    """standings: quickest best lap first, then who completed none. home: the first agent's run or policy.

    unseen: by the name of each agent that never saw the track, a sentence that says so.
    """

    track: Track
    car: str
    reference: ReferenceLap
    standings: list[Standing]
    home: Path
    unseen: Mapping[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """The leaderboard as plain values; times in s."""
        rows = []
        for place, standing in enumerate(self.standings, start=1):
            lap = standing.lap
            rows.append(
                {
                    "place": place,
                    "driver": standing.name,
                    "kind": standing.kind,
                    "best_lap": lap.lap_time if lap else None,
                    "ratio": lap.lap_time / self.reference.lap_time if lap else None,
                    "sectors": list(lap.sectors) if lap else None,
                    "mean_lap": standing.mean_lap if lap else None,
                    "finished": standing.finished,
                    "starts": standing.starts,
                    "off_track": standing.off_track,
                    "is_unseen": standing.name in self.unseen if standing.kind == AGENT else None,
                }
            )
        return {
            "track": self.track.name,
            "car": self.car,
            "reference_lap": self.reference.lap_time,
            "reference_sectors": self.reference.sector_times.tolist(),
            "standings": rows,
        }


def run_race(
    given: Sequence[str],
    runs_dir: Path,
    *,
    track: str | None = None,
    starts: int = 16,
    seed: int = 1000,
    people: Path | None = None,
    trusts: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Race:
    """Every policy drives a flying lap from each of `starts` standing starts; the best one counts.

    track: the one to race on; by default that of the first policy's training. people: a folder of lap files.
    `say` is told what is being done.
    """
    subjects = [find_subject(name, runs_dir, is_for_laps=True, trusts=trusts) for name in given]
    if not subjects:
        raise InputError("say who races: paddock race RUN|POLICY ... [--track T].")
    base = _config_of(subjects[0], track)
    standings = []
    for subject in subjects:
        config = _config_of(subject, base.track)
        if (config.car, config.car_parameters) != (base.car, base.car_parameters):
            raise InputError(
                f"'{subject.name}' was trained with the car '{config.car}', '{subjects[0].name}' with '{base.car}'; "
                "a race is between drivers of one car."
            )
        env = RacingVectorEnv(starts, config=config)
        say(f"{subject.name} drives on {base.track}, {starts} starts")
        driver = PolicyDriver(subject.actor, starts, seed=seed, deterministic=True)
        with evaluation_mode(subject.actor, seed):
            standings.append(drive_standing(env, driver, subject.name, AGENT, seed))
    env = RacingVectorEnv(starts, config=without_agent(base))
    reference, raced_on = env.reference.laps[0], env.world.tracks[0]
    say(f"the {CLASSICAL} drives")
    standings.append(drive_standing(env, ClassicalAtTheWheel(env), CLASSICAL, PROGRAM, seed))
    if people is not None:
        standings += [_person(lap) for lap in read_laps(people, track=raced_on.name, car=base.car)]
    standings.sort(key=lambda standing: standing.lap.lap_time if standing.lap else np.inf)
    notes = {one.name: unseen_note(one.name, saved_environment(one.folder), raced_on.name) for one in subjects}
    unseen = {name: note for name, note in notes.items() if note is not None}
    return Race(raced_on, base.car, reference, standings, subjects[0].folder, unseen)


def drive_standing(env: RacingVectorEnv, driver: Driver, name: str, kind: str, seed: int) -> Standing:
    """All starts of one driver, and its best lap."""
    recorder = Recorder(env._rows)
    laps = drive_laps(env, driver, seed=seed, watch=recorder)
    best = None
    if laps.finished.any():
        car = int(np.nanargmin(laps.lap_time))
        best = recorder.lap(car, driver=name, track=laps.track[car], car_name=env.config.car)
    times = laps.lap_time[laps.finished]
    return Standing(
        name=name,
        kind=kind,
        lap=best,
        finished=int(laps.finished.sum()),
        starts=env.num_envs,
        mean_lap=float(times.mean()) if len(times) else float("nan"),
        off_track=float(laps.off_track.mean()),
    )


def _config_of(subject: Subject, track: str | list[str] | None) -> RacingConfig:
    env = subject.make_env(1, None)
    config = evaluation_config(env)
    env.close()
    if track is None:
        track = config.track if not config.procedural else f"procedural:{config.procedural_seed}"
    chosen = track if isinstance(track, str) else track[0]
    return config.model_copy(update={"track": chosen, "procedural": 0, "num_envs": 1})


def _person(lap: RecordedLap) -> Standing:
    return Standing(lap.driver, PERSON, lap, 1, 1, lap.lap_time, 0.0)

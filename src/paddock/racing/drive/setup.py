"""Makes a driving session: the road, the car, and what may drive it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.config.compose import compose
from paddock.config.schema import TargetSchema, schema_of, validate_target
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.core.reading import read_json
from paddock.core.results import read_result, result_file
from paddock.core.trust import checked
from paddock.environments.delays import Delays
from paddock.experiments.run import RunFolder
from paddock.orchestration.policies import training_tracks
from paddock.racing.agents import REPLAY, agent_folder, hard_track_note, is_agent
from paddock.racing.drive.drivers import CarDriver, ClassicalCarDriver, PolicyCarDriver, load_actor
from paddock.racing.env.actions import ActionSet, build_actions
from paddock.racing.env.config import Opponents, RacingConfig, Sensing, Start
from paddock.racing.env.observations import ObservationSet
from paddock.racing.env.rewards import Ends
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.env.world import car_of
from paddock.racing.laps.classical import kept_classical_lap
from paddock.racing.laps.records import as_ghost
from paddock.racing.unseen import saved_environment, unseen_advice, unseen_note
from paddock.sim.kernels.compiling import announced
from paddock.sim.rewards.custom import without_functions

CLASSICAL = "classical"
EXPERIMENT = "bc_racing"  # whose observations and rewards demonstrations have, where no policy says otherwise
TICK_RATE = 60.0  # Hz, about
MOST_HISTORY = 16  # readings that a world keeps


@dataclass(frozen=True)
class DriveRequest:
    """What a person wants to drive. against: a run, a policy's folder, `agent` or `agent/NAME` for one that
    ships, `classical`, or None to be alone."""

    track: str | None = None
    car: str | None = None
    against: str | None = None
    driver: str = "you"
    mode: str = "manual"
    runs_dir: Path = Path("runs")
    laps_dir: Path = Path("laps")
    trusts: bool = False


@dataclass(frozen=True)
class Grid:
    """What a session consists of. ticks_per_decision: ticks of the world between two decisions of an agent.

    pilot: drives the person's car in the modes `ai` and `assisted`. rival: drives the other car, if there is one.
    base: the environment as the agent knows it. trained_on: the roads that the agent knows; None where no agent drives.
    """

    env: RacingVectorEnv
    observations: ObservationSet
    actions: ActionSet
    ticks_per_decision: int
    pilot: CarDriver
    rival: CarDriver | None
    ghosts: list[dict[str, Any]]
    base: RacingConfig
    trained_on: dict[str, Any] | None = None


@announced()
def make_session(request: DriveRequest) -> Grid:
    """Build the world of a session."""
    folder = None
    if request.against not in (None, CLASSICAL):
        folder = opponent_folder(request)
    base = _base_config(folder, request)
    ticks_per_decision = _ticks_per_decision(base)
    config = _world_config(base, ticks_per_decision, has_rival=request.against is not None)
    env = RacingVectorEnv(1, config=config, reading_stride=ticks_per_decision)
    actions = build_actions(base)
    observations = ObservationSet(config, car_of(config), actions.size)
    assert env.reference.laps, "the reference lap is there before a car moves"
    if folder is None:
        pilot: CarDriver = ClassicalCarDriver(env, 0)
        rival: CarDriver | None = ClassicalCarDriver(env, 1) if request.against else None
    else:
        actor = load_actor(folder, trusts=request.trusts)
        pilot, rival = (PolicyCarDriver(env, car, actor, observations, actions, ticks_per_decision) for car in (0, 1))
    ghosts = list(_ghosts(env, _world_config(base, ticks_per_decision, has_rival=False), folder))
    trained_on = training_tracks(saved_environment(folder)) if folder is not None else None
    return Grid(env, observations, actions, ticks_per_decision, pilot, rival, ghosts, base, trained_on)


def unseen_by_opponent(request: DriveRequest, track: str) -> str | None:
    """A sentence where the opponent was trained elsewhere."""
    if request.against in (None, CLASSICAL):
        return None
    folder = opponent_folder(request)
    if is_agent(str(request.against)) and (hard := hard_track_note(str(request.against), folder, track)):
        return f"{hard} {unseen_advice(track)}"
    note = unseen_note(str(request.against), saved_environment(folder), track)
    return f"{note} It may not get round. {unseen_advice(track)}" if note else None


def opponent_folder(request: DriveRequest) -> Path:
    """The folder of the policy that a person races against: a shipped agent, or one of this person's."""
    given = str(request.against)
    if is_agent(given):
        return agent_folder(given, car=request.car, track=request.track)
    return find_policy(given, request.runs_dir)


def find_policy(given: str, runs_dir: Path) -> Path:
    """The folder of a policy: as given, or the best of a run."""
    if (Path(given) / "policy.json").is_file():
        return Path(given)
    run = RunFolder.find(runs_dir, given)
    if (folder := run.policy_folder()) is not None:
        return folder
    raise InputError(f"run '{run.name}' has saved no policy yet; wait for its first evaluation, or race '{CLASSICAL}'.")


def _base_config(folder: Path | None, request: DriveRequest) -> RacingConfig:
    """The environment as agents know it, on the chosen track and with the chosen car."""
    if folder is None:
        values = compose(EXPERIMENT).values["environment"]
        changes = {"car": request.car} if request.car else {}
        config = validate_target({**values, **changes, "procedural": 0})
    else:
        config = _environment_of(folder, trusts=request.trusts)
    if not isinstance(config, RacingConfig):
        raise InputError(f"the policy in '{folder}' was not trained in the racing world; it cannot be raced against.")
    if request.car not in (None, config.car):
        raise InputError(
            f"the opponent was trained with the car '{config.car}', you chose '{request.car}'; "
            f"leave --car out, or race the {CLASSICAL} driver."
        )
    track = request.track or (config.track if isinstance(config.track, str) else config.track[0])
    return config.model_copy(update={"track": track, "num_envs": 1})


def _environment_of(folder: Path, *, trusts: bool) -> TargetSchema:
    """What a policy was trained in, without what a session does not need: reward functions and other cars."""
    description = read_json(folder / "policy.json")
    environment = description.get("environment") if isinstance(description, dict) else None
    if not isinstance(environment, dict):
        raise InputError(f"the policy in '{folder}' does not say which environment it is for.")
    environment, _ = without_functions(environment)
    environment.pop("opponents", None)
    with checked(folder, description, used={"environment": environment}, trusts=trusts):
        return validate({**environment, "procedural": 0}, schema_of(str(environment.get("_target_"))))


def _ticks_per_decision(config: RacingConfig) -> int:
    sensors = ObservationSet(config, car_of(config), build_actions(config).size).sensors()
    history = max(part.history for part in (sensors.rays, sensors.camera) if part) if _looks_back(sensors) else 1
    most = (MOST_HISTORY - 1) // (history - 1) if history > 1 else 60
    return max(1, min(round(TICK_RATE / config.control_rate), most))


def _looks_back(sensors: Any) -> bool:
    return sensors.rays is not None or sensors.camera is not None


def _world_config(base: RacingConfig, ticks_per_decision: int, *, has_rival: bool) -> RacingConfig:
    """The same road and car for a person: a standing start, nothing at random, many small steps."""
    perfect = Sensing(
        **{**base.sensing.model_dump(), "noise": 0.0, "relative_noise": 0.0, "dropout": 0.0, "latency": 0}
    )
    never = Ends(no_progress_steps=None)
    return base.model_copy(
        update={
            "control_rate": base.control_rate * ticks_per_decision,
            "substeps": max(1, math.ceil(base.substeps / ticks_per_decision)),
            "sensing": perfect,
            "reward": base.reward.model_copy(update={"ends": never}),
            "start": Start(place="grid", lateral=0.0, heading=0.0, speed=(0.0, 0.0)),
            "opponents": Opponents(count=1 if has_rival else 0, contact=False),
            "action": "steer_throttle",
            "teacher": False,
            "edge": "grass" if base.edge == "crash" else base.edge,
            "max_episode_steps": None,
            "randomise": {},
            "action_delay": 0,
            "action_jitter": 0,
            "delays": Delays(),
        }
    )


def _ghosts(env: RacingVectorEnv, alone: RacingConfig, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Laps to compare with: the classical driver's, and the agent's where it was evaluated on this track."""
    lap = kept_classical_lap(alone, env.world.tracks[0])
    if lap is not None:
        yield as_ghost("classical", lap.driver, lap.lap_time, lap.samples)
    if folder is not None and (folder / REPLAY).is_file():
        yield from _exported_lap(folder / REPLAY, env.world.tracks[0].name)
        return
    result = result_file(folder.parent.parent, "best") if folder is not None else None
    if result is not None and result.is_file():
        try:
            tracks = read_result(result)["traces"]["tracks"]
            mine = [one["lap"] for one in tracks if one["name"] == env.world.tracks[0].name and one["lap"]]
            for one in mine[:1]:
                yield as_ghost("agent", "agent", float(one["lap_time"]), one["samples"])
        except (OSError, ValueError, KeyError, TypeError):
            return


def _exported_lap(file: Path, track: str) -> Iterator[dict[str, Any]]:
    """The lap that lies beside an exported agent, if it was driven here."""
    try:
        replay = read_json(file)
        if replay["scene"]["track"]["name"] == track:
            lap = replay["laps"][0]
            at = [index * float(lap["dt"]) for index in range(len(lap["x"]))]
            samples = {"time": at, **{name: lap[name] for name in ("x", "y", "heading")}}
            yield as_ghost("agent", "agent", float(lap["lap_time"]), samples)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return

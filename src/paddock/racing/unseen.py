"""Circuits that an agent never saw in training: how that is known, said, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.core.reading import read_json
from paddock.core.text import printable
from paddock.experiments.run import RunFolder
from paddock.sim.tracks.sources import DEFAULT_TRACK
from paddock.sim.tracks.track import PROCEDURAL_PREFIX

if TYPE_CHECKING:
    from paddock.evaluation.evaluator import EvaluationResult
    from paddock.evaluation.subject import Subject

FOR_ANY_TRACK = "racing_multi_track"  # the experiment whose agents are for circuits that they never saw
Environment = Mapping[str, Any]  # as a policy or a run saves it


def saved_environment(folder: Path) -> Environment:
    """The environment that a run or a policy was trained in, as its folder has it; nothing of it is run."""
    if (folder / "policy.json").is_file():
        values = read_json(folder / "policy.json")
    else:
        values = RunFolder(folder).read_config()
    environment = values.get("environment") if isinstance(values, Mapping) else None
    return environment if isinstance(environment, Mapping) else {}


def trained_on(environment: Environment) -> str:
    """The tracks of an agent's training, in words."""
    if environment.get("procedural"):
        return f"{environment['procedural']} procedural tracks"
    return ", ".join(_names(environment)) or "no race track"


def is_unseen(environment: Environment, track: str) -> bool:
    """Whether a track, by the name it has once it is loaded, was no part of the training."""
    if environment.get("procedural"):
        first = int(environment.get("procedural_seed") or 0)
        seed = track.removeprefix(PROCEDURAL_PREFIX).partition(":")[0]
        is_procedural = track.startswith(PROCEDURAL_PREFIX) and seed.isdigit()
        return not (is_procedural and first <= int(seed) < first + int(environment["procedural"]))
    return track not in _names(environment)


def own_track(environment: Environment) -> str:
    """A track of the training, to race on."""
    if environment.get("procedural"):
        return f"{PROCEDURAL_PREFIX}{environment.get('procedural_seed') or 0}"
    return next(iter(_names(environment)), DEFAULT_TRACK)


def is_for_any_track(environment: Environment) -> bool:
    """Whether the training was on so many tracks that another one is worth a try."""
    return bool(environment.get("procedural"))


def unseen_note(name: str, environment: Environment, track: str) -> str | None:
    """One sentence for an agent on a track that it does not know; None where it knows the track."""
    if "track" not in environment or not is_unseen(environment, track):
        return None
    return printable(f"{name} was trained on {trained_on(environment)}; it has never seen {track}.")


def unseen_advice(track: str) -> str:
    """What to do about an agent that does not get round a track it never saw."""
    return printable(
        f"For circuits that an agent has not seen: paddock train {FOR_ANY_TRACK}. "
        f"For this one: paddock train racing environment.track={track}"
    )


def unseen_sentences(subject: Subject, result: EvaluationResult) -> list[str]:
    """Which of the tracks of an evaluation the policy never saw, and what helps where it does not get round."""
    from paddock.racing.laps.drive import Laps

    if not isinstance(result, Laps):
        return []
    environment = saved_environment(subject.folder)
    unseen = [track for track in dict.fromkeys(result.track) if is_unseen(environment, track)]
    note = unseen_note(subject.name, environment, ", ".join(unseen)) if unseen else None
    if note is None:
        return []
    failed = [track for track in unseen if not result.of_track(track).finished.any()]
    return [note, unseen_advice(failed[0])] if failed else [note]


def _names(environment: Environment) -> list[str]:
    given = environment.get("track")
    entries = [given] if isinstance(given, str) else list(given or [])
    return [DEFAULT_TRACK if name == "default" else _loaded_name(str(name)) for name in entries]


def _loaded_name(given: str) -> str:
    """A file's track is called as the file is."""
    return given.rpartition("/")[2].removesuffix(".csv") if given.endswith(".csv") else given

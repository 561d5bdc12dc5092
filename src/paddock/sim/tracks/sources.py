"""Where track names come from: shipped circuits, the person's own imported files, seeds and CSV paths."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from paddock.core.errors import InputError, did_you_mean
from paddock.core.files import write_synced
from paddock.core.paths import paddock_home
from paddock.sim.cars.car import load_car
from paddock.sim.tracks.checks import RepairableError, check_fits, check_geometry
from paddock.sim.tracks.circuits import circuit_names, load_circuit
from paddock.sim.tracks.csv import BRIDGE_MARK, read_survey, read_track_csv, survey_track
from paddock.sim.tracks.procedural import procedural_from_text
from paddock.sim.tracks.repair import repair_survey
from paddock.sim.tracks.track import MODEL_SCALE, PROCEDURAL_PREFIX, Track

DEFAULT_TRACK = "meadow"  # what the name "default" stands for


def user_tracks_folder() -> Path:
    """Where imported tracks live: `$PADDOCK_HOME/tracks`, and `~/.paddock/tracks` when that is not set."""
    return paddock_home() / "tracks"


def user_track_names() -> list[str]:
    """The names of the imported tracks, sorted."""
    return sorted(path.stem for path in user_tracks_folder().glob("[!.]*.csv"))


def load_track(name_or_path: str | Path) -> Track:
    """The track of a shipped or imported name, of `procedural:SEED`, or of a CSV file."""
    name_or_path = str(name_or_path)
    if name_or_path.startswith(PROCEDURAL_PREFIX):
        return procedural_from_text(name_or_path)
    if name_or_path == "default":
        return load_circuit(DEFAULT_TRACK)
    if name_or_path in circuit_names():
        return load_circuit(name_or_path)
    kept = user_tracks_folder() / f"{name_or_path}.csv"
    if os.path.lexists(kept):
        return _load_kept(name_or_path, kept)
    if os.path.lexists(name_or_path) and not Path(name_or_path).is_dir():
        return _load_file(Path(name_or_path))
    if name_or_path.lower().endswith(".csv") or os.sep in name_or_path:
        raise InputError(f"there is no track file '{name_or_path}'. Give a path to a CSV file or the name of a track.")
    known = [*circuit_names(), *user_track_names()]
    raise InputError(
        f"unknown track '{name_or_path}'.{did_you_mean(name_or_path, known)} Allowed: {', '.join(known)}; "
        f"'{PROCEDURAL_PREFIX}SEED' for a generated one; or a path to a CSV file."
    )


def _load_file(path: Path) -> Track:
    try:
        return _read_cached(path, _modified(path))
    except RepairableError as error:
        raise InputError(f"{error} `paddock tracks import {path}` repairs what a survey cannot mean.") from error


def _load_kept(name: str, path: Path) -> Track:
    try:
        return _read_cached(path, _modified(path))
    except RepairableError as error:
        raise InputError(
            f"{error} The file is {path}. Repair it: `paddock tracks import {path} --replace`; or remove it: "
            f"`paddock tracks remove {name}`."
        ) from error
    except InputError as error:
        raise InputError(f"{error} The file is {path}. Remove it: `paddock tracks remove {name}`.") from error


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # reading it says why


@dataclass(frozen=True)
class KeptTrack:
    """An imported track, the file that holds it, and a sentence for each repair of the survey."""

    track: Track
    path: Path
    repairs: tuple[str, ...]


def keep_track(
    file: Path,
    *,
    name: str | None = None,
    car: str = "gt",
    bridge: bool = False,
    replace: bool = False,
    strict: bool = False,
) -> KeptTrack:
    """Check a CSV file, repair what a survey cannot mean unless `strict`, and keep it in the folder of imported tracks.

    The kept file is the given one, line by line, but for what was repaired; it is read back before it counts as kept.
    """
    name = name or file.stem
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise InputError(f"'{name}' cannot be a track's name: use letters, digits, '-', '_' and '.' (option --name).")
    if name in (*circuit_names(), "default"):
        raise InputError(f"'{name}' is the name of a shipped circuit. Choose another one with --name.")
    path = user_tracks_folder() / f"{name}.csv"
    if os.path.lexists(path) and not replace:
        raise InputError(f"a track named '{name}' is already kept in {path}. Use --replace, or another --name.")
    survey = read_survey(file)
    repairs: list[str] = []
    if bridge and not survey.bridge:
        survey = survey.edited({}, f"# {BRIDGE_MARK}")
    if not strict:
        survey, repairs = repair_survey(survey, name)
    _check_for_car(survey_track(survey, name), car)
    notes = [f"# repaired on import: {sentence}" for sentence in repairs]
    track = _write_checked(path, name, "\n".join([*survey.text, *notes]) + "\n")
    return KeptTrack(track, path, tuple(repairs))


def _check_for_car(track: Track, car: str) -> None:
    """The car must have room, and the road must pass both ways round and at the size of a 1:10 car too."""
    parameters = load_car(car)
    check_fits(track.sized_for(parameters.width), car, parameters.width)
    for road in (track.reversed(), track.scaled(MODEL_SCALE), track.scaled(MODEL_SCALE).reversed()):
        check_geometry(road, "point {}".format)


def _write_checked(path: Path, name: str, text: str) -> Track:
    """Write a track file in one go, after the very bytes that are written were read back as a track."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_synced(trial, text.encode())
        track = read_track_csv(trial, name=name)
        trial.replace(path)
    except OSError as error:
        raise InputError(f"the track cannot be kept in {path}: {error.strerror}.") from error
    finally:
        trial.unlink(missing_ok=True)
    return track


def remove_track(name: str) -> Path:
    """Delete an imported track; the file that held it."""
    if name in (*circuit_names(), "default"):
        raise InputError(f"'{name}' is a shipped circuit and cannot be removed; only imported tracks can.")
    known = user_track_names()
    if name not in known:
        listed = ", ".join(known) if known else "none"
        raise InputError(f"there is no imported track '{name}'.{did_you_mean(name, known)} Imported tracks: {listed}.")
    path = user_tracks_folder() / f"{name}.csv"
    try:
        path.unlink()
    except OSError as error:
        raise InputError(f"{path} cannot be removed: {error.strerror}.") from error
    return path


@lru_cache(maxsize=32)
def _read_cached(path: Path, modified: int) -> Track:
    return read_track_csv(path)

"""Where track names come from: shipped circuits, the person's own imported files, seeds and CSV paths."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from paddock.core.errors import InputError, did_you_mean
from paddock.sim.car import load_car
from paddock.sim.circuits import circuit_names, load_circuit
from paddock.sim.home import paddock_home
from paddock.sim.procedural import procedural_from_text
from paddock.sim.track import PROCEDURAL_PREFIX, Track
from paddock.sim.track_checks import check_fits
from paddock.sim.track_import import read_track_csv, write_track_csv

DEFAULT_TRACK = "meadow"  # what the name "default" stands for


def user_tracks_folder() -> Path:
    """Where imported tracks live: `$PADDOCK_HOME/tracks`, and `~/.paddock/tracks` when that is not set."""
    return paddock_home() / "tracks"


def user_track_names() -> list[str]:
    """The names of the imported tracks, sorted."""
    return sorted(path.stem for path in user_tracks_folder().glob("*.csv"))


def resolve_track(name_or_path: str) -> Track:
    """See `paddock.sim.track.load_track`."""
    if name_or_path.startswith(PROCEDURAL_PREFIX):
        return procedural_from_text(name_or_path)
    if name_or_path == "default":
        return load_circuit(DEFAULT_TRACK)
    if name_or_path in circuit_names():
        return load_circuit(name_or_path)
    for path in (user_tracks_folder() / f"{name_or_path}.csv", Path(name_or_path)):
        if path.is_file():
            return _read_cached(path, path.stat().st_mtime_ns)
    if name_or_path.lower().endswith(".csv") or os.sep in name_or_path:
        raise InputError(f"there is no track file '{name_or_path}'. Give a path to a CSV file or the name of a track.")
    known = [*circuit_names(), *user_track_names()]
    raise InputError(
        f"unknown track '{name_or_path}'.{did_you_mean(name_or_path, known)} Allowed: {', '.join(known)}; "
        f"'{PROCEDURAL_PREFIX}SEED' for a generated one; or a path to a CSV file."
    )


def keep_track(
    file: Path, *, name: str | None = None, car: str = "gt", bridge: bool = False, replace: bool = False
) -> tuple[Track, Path]:
    """Check a CSV file and write it into the folder of imported tracks; the track and where it is kept."""
    name = name or file.stem
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise InputError(f"'{name}' cannot be a track's name: use letters, digits, '-', '_' and '.' (option --name).")
    if name in (*circuit_names(), "default"):
        raise InputError(f"'{name}' is the name of a shipped circuit. Choose another one with --name.")
    path = user_tracks_folder() / f"{name}.csv"
    if path.exists() and not replace:
        raise InputError(f"a track named '{name}' is already kept in {path}. Use --replace, or another --name.")
    track = read_track_csv(file, name=name, bridge=bridge)
    parameters = load_car(car)
    check_fits(track.sized_for(parameters.width), car, parameters.width)
    write_track_csv(track, path)
    return track, path


@lru_cache(maxsize=32)
def _read_cached(path: Path, modified: int) -> Track:
    return read_track_csv(path)

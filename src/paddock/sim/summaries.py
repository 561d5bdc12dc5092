"""What a list of tracks says about each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from paddock.core.errors import PaddockError
from paddock.sim.cars.car import load_car
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.circuits import circuit_design, circuit_names
from paddock.sim.tracks.corners import find_corners
from paddock.sim.tracks.sources import load_track
from paddock.sim.tracks.track import PROCEDURAL_PREFIX, Track

OUTLINE_POINTS = 120


@dataclass(frozen=True)
class BadTrack:
    """A track that cannot be used, and the sentence that says why."""

    name: str
    error: str


@dataclass(frozen=True)
class TrackSummary:
    """length_m, width_m: as the car drives it, so a tenth of the full size for a 1:10 car. width_m: the mean.
    outline: some points of the centre line (x, y in m), for a small map."""

    name: str
    length_m: float
    width_m: float
    corners: int
    difficulty: str
    description: str
    car: str
    reference_s: float
    centreline_s: float
    sectors_s: tuple[float, ...]
    top_speed_mps: float
    outline: tuple[tuple[float, float], ...]


def summarise_all(names: Iterable[str], car: str) -> Iterator[TrackSummary | BadTrack]:
    """Each track's facts; one that cannot be used takes none of the others with it."""
    load_car(car)  # a wrong car is no fault of any track
    for name in names:
        try:
            yield summarise(name, car)
        except PaddockError as error:
            yield BadTrack(name, str(error))
        except Exception as error:  # a file of a person's own: whatever it breaks, it breaks for itself alone
            yield BadTrack(name, f"track '{name}' cannot be used: {type(error).__name__}: {error}")


def track_for_car(name_or_path: str, car: str) -> Track:
    """The track at the size the car drives it."""
    return load_track(name_or_path).sized_for(load_car(car).width)


def summarise(name_or_path: str, car: str) -> TrackSummary:
    """The facts about a track and a car's reference lap on it."""
    track = track_for_car(name_or_path, car)
    lap = reference_lap(track, car)
    difficulty, description = _about(track)
    return TrackSummary(
        name=track.name,
        length_m=round(track.length, 1),
        width_m=round(track.mean_width, 2),
        corners=len(find_corners(track)),
        difficulty=difficulty,
        description=description,
        car=car,
        reference_s=round(lap.lap_time, 3),
        centreline_s=round(lap.centreline_time, 3),
        sectors_s=tuple(round(float(time), 3) for time in lap.sector_times),
        top_speed_mps=round(lap.top_speed, 2),
        outline=_outline(track),
    )


def _outline(track: Track) -> tuple[tuple[float, float], ...]:
    some = np.linspace(0, len(track.x), OUTLINE_POINTS, endpoint=False).astype(int)
    return tuple((round(float(track.x[i]), 1), round(float(track.y[i]), 1)) for i in some)


def _about(track: Track) -> tuple[str, str]:
    if track.name in circuit_names():
        design = circuit_design(track.name)
        return design.difficulty, design.description
    if track.name.startswith(PROCEDURAL_PREFIX):
        return "generated", "A seeded track"
    return "imported", "A track of your own"

"""The circuits designed here: one YAML file each, a polygon whose corners are rounded to a given radius."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np
import yaml

from paddock.core.array_cache import ArrayCache
from paddock.core.errors import InputError, unknown_choice
from paddock.sim.tracks.builder import build_track
from paddock.sim.tracks.geometry import polygon_corners
from paddock.sim.tracks.track import Array, Track

EASING = 7.0  # m, how gently a straight turns into an arc: the width of a Gaussian over the road
STEP = 1.0  # m between the points of the rounded polygon
COLUMNS = ("x", "y", "heading", "curvature", "left_width", "right_width")
SOURCES = ("__init__.py", "../builder.py", "../checks.py", "../geometry.py", "../track.py")
_cache = ArrayCache("circuits", [Path(__file__).parent / name for name in SOURCES])


@dataclass(frozen=True)
class Circuit:
    """A circuit's design. points: [P, 3] as (x, y, corner radius) in m; widths: [P] m of road around each point."""

    name: str
    description: str
    difficulty: str
    points: Array
    widths: Array
    start: float  # share of the way from the last control point to the first
    bridge: bool


@lru_cache(maxsize=1)
def circuit_names() -> tuple[str, ...]:
    """The shipped circuits, from easy to hard."""
    entries = [yaml.safe_load(file.read_text()) | {"name": file.name[:-5]} for file in _files()]
    return tuple(entry["name"] for entry in sorted(entries, key=lambda entry: entry["order"]))


def _files() -> list[Traversable]:
    return [file for file in files(__package__).iterdir() if file.name.endswith(".yaml")]


@lru_cache(maxsize=64)
def circuit_design(name: str) -> Circuit:
    """What the YAML file of a shipped circuit says."""
    if name not in circuit_names():
        raise unknown_choice("circuit", name, circuit_names())
    entry = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text())
    points = [row[:3] for row in entry["points"]]
    widths = [row[3] if len(row) > 3 else entry["width"] for row in entry["points"]]
    return Circuit(
        name=name,
        description=entry["description"],
        difficulty=entry["difficulty"],
        points=np.array(points, dtype=np.float64),
        widths=np.array(widths, dtype=np.float64),
        start=entry.get("start", 0.6),
        bridge=entry.get("bridge", False),
    )


@lru_cache(maxsize=64)
def load_circuit(name: str) -> Track:
    """A shipped circuit as a track, at full size. It is kept on disk: splines would load half a second of scipy."""
    design = circuit_design(name)
    key = files(__package__).joinpath(f"{name}.yaml").read_text()
    kept = _cache.recall(key, (len(COLUMNS) + 1, None))
    if kept is not None:
        named = dict(zip(COLUMNS, kept, strict=False))
        return Track(name=name, **named, length=float(kept[-1, 0]), bridge=design.bridge)
    track = build_circuit(design)
    columns = [getattr(track, column) for column in COLUMNS]
    _cache.keep(key, np.stack([*columns, np.full(len(track), track.length)]))
    return track


def build_circuit(design: Circuit) -> Track:
    """The polygon with its corners rounded, eased, and turned so that the start line comes first."""
    road, widths = _round_corners(design)
    steps = np.hypot(*(np.roll(road, -1, axis=0) - road).T)
    step = float(steps.mean())
    road = _ease(road, EASING / step)
    widths = _ease(widths[:, None], 3.0 * EASING / step)[:, 0]
    line = design.points[-1, :2] + design.start * (design.points[0, :2] - design.points[-1, :2])
    first = int(np.argmin(np.hypot(*(road - line).T)))
    road, widths = np.roll(road, -first, axis=0), np.roll(widths, -first)
    return build_track(design.name, road, 0.5 * widths, 0.5 * widths, bridge=design.bridge)


def _round_corners(design: Circuit) -> tuple[Array, Array]:
    """[Q, 2] points about `STEP` apart along straights and arcs, and the road's width [Q] at each."""
    corners = design.points[:, :2]
    count = len(corners)
    incoming, direction, before, turn = polygon_corners(corners)
    tangent = design.points[:, 2] * np.tan(0.5 * np.abs(turn))
    spare = np.roll(before, -1) - tangent - np.roll(tangent, -1)
    if spare.min() < 0.0:
        worst = int(np.argmin(spare))
        raise InputError(
            f"circuit '{design.name}': the arcs at control points {worst} and {(worst + 1) % count} overlap by "
            f"{-spare[worst]:.1f} m; use smaller radii or move the points apart."
        )
    pieces: list[Array] = []
    widths: list[Array] = []
    for index in range(count):
        radius, side = design.points[index, 2], np.sign(turn[index])
        entry = corners[index] - incoming[index] * tangent[index]
        centre = entry + side * radius * np.array([-incoming[index, 1], incoming[index, 0]])
        heading = np.arctan2(incoming[index, 1], incoming[index, 0])
        arc_steps = max(int(radius * abs(turn[index]) / STEP), 1)
        angles = heading + turn[index] * np.arange(arc_steps) / arc_steps - side * 0.5 * np.pi
        pieces.append(centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))
        exit_point = corners[index] + direction[index] * tangent[index]
        straight_steps = max(int(spare[index] / STEP), 1)
        share = np.arange(straight_steps) / straight_steps
        pieces.append(exit_point + share[:, None] * direction[index] * spare[index])
        widths.append(np.full(arc_steps, design.widths[index]))
        following = design.widths[(index + 1) % count]
        widths.append(design.widths[index] + share * (following - design.widths[index]))
    return np.concatenate(pieces), np.concatenate(widths)


def _ease(values: Array, sigma: float) -> Array:
    """values: [Q, D] around the loop, averaged with a Gaussian `sigma` samples wide."""
    frequency = np.fft.rfftfreq(len(values)) * 2.0 * np.pi
    gain = np.exp(-0.5 * (frequency * sigma) ** 2)
    return np.fft.irfft(np.fft.rfft(values, axis=0) * gain[:, None], n=len(values), axis=0)

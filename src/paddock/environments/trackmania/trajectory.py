"""The path that a reward is measured along: points in the game's coordinates, evenly spaced, in a safetensors file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from paddock.core.errors import InputError
from paddock.core.files import replace_file
from paddock.core.reading import DamagedError, read_bytes

Points = NDArray[np.float64]

SPACING = 0.1  # m between neighbouring points
SUFFIX = ".safetensors"
FORMAT = "paddock-trajectory-1"
TENSOR = "points"
LARGEST_FILE = 64 * 2**20  # bytes; 250 km of road
LARGEST_PLACE = 1e6  # m from the map's origin
BEND = 5.0  # m to either side over which curvature is measured: nearer points carry the recording's noise


@dataclass(frozen=True, eq=False)
class Trajectory:
    """points: float64 [N, 3] m, x, y (up) and z, in driving order; at least two of them."""

    points: Points
    name: str = ""

    def __post_init__(self) -> None:
        points = np.array(self.points, np.float64, order="C")
        if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2:
            raise InputError(f"a trajectory has points [N, 3] with N of at least 2; given: {list(points.shape)}.")
        if not np.isfinite(points).all() or np.abs(points).max() > LARGEST_PLACE:
            raise InputError(f"a trajectory's points are numbers within {LARGEST_PLACE:,.0f} m of the origin.")
        points.flags.writeable = False
        object.__setattr__(self, "points", points)

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def length(self) -> float:
        """Metres from the first point to the last, along the points."""
        return float(np.linalg.norm(np.diff(self.points, axis=0), axis=1).sum())

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        """[N] 1/m, how the path bends at each point, whatever the side; measured in the plane."""
        reach = max(1, min(round(BEND / SPACING), (len(self) - 1) // 2))
        places = np.arange(len(self))
        before, after = np.maximum(places - reach, 0), np.minimum(places + reach, len(self) - 1)
        plane = self.points[:, [0, 2]]
        first, second, chord = plane - plane[before], plane[after] - plane, plane[after] - plane[before]
        area = np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])
        sides = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1) * np.linalg.norm(chord, axis=1)
        # Menger: four times the area of the triangle over the product of its sides.
        return np.divide(2.0 * area, sides, out=np.zeros(len(self)), where=sides > 1e-9)

    def distance_to(self, position: ArrayLike) -> float:
        """Metres from a position [3] to the nearest point."""
        return float(np.sqrt(np.min(np.sum((self.points - np.asarray(position)) ** 2, axis=1))))


def resample(path: ArrayLike, spacing: float = SPACING) -> Points:
    """Points [N, 3] on the polyline `path` [M, 3], each exactly `spacing` m from the one before.

    The path's last point closes the result, nearer than `spacing` to the one before it.
    """
    path = np.asarray(path, np.float64)
    here = path[0].tolist()
    found = [here]
    for start, end in zip(path[:-1].tolist(), path[1:].tolist(), strict=True):
        share = 0.0
        while (share := _next_share(here, start, end, share, spacing)) <= 1.0:
            here = [a + share * (b - a) for a, b in zip(start, end, strict=True)]
            found.append(here)
    if math.dist(found[-1], path[-1]) > 1e-9:
        found.append(path[-1].tolist())
    return np.array(found)


def _next_share(here: list[float], start: list[float], end: list[float], after: float, spacing: float) -> float:
    """Where the segment leaves the sphere of `spacing` m around `here`, as a share of it beyond `after`; else inf."""
    if math.dist(here, end) < spacing:
        return math.inf  # The end lies inside of the sphere.
    along = [b - a for a, b in zip(start, end, strict=True)]
    away = [a - h for a, h in zip(start, here, strict=True)]
    squared = sum(value * value for value in along)
    if squared == 0.0:
        return math.inf
    half = sum(a * b for a, b in zip(along, away, strict=True)) / squared
    rest = (sum(value * value for value in away) - spacing * spacing) / squared
    root = half * half - rest
    if root < 0.0:
        return math.inf
    share = -half + math.sqrt(root)
    return share if share > after and share <= 1.0 else math.inf


def save_trajectory(trajectory: Trajectory, path: Path) -> None:
    """Write a trajectory; a reader or a kill sees either the old or the new file."""
    if path.suffix != SUFFIX:
        raise InputError(f"a trajectory's file ends with {SUFFIX}; given: '{path}'.")
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"format": FORMAT, "name": trajectory.name}
    replace_file(path, save({TENSOR: np.ascontiguousarray(trajectory.points)}, metadata=about))


def load_trajectory(path: Path) -> Trajectory:
    """The trajectory of a file that `save_trajectory` or an import wrote."""
    content = read_bytes(path, limit=LARGEST_FILE)
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(path, f"it is no safetensors file ({error})") from error
    if set(tensors) != {TENSOR}:
        raise DamagedError(path, f"a trajectory holds one tensor, '{TENSOR}'; this file holds {sorted(tensors)}")
    try:
        return Trajectory(tensors[TENSOR], name=path.stem)
    except InputError as error:
        raise DamagedError(path, str(error).rstrip(".")) from error

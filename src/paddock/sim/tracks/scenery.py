"""What stands beside a road and on it, for every picture of it: kerbs, gravel, trees and the markings of the start.

Where things are is decided here, in metres; how they look is up to what draws them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paddock.sim.tracks.track import Array, Track

Mask = NDArray[np.bool_]

# All in units: tenths of the mean road width, so about a metre of a full-size road.
LINE_WIDTH = 0.2  # width of the white line inside each edge
KERB_WIDTH = 1.0  # width of a kerb outside the edge
VERGE_WIDTH = 1.6  # width of the short grass outside the edge
GRAVEL_DEPTH = 8.0  # largest depth of a gravel trap outside the edge
LEAST_GRAVEL = 0.2  # shallower gravel is not drawn
BLOCK = 2.0  # length of one colour of a kerb
KERB_RADIUS = 130.0  # of a corner, below which it has a kerb
GRAVEL_RADIUS = 55.0  # of a corner, below which it has gravel
AROUND = 6.0  # over which the curvature is averaged, to either side
AFTER = 18.0  # from a corner to the kerb at its exit
PER_TREE = 9.0  # of road
MOST_TREES = 1500
GRID_SLOTS = 8


@dataclass(frozen=True, eq=False)
class Scenery:
    """Scenery along S points of a road and the trees around it.

    unit: m, a tenth of the mean road width. kerb_left, kerb_right: [S] whether there is a kerb from this point to the
    next. red: [S] the second of its two colours. gravel_left, gravel_right: [S] m, depth beyond the edge; 0 is none.
    trees: [T, 3] x, y, radius in m.
    """

    unit: float
    kerb_left: Mask
    kerb_right: Mask
    red: Mask
    gravel_left: Array
    gravel_right: Array
    trees: Array


def lay_scenery(track: Track, index: NDArray[np.intp]) -> Scenery:
    """The scenery at the points `index` [S] of the track, which are evenly spread over the lap."""
    unit, step = road_unit(track), track.length / len(index)
    window = max(1, round(AROUND * unit / step))
    after = max(1, round(AFTER * unit / step))
    curvature = _averaged(track.curvature[index], window)
    kerb_left, kerb_right = kerb_masks(curvature, after, unit)
    return Scenery(
        unit=unit,
        kerb_left=kerb_left,
        kerb_right=kerb_right,
        red=np.arange(len(index)) // max(1, round(BLOCK * unit / step)) % 2 == 1,
        gravel_left=_gravel(curvature < -1 / (GRAVEL_RADIUS * unit), window, after, unit),
        gravel_right=_gravel(curvature > 1 / (GRAVEL_RADIUS * unit), window, after, unit),
        trees=plant_trees(track),
    )


def road_unit(track: Track) -> float:
    """m, a tenth of the mean road width: the measure of everything in a picture of the track."""
    return track.mean_width / 10.0


def kerb_masks(curvature: Array, after: int, unit: float) -> tuple[Mask, Mask]:
    """[S] whether there is a kerb on the left and on the right: inside each corner, and outside its exit.

    curvature: [S] 1/m, averaged. after: points from a corner to its exit.
    """
    turns_left, turns_right = curvature > 1 / (KERB_RADIUS * unit), curvature < -1 / (KERB_RADIUS * unit)
    left = turns_left | (np.roll(turns_right, after) & ~turns_right)
    right = turns_right | (np.roll(turns_left, after) & ~turns_left)
    return left, right


def _gravel(is_sharp: Mask, window: int, after: int, unit: float) -> Array:
    """[S] m, deepest outside the second half of a sharp corner, with soft ends."""
    depth = np.roll(is_sharp, after // 2).astype(float)
    for _ in range(3):
        depth = _averaged(depth, window)
    return GRAVEL_DEPTH * unit * depth


def _averaged(values: Array, window: int) -> Array:
    """[S] the mean over `window` points to either side, around the lap."""
    return np.convolve(np.pad(values, window, mode="wrap"), np.ones(2 * window + 1) / (2 * window + 1), mode="valid")


def plant_trees(track: Track) -> Array:
    """[T, 3] x, y, radius in m: seeded trees beyond the verge, none near any piece of road."""
    unit = road_unit(track)
    random = np.random.default_rng(len(track.x))
    count = min(int(track.length / (PER_TREE * unit)), MOST_TREES)
    at = random.integers(0, len(track.x), count)
    half = np.where(random.random(count) < 0.5, track.left_width[at], -track.right_width[at])
    away = half + np.sign(half) * unit * random.uniform(12.0, 42.0, count)
    x = track.x[at] - np.sin(track.heading[at]) * away
    y = track.y[at] + np.cos(track.heading[at]) * away
    stride = max(1, int(2.0 * unit / track.spacing))
    gap = np.hypot(x[:, None] - track.x[::stride], y[:, None] - track.y[::stride]).min(axis=1)
    widest = float(max(track.left_width.max(), track.right_width.max()))
    radius = unit * random.uniform(1.3, 2.9, count)
    return np.stack([x, y, radius], axis=-1)[gap > widest + 10.0 * unit]


def start_patches(track: Track) -> list[tuple[bool, Array]]:
    """(white or black, corners [4, 2] m) of the chequered line and the slots of the grid behind it."""
    unit = road_unit(track)
    left, right = float(track.left_width[0]), float(track.right_width[0])
    square = 0.7 * unit
    columns = max(6, round((left + right) / square))
    edges = np.linspace(-right, left, columns + 1)
    patches = [
        ((row + column) % 2 == 1, _patch(track, (row - 1.5) * square, edges[column], edges[column + 1], square))
        for row in range(3)
        for column in range(columns)
    ]
    across, thick = 1.3 * unit, 0.11 * unit
    for slot in range(GRID_SLOTS):
        behind = -(5.0 + 8.0 * slot) * unit
        side = 0.45 * (left if slot % 2 else -right)
        patches.append((True, _patch(track, behind, side - across, side + across, 0.22 * unit)))
        for edge in (side - across, side + across):
            patches.append((True, _patch(track, behind - 1.2 * unit, edge - thick, edge + thick, 1.3 * unit)))
    return patches


def _patch(track: Track, along: float, right: float, left: float, depth: float) -> Array:
    """A rectangle on the road: `along` m from the start line, between two lateral offsets, `depth` m long."""
    index = round(along / track.spacing) % len(track.x)
    heading = track.heading[index]
    ahead = np.array([np.cos(heading), np.sin(heading)])
    aside = np.array([-ahead[1], ahead[0]])
    rest = along - round(along / track.spacing) * track.spacing
    base = np.array([track.x[index], track.y[index]]) + ahead * rest
    return np.stack([base + ahead * a + aside * b for a, b in ((0, right), (depth, right), (depth, left), (0, left))])

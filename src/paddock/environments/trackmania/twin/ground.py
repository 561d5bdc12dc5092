"""The ground that a cockpit picture shows: how far each place lies from the road's edge, as a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paddock.sim.kernels.compile import kernel
from paddock.sim.tracks.track import Track

CELL = 0.25  # m, the finest grid
MOST_CELLS = 12_000_000
MARGIN = 12.0  # m of ground around the road that the grid knows
FAR = -1_000.0  # stands for every place farther outside


@dataclass(frozen=True)
class Ground:
    """inside: float32 [rows, columns] m from the road's nearest edge, positive on the road; rows go along y."""

    inside: NDArray[np.float32]
    left: float  # m, x of the first column
    bottom: float  # m, y of the first row
    cell: float  # m


def ground_of(track: Track) -> Ground:
    """The grid of a track."""
    edges = np.concatenate([track.left_edge, track.right_edge])
    low, high = edges.min(axis=0) - MARGIN, edges.max(axis=0) + MARGIN
    cell = max(CELL, math.sqrt(float(np.prod(high - low)) / MOST_CELLS))
    columns, rows = (int(count) + 2 for count in np.ceil((high - low) / cell))
    inside = np.full((rows, columns), FAR, np.float32)
    centre = np.stack([track.x, track.y, track.heading, track.left_width, track.right_width], axis=1)
    paint(inside, centre, float(low[0]), float(low[1]), cell, 0.75 * track.spacing)
    return Ground(inside, float(low[0]), float(low[1]), cell)


@kernel()
def paint(
    inside: NDArray, centre: NDArray, left: float, bottom: float, cell: float, half_piece: float
) -> None:  # pragma: no cover
    """Give each cell beside the centreline [M, 5] its distance from the nearer edge there; where pieces of road lie
    over one another, the road counts."""
    for point in range(centre.shape[0]):
        x, y, heading = centre[point, 0], centre[point, 1], centre[point, 2]
        cos, sin = math.cos(heading), math.sin(heading)
        reach = max(centre[point, 3], centre[point, 4]) + MARGIN - 1.0
        first_row, last_row = int((y - reach - bottom) / cell), int((y + reach - bottom) / cell) + 1
        first_column, last_column = int((x - reach - left) / cell), int((x + reach - left) / cell) + 1
        for row in range(max(first_row, 0), min(last_row + 1, inside.shape[0])):
            for column in range(max(first_column, 0), min(last_column + 1, inside.shape[1])):
                dx, dy = left + column * cell - x, bottom + row * cell - y
                along, aside = dx * cos + dy * sin, dy * cos - dx * sin
                # Outside of a bend the pieces spread like a fan.
                if abs(along) <= half_piece + 0.06 * abs(aside) + cell:
                    depth = min(centre[point, 3] - aside, centre[point, 4] + aside)
                    if depth > inside[row, column]:
                        inside[row, column] = depth

"""Where a car is on its road: projection by a local walk, interpolation at a distance, corners beyond the edge.

A walk from the last known place never jumps to another piece of road, however near that is: a track may pass over
itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.sim import layout as L
from paddock.sim.kernels.compile import inline, kernel, part
from paddock.sim.kernels.math import cosine, sine

Table = NDArray[np.float32]

F32 = np.float32


@inline
def ahead_of(road: Table, row: int, x: float, y: float) -> float:
    """Metres by which (x, y) lies ahead of a road point, along its tangent."""
    return (x - road[row, L.ROAD_X]) * road[row, L.ROAD_TX] + (y - road[row, L.ROAD_Y]) * road[row, L.ROAD_TY]


@part
def locate(road: Table, first: int, count: int, index: int, x: float, y: float, reach: int) -> tuple[int, float, float]:
    """(index, fraction, lateral m): the point's place between road points `index` and `index + 1`.

    Walks at most `reach` points from `index`. The place is where the road's cross-section, its direction
    interpolated between points, runs through (x, y); so it moves smoothly as the car does.
    """
    following = index + 1 if index + 1 < count else 0
    before = ahead_of(road, first + index, x, y)
    after = ahead_of(road, first + following, x, y)
    if after >= 0.0:
        for _ in range(reach):
            index, before = following, after
            following = index + 1 if index + 1 < count else 0
            after = ahead_of(road, first + following, x, y)
            if after < 0.0:
                break
    elif before < 0.0:
        for _ in range(reach):
            following, after = index, before
            index = index - 1 if index > 0 else count - 1
            before = ahead_of(road, first + index, x, y)
            if before >= 0.0:
                break
    span = before - after
    fraction = min(max(before / span, 0.0), 1.0) if span > 0.0 else 0.0
    a, b = first + index, first + following
    tx = road[a, L.ROAD_TX] + fraction * (road[b, L.ROAD_TX] - road[a, L.ROAD_TX])
    ty = road[a, L.ROAD_TY] + fraction * (road[b, L.ROAD_TY] - road[a, L.ROAD_TY])
    dx = x - (road[a, L.ROAD_X] + fraction * (road[b, L.ROAD_X] - road[a, L.ROAD_X]))
    dy = y - (road[a, L.ROAD_Y] + fraction * (road[b, L.ROAD_Y] - road[a, L.ROAD_Y]))
    lateral = (dy * tx - dx * ty) / math.sqrt(tx * tx + ty * ty)
    return index, fraction, lateral


@inline
def between(road: Table, first: int, count: int, index: int, fraction: float, column: int) -> float:
    """A column of the road table interpolated between point `index` and the next."""
    following = index + 1 if index + 1 < count else 0
    value = road[first + index, column]
    return value + fraction * (road[first + following, column] - value)


@inline
def place_at(s: float, length: float, spacing: float, count: int) -> tuple[int, float]:
    """(index, fraction) of the distance `s` m, which may lie any number of laps away."""
    position = (s - math.floor(s / length) * length) / spacing
    index = min(int(position), count - 1)
    return index, position - index


@inline
def frame_at(road: Table, first: int, count: int, index: int, fraction: float) -> tuple[float, float, float, float]:
    """(x, y, tangent x, tangent y) of the centreline."""
    x = between(road, first, count, index, fraction, L.ROAD_X)
    y = between(road, first, count, index, fraction, L.ROAD_Y)
    tx = between(road, first, count, index, fraction, L.ROAD_TX)
    ty = between(road, first, count, index, fraction, L.ROAD_TY)
    size = math.sqrt(tx * tx + ty * ty)
    return x, y, tx / size, ty / size


@part
def edge_excess(
    road: Table, first: int, count: int, index: int, reach: int, x: float, y: float
) -> tuple[float, float, float]:
    """(metres beyond the road's edge, inward normal x, y) of one point near road point `index`; negative inside."""
    index, fraction, lateral = locate(road, first, count, index, x, y, reach)
    tx = between(road, first, count, index, fraction, L.ROAD_TX)
    ty = between(road, first, count, index, fraction, L.ROAD_TY)
    size = math.sqrt(tx * tx + ty * ty)
    left = lateral - between(road, first, count, index, fraction, L.ROAD_LEFT)
    right = -lateral - between(road, first, count, index, fraction, L.ROAD_RIGHT)
    if left > right:
        return left, ty / size, -tx / size
    return right, -ty / size, tx / size


@part
def corners_beyond(
    road: Table, first: int, count: int, index: int, spacing: float,
    x: float, y: float, heading: float, half_length: float, half_width: float, worst: Any,
) -> int:  # fmt: skip
    """How many corners of the car stand beyond the edge; `worst` [5] gets the farthest one.

    `worst` is (excess m, inward normal x, y, corner relative to the car's centre x, y), all in the world's frame.
    """
    cos, sin = cosine(heading), sine(heading)
    reach = int(half_length / spacing) + 3
    beyond = 0
    worst[0] = -1e9
    for corner in range(4):
        forward = half_length if corner < 2 else -half_length
        sideways = half_width if corner % 2 == 0 else -half_width
        rx, ry = forward * cos - sideways * sin, forward * sin + sideways * cos
        excess, nx, ny = edge_excess(road, first, count, index, reach, x + rx, y + ry)
        if excess > 0.0:
            beyond += 1
        if excess > worst[0]:
            worst[0], worst[1], worst[2], worst[3], worst[4] = excess, nx, ny, rx, ry
    return beyond


@kernel()
def ribbon_nodes(left: Any, right: Any, tolerance: float) -> Any:
    """Indices of the road points to keep so that both edge polylines [M, 2] stay within `tolerance` m.

    Greedy: each piece grows until a point between its ends leaves the straight line on either side.
    """
    count = left.shape[0]
    kept = np.zeros(count, np.int32)
    nodes, start = 1, 0
    while start < count - 1:
        end = start + 1
        while (
            end < count and _straight(left, start, end + 1, tolerance) and _straight(right, start, end + 1, tolerance)
        ):
            end += 1
        if end >= count:
            break
        kept[nodes] = end
        nodes += 1
        start = end
    return kept[:nodes]


@part
def _straight(edge: Any, start: int, end: int, tolerance: float) -> bool:
    count = edge.shape[0]
    ax, ay = edge[start, 0], edge[start, 1]
    bx, by = edge[end % count, 0], edge[end % count, 1]
    dx, dy = bx - ax, by - ay
    size = math.sqrt(dx * dx + dy * dy)
    if size < 1e-9:
        return False
    for i in range(start + 1, end):
        px, py = edge[i, 0] - ax, edge[i, 1] - ay
        along = (px * dx + py * dy) / size
        if abs(px * dy - py * dx) > tolerance * size or along < 0.0 or along > size:
            return False
    return True


@inline
def curvature_at(road: Table, first: int, count: int, index: int, fraction: float) -> float:
    """1/m, left positive."""
    return between(road, first, count, index, fraction, L.ROAD_CURVATURE)

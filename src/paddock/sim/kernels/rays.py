"""Rays: exact distances to the road's edges, to round obstacles and to other cars, in single precision.

All rays of a car are computed together, piece of edge by piece of edge, outwards from the car, in vector registers.
The walk ends at the first cross-section of the road through which no ray still looks. Directions and hits are padded
to a multiple of 8 rays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.sim import layout as L
from paddock.sim.kernels.compile import inline, part

Row = NDArray[np.float32]

ZERO = np.float32(0.0)
F32 = np.float32


@part
def cut_segment(rays: Row, count: int, ax: float, ay: float, bx: float, by: float) -> None:
    """Shorten the rays that cross the segment from (ax, ay) to (bx, by), in the frame of the sensor.

    `rays` is flat: `count` direction x, then direction y, then the distances so far.
    """
    cross = ax * by - ay * bx
    for k in range(count):
        dx, dy = rays[k], rays[count + k]
        side_a = dx * ay - dy * ax
        side_b = dx * by - dy * bx
        distance = cross / (side_b - side_a)
        nearest = rays[2 * count + k]
        crosses = (side_a * side_b <= ZERO) & (distance >= ZERO) & (distance < nearest)
        rays[2 * count + k] = distance if crosses else nearest


@part
def cut_pair(
    rays: Row, count: int, ax: float, ay: float, bx: float, by: float, cx: float, cy: float, ex: float, ey: float
) -> None:
    """`cut_segment` for two segments at once, a to b and c to e."""
    cross_ab = ax * by - ay * bx
    cross_ce = cx * ey - cy * ex
    for k in range(count):
        dx, dy = rays[k], rays[count + k]
        nearest = rays[2 * count + k]
        side_a = dx * ay - dy * ax
        side_b = dx * by - dy * bx
        distance = cross_ab / (side_b - side_a)
        crosses = (side_a * side_b <= ZERO) & (distance >= ZERO) & (distance < nearest)
        nearest = distance if crosses else nearest
        side_c = dx * cy - dy * cx
        side_e = dx * ey - dy * ex
        distance = cross_ce / (side_e - side_c)
        crosses = (side_c * side_e <= ZERO) & (distance >= ZERO) & (distance < nearest)
        rays[2 * count + k] = distance if crosses else nearest


@part
def looks_through(rays: Row, count: int, ax: float, ay: float, bx: float, by: float) -> bool:
    """Whether any ray passes between the two points before it ends."""
    cross = ax * by - ay * bx
    open_rays = 0
    for k in range(count):
        dx, dy = rays[k], rays[count + k]
        side_a = dx * ay - dy * ax
        side_b = dx * by - dy * bx
        distance = cross / (side_b - side_a)
        passes = (side_a * side_b <= ZERO) & (distance >= ZERO) & (distance < rays[2 * count + k])
        open_rays |= 1 if passes else 0
    return open_rays != 0


@inline
def in_frame(table: Any, row: int, column: int, x: float, y: float, cos: Any, sin: Any) -> tuple[Any, Any]:
    """A point of a table of (x, y) pairs in the frame of a sensor at (x, y) that looks along (cos, sin)."""
    px, py = F32(table[row, column] - x), F32(table[row, column + 1] - y)
    return px * cos + py * sin, py * cos - px * sin


@part
def cut_ribbon(
    rays: Row, count: int, ribbon: Any, first: int, nodes: int, node: int,
    x: float, y: float, cos: float, sin: float, inside: bool, pieces: int,
) -> None:  # fmt: skip
    """Shorten the rays at the edges of the road around `node`, forwards and backwards along it.

    A sensor that is `inside` the road sees nothing beyond a cross-section that no ray reaches; one outside gets all
    of `pieces` pieces of edge either way.
    """
    for direction in (1, -1):
        at = node
        left_x, left_y = in_frame(ribbon, first + at, L.RIBBON_LEFT, x, y, cos, sin)
        right_x, right_y = in_frame(ribbon, first + at, L.RIBBON_RIGHT, x, y, cos, sin)
        if direction < 0 and inside and not looks_through(rays, count, left_x, left_y, right_x, right_y):
            return
        for piece in range(pieces):
            at += direction
            at = at - nodes if at >= nodes else at + nodes if at < 0 else at
            next_left_x, next_left_y = in_frame(ribbon, first + at, L.RIBBON_LEFT, x, y, cos, sin)
            next_right_x, next_right_y = in_frame(ribbon, first + at, L.RIBBON_RIGHT, x, y, cos, sin)
            cut_pair(
                rays, count, left_x, left_y, next_left_x, next_left_y, right_x, right_y, next_right_x, next_right_y
            )
            left_x, left_y, right_x, right_y = next_left_x, next_left_y, next_right_x, next_right_y
            if inside and piece % 2 == 0 and not looks_through(rays, count, left_x, left_y, right_x, right_y):
                break


@part
def cut_circle(rays: Row, count: int, cx: float, cy: float, radius: float) -> None:
    """Shorten the rays that meet a circle around (cx, cy), in the frame of the sensor; from inside they read 0."""
    beyond = cx * cx + cy * cy - radius * radius
    for k in range(count):
        along = rays[k] * cx + rays[count + k] * cy
        under = along * along - beyond
        distance = max(along - math.sqrt(max(under, ZERO)), ZERO)
        nearest = rays[2 * count + k]
        meets = (under >= ZERO) & ((along >= ZERO) | (beyond <= ZERO)) & (distance < nearest)
        rays[2 * count + k] = distance if meets else nearest


@part
def cut_body(
    rays: Row, count: int, dx: float, dy: float, cos: float, sin: float, half_length: float, half_width: float
) -> None:
    """Shorten the rays at the four sides of a car whose centre is at (dx, dy) and whose nose is along (cos, sin)."""
    lx, ly = half_length * cos, half_length * sin
    wx, wy = -half_width * sin, half_width * cos
    ax, ay = dx + lx + wx, dy + ly + wy
    bx, by = dx - lx + wx, dy - ly + wy
    cx, cy = dx - lx - wx, dy - ly - wy
    ex, ey = dx + lx - wx, dy + ly - wy
    cut_pair(rays, count, ax, ay, bx, by, cx, cy, ex, ey)
    cut_pair(rays, count, bx, by, cx, cy, ex, ey, ax, ay)

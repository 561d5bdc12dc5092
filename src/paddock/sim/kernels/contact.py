"""Contact: cars against walls, round obstacles and each other, as impulses between rigid bodies.

Heading, positions and velocities change in place; nothing here runs for a car that touches nothing.
"""

from __future__ import annotations

import math
from typing import Any

from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import inline, part
from paddock.sim.layout import (
    COLLIDED,
    GHOST,
    HEADING,
    IMPACT,
    STEP_CAR,
    TOUCHED_CAR,
    VX,
    VY,
    YAW_RATE,
    X,
    Y,
)

MASS = PARAMETER_INDEX["mass"]
YAW_INERTIA = PARAMETER_INDEX["yaw_inertia"]
LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]

RESTITUTION = 0.2
SCRAPE = 0.3  # friction of bodywork on whatever it touches


@inline
def push(n: int, rx: float, ry: float, jx: float, jy: float, parameters: Any, singles: Any) -> None:
    """Apply the impulse (jx, jy) N s in the world's frame at (rx, ry) m from the centre of car `n`."""
    cos, sin = math.cos(singles[HEADING, n]), math.sin(singles[HEADING, n])
    mass = parameters[n, MASS]
    singles[VX, n] += (jx * cos + jy * sin) / mass
    singles[VY, n] += (jy * cos - jx * sin) / mass
    singles[YAW_RATE, n] += (rx * jy - ry * jx) / parameters[n, YAW_INERTIA]


@inline
def point_velocity(n: int, rx: float, ry: float, singles: Any) -> tuple[float, float]:
    """Velocity [m/s] in the world's frame of a point of car `n`, (rx, ry) m from its centre."""
    cos, sin = math.cos(singles[HEADING, n]), math.sin(singles[HEADING, n])
    vx = singles[VX, n] * cos - singles[VY, n] * sin - singles[YAW_RATE, n] * ry
    vy = singles[VX, n] * sin + singles[VY, n] * cos + singles[YAW_RATE, n] * rx
    return vx, vy


@inline
def yielding(n: int, rx: float, ry: float, nx: float, ny: float, parameters: Any) -> float:
    """How much a point of the car gives way along (nx, ny): m/s per N s."""
    arm = rx * ny - ry * nx
    return 1.0 / parameters[n, MASS] + arm * arm / parameters[n, YAW_INERTIA]


@inline
def impulse_between(closing: float, sliding: float, normal_yield: float, tangent_yield: float) -> tuple[float, float]:
    """(normal, tangential) impulse N s that stops `closing` m/s (negative when closing) and rubs off `sliding` m/s."""
    normal = -(1.0 + RESTITUTION) * closing / normal_yield
    bound = SCRAPE * normal
    tangent = min(max(-sliding / tangent_yield, -bound), bound)
    return normal, tangent


@part
def hit_fixed(
    n: int, rx: float, ry: float, nx: float, ny: float, depth: float, parameters: Any, doubles: Any, singles: Any
) -> None:
    """Car `n` touches something immovable at (rx, ry) m from its centre; (nx, ny) points to the free side."""
    doubles[X, n] += nx * depth
    doubles[Y, n] += ny * depth
    vx, vy = point_velocity(n, rx, ry, singles)
    closing = vx * nx + vy * ny
    if closing >= 0.0:
        return
    sliding = vy * nx - vx * ny
    normal, tangent = impulse_between(
        closing, sliding, yielding(n, rx, ry, nx, ny, parameters), yielding(n, rx, ry, -ny, nx, parameters)
    )
    push(n, rx, ry, normal * nx - tangent * ny, normal * ny + tangent * nx, parameters, singles)
    singles[IMPACT, n] = max(singles[IMPACT, n], -closing)


@part
def hit_obstacle(
    n: int, ox: float, oy: float, radius: float, solid: bool, parameters: Any, doubles: Any, singles: Any
) -> bool:
    """Whether the body of car `n` meets the round obstacle; a solid one pushes it out and stops it."""
    cos, sin = math.cos(singles[HEADING, n]), math.sin(singles[HEADING, n])
    dx, dy = ox - doubles[X, n], oy - doubles[Y, n]
    qx, qy = dx * cos + dy * sin, dy * cos - dx * sin
    half_length, half_width = 0.5 * parameters[n, LENGTH], 0.5 * parameters[n, WIDTH]
    cx, cy = min(max(qx, -half_length), half_length), min(max(qy, -half_width), half_width)
    gap_x, gap_y = cx - qx, cy - qy
    distance = math.sqrt(gap_x * gap_x + gap_y * gap_y)
    if distance >= radius:
        return False
    if solid:
        if distance > 1e-6:
            lx, ly, depth = gap_x / distance, gap_y / distance, radius - distance
        else:  # the obstacle's centre is inside the body: leave along its length
            lx = -1.0 if qx > 0.0 else 1.0
            ly, depth = 0.0, radius + half_length - abs(qx)
        nx, ny = lx * cos - ly * sin, lx * sin + ly * cos
        hit_fixed(n, cx * cos - cy * sin, cx * sin + cy * cos, nx, ny, depth, parameters, doubles, singles)
    return True


@inline
def extent(cos: float, sin: float, half_length: float, half_width: float, nx: float, ny: float) -> float:
    """Half the length of a body's shadow on the axis (nx, ny)."""
    return half_length * abs(cos * nx + sin * ny) + half_width * abs(cos * ny - sin * nx)


@inline
def corner_towards(
    cos: float, sin: float, half_length: float, half_width: float, nx: float, ny: float
) -> tuple[float, float]:
    """The corner of a body that lies farthest along (nx, ny), relative to its centre."""
    forward = half_length if cos * nx + sin * ny > 0.0 else -half_length
    sideways = half_width if cos * ny - sin * nx > 0.0 else -half_width
    return forward * cos - sideways * sin, forward * sin + sideways * cos


@part
def touch(a: int, b: int, parameters: Any, doubles: Any, singles: Any) -> bool:
    """Part two cars whose bodies overlap and exchange an impulse; False when they do not touch.

    Separating axes of two rectangles; the axis of least overlap is the direction of contact.
    """
    dx, dy = doubles[X, b] - doubles[X, a], doubles[Y, b] - doubles[Y, a]
    half_length_a, half_width_a = 0.5 * parameters[a, LENGTH], 0.5 * parameters[a, WIDTH]
    half_length_b, half_width_b = 0.5 * parameters[b, LENGTH], 0.5 * parameters[b, WIDTH]
    reach = half_length_a + half_width_a + half_length_b + half_width_b
    if dx * dx + dy * dy > reach * reach:
        return False
    cos_a, sin_a = math.cos(singles[HEADING, a]), math.sin(singles[HEADING, a])
    cos_b, sin_b = math.cos(singles[HEADING, b]), math.sin(singles[HEADING, b])
    depth, nx, ny, owner = 1e9, 1.0, 0.0, 0
    for axis in range(4):
        cos, sin = (cos_a, sin_a) if axis < 2 else (cos_b, sin_b)
        ux, uy = (cos, sin) if axis % 2 == 0 else (-sin, cos)
        gap = dx * ux + dy * uy
        overlap = (
            extent(cos_a, sin_a, half_length_a, half_width_a, ux, uy)
            + extent(cos_b, sin_b, half_length_b, half_width_b, ux, uy)
            - abs(gap)
        )
        if overlap <= 0.0:
            return False
        if overlap < depth:
            side = 1.0 if gap >= 0.0 else -1.0
            depth, nx, ny, owner = overlap, ux * side, uy * side, axis // 2
    if owner == 0:  # a face of `a` is hit by a corner of `b`, or the other way round
        bx, by = corner_towards(cos_b, sin_b, half_length_b, half_width_b, -nx, -ny)
        ax, ay = dx + bx, dy + by
    else:
        ax, ay = corner_towards(cos_a, sin_a, half_length_a, half_width_a, nx, ny)
        bx, by = ax - dx, ay - dy
    _exchange(a, b, ax, ay, bx, by, nx, ny, depth, parameters, doubles, singles)
    return True


@part
def _exchange(
    a: int, b: int, ax: float, ay: float, bx: float, by: float, nx: float, ny: float, depth: float,
    parameters: Any, doubles: Any, singles: Any,
) -> None:  # fmt: skip
    heavy = parameters[b, MASS] / (parameters[a, MASS] + parameters[b, MASS])
    doubles[X, a] -= nx * depth * heavy
    doubles[Y, a] -= ny * depth * heavy
    doubles[X, b] += nx * depth * (1.0 - heavy)
    doubles[Y, b] += ny * depth * (1.0 - heavy)
    avx, avy = point_velocity(a, ax, ay, singles)
    bvx, bvy = point_velocity(b, bx, by, singles)
    closing = (bvx - avx) * nx + (bvy - avy) * ny
    if closing >= 0.0:
        return
    sliding = (bvy - avy) * nx - (bvx - avx) * ny
    normal, tangent = impulse_between(
        closing,
        sliding,
        yielding(a, ax, ay, nx, ny, parameters) + yielding(b, bx, by, nx, ny, parameters),
        yielding(a, ax, ay, -ny, nx, parameters) + yielding(b, bx, by, -ny, nx, parameters),
    )
    jx, jy = normal * nx - tangent * ny, normal * ny + tangent * nx
    push(a, ax, ay, -jx, -jy, parameters, singles)
    push(b, bx, by, jx, jy, parameters, singles)
    for n in (a, b):
        singles[IMPACT, n] = max(singles[IMPACT, n], -closing)


@part
def touch_group(start: int, stop: int, modes: Any, parameters: Any, doubles: Any, singles: Any, flags: Any) -> None:
    """Contact between all cars of one group, cars `start` to `stop`; ghosts touch nothing."""
    for a in range(start, stop):
        for b in range(a + 1, stop):
            if modes[a] != STEP_CAR or modes[b] != STEP_CAR or flags[GHOST, a] or flags[GHOST, b]:
                continue
            if touch(a, b, parameters, doubles, singles):
                for n in (a, b):
                    flags[COLLIDED, n] = True
                    flags[TOUCHED_CAR, n] = True

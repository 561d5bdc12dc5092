"""Contact: cars against walls, round obstacles and each other, as impulses between rigid bodies.

Heading, positions and velocities change in place; nothing here runs for a car that touches nothing.
"""

from __future__ import annotations

import math

from paddock.sim import layout as L
from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import inline, part
from paddock.sim.kernels.records import Bytes, Cars, Singles

MASS = PARAMETER_INDEX["mass"]
YAW_INERTIA = PARAMETER_INDEX["yaw_inertia"]
LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]

RESTITUTION = 0.2
SCRAPE = 0.3  # friction of bodywork on whatever it touches


@inline
def push(n: int, rx: float, ry: float, jx: float, jy: float, cars: Cars) -> None:
    """Apply the impulse (jx, jy) N s in the world's frame at (rx, ry) m from the centre of car `n`."""
    parameters, singles = cars.parameters, cars.singles
    cos, sin = math.cos(singles[L.HEADING, n]), math.sin(singles[L.HEADING, n])
    mass = parameters[n, MASS]
    singles[L.VX, n] += (jx * cos + jy * sin) / mass
    singles[L.VY, n] += (jy * cos - jx * sin) / mass
    singles[L.YAW_RATE, n] += (rx * jy - ry * jx) / parameters[n, YAW_INERTIA]


@inline
def point_velocity(n: int, rx: float, ry: float, singles: Singles) -> tuple[float, float]:
    """Velocity [m/s] in the world's frame of a point of car `n`, (rx, ry) m from its centre."""
    cos, sin = math.cos(singles[L.HEADING, n]), math.sin(singles[L.HEADING, n])
    vx = singles[L.VX, n] * cos - singles[L.VY, n] * sin - singles[L.YAW_RATE, n] * ry
    vy = singles[L.VX, n] * sin + singles[L.VY, n] * cos + singles[L.YAW_RATE, n] * rx
    return vx, vy


@inline
def yielding(n: int, rx: float, ry: float, nx: float, ny: float, parameters: Singles) -> float:
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
def hit_fixed(n: int, rx: float, ry: float, nx: float, ny: float, depth: float, cars: Cars) -> None:
    """Car `n` touches something immovable at (rx, ry) m from its centre; (nx, ny) points to the free side."""
    parameters, doubles, singles = cars.parameters, cars.doubles, cars.singles
    doubles[L.X, n] += nx * depth
    doubles[L.Y, n] += ny * depth
    vx, vy = point_velocity(n, rx, ry, singles)
    closing = vx * nx + vy * ny
    if closing >= 0.0:
        return
    sliding = vy * nx - vx * ny
    normal, tangent = impulse_between(
        closing, sliding, yielding(n, rx, ry, nx, ny, parameters), yielding(n, rx, ry, -ny, nx, parameters)
    )
    push(n, rx, ry, normal * nx - tangent * ny, normal * ny + tangent * nx, cars)
    singles[L.IMPACT, n] = max(singles[L.IMPACT, n], -closing)


@part
def hit_obstacle(n: int, ox: float, oy: float, radius: float, solid: bool, cars: Cars) -> bool:
    """Whether the body of car `n` meets the round obstacle; a solid one pushes it out and stops it."""
    parameters, doubles, singles = cars.parameters, cars.doubles, cars.singles
    cos, sin = math.cos(singles[L.HEADING, n]), math.sin(singles[L.HEADING, n])
    dx, dy = ox - doubles[L.X, n], oy - doubles[L.Y, n]
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
        hit_fixed(n, cx * cos - cy * sin, cx * sin + cy * cos, nx, ny, depth, cars)
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
def touch(a: int, b: int, cars: Cars) -> bool:
    """Part two cars whose bodies overlap and exchange an impulse; False when they do not touch.

    Separating axes of two rectangles; the axis of least overlap is the direction of contact.
    """
    parameters, doubles, singles = cars.parameters, cars.doubles, cars.singles
    dx, dy = doubles[L.X, b] - doubles[L.X, a], doubles[L.Y, b] - doubles[L.Y, a]
    half_length_a, half_width_a = 0.5 * parameters[a, LENGTH], 0.5 * parameters[a, WIDTH]
    half_length_b, half_width_b = 0.5 * parameters[b, LENGTH], 0.5 * parameters[b, WIDTH]
    reach = half_length_a + half_width_a + half_length_b + half_width_b
    if dx * dx + dy * dy > reach * reach:
        return False
    cos_a, sin_a = math.cos(singles[L.HEADING, a]), math.sin(singles[L.HEADING, a])
    cos_b, sin_b = math.cos(singles[L.HEADING, b]), math.sin(singles[L.HEADING, b])
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
    _exchange(a, b, ax, ay, bx, by, nx, ny, depth, cars)
    return True


@part
def _exchange(
    a: int, b: int, ax: float, ay: float, bx: float, by: float, nx: float, ny: float, depth: float, cars: Cars
) -> None:
    parameters, doubles, singles = cars.parameters, cars.doubles, cars.singles
    heavy = parameters[b, MASS] / (parameters[a, MASS] + parameters[b, MASS])
    doubles[L.X, a] -= nx * depth * heavy
    doubles[L.Y, a] -= ny * depth * heavy
    doubles[L.X, b] += nx * depth * (1.0 - heavy)
    doubles[L.Y, b] += ny * depth * (1.0 - heavy)
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
    push(a, ax, ay, -jx, -jy, cars)
    push(b, bx, by, jx, jy, cars)
    for n in (a, b):
        singles[L.IMPACT, n] = max(singles[L.IMPACT, n], -closing)


@part
def touch_group(start: int, stop: int, modes: Bytes, cars: Cars) -> None:
    """Contact between all cars of one group, cars `start` to `stop`; ghosts touch nothing."""
    flags = cars.flags
    for a in range(start, stop):
        for b in range(a + 1, stop):
            if modes[a] != L.STEP_CAR or modes[b] != L.STEP_CAR or flags[L.GHOST, a] or flags[L.GHOST, b]:
                continue
            if touch(a, b, cars):
                for n in (a, b):
                    flags[L.COLLIDED, n] = True
                    flags[L.TOUCHED_CAR, n] = True

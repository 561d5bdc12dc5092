"""How fast a car can follow a given line: its grip envelope, and a forward-backward pass within it.

The envelope is built from the force laws of `car.py`, the same that drive the dynamics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np

from paddock.sim.cars.car import CarParameters, engine_force
from paddock.sim.tracks.track import Array

SPEEDS = 96  # rows of the envelope
SHARES = 33  # columns: lateral acceleration as a share of the largest one at that speed
BISECTIONS = 24
SLIDING = 0.98  # share of its grip at which an axle is about to slide
SLOWEST = 0.5  # m/s, the first row: below it grip is not what limits a car


@dataclass(frozen=True, eq=False)
class GripEnvelope:
    """What a car can do at a speed while cornering. V speeds, S shares of the lateral limit, evenly spaced.

    speed: [V] m/s. lateral: [V] m/s2, the limit. accelerate, brake: [V, S] m/s2 along the line, drag included;
    `brake` is positive.
    """

    speed: Array
    lateral: Array
    accelerate: Array
    brake: Array


@lru_cache(maxsize=64)
def grip_envelope(car: CarParameters) -> GripEnvelope:
    """The envelope of a car, by bisection on the longitudinal force at every speed and lateral acceleration."""
    speed = np.linspace(SLOWEST, car.top_speed, SPEEDS)
    lateral = np.asarray(car.lateral_limit(speed), dtype=np.float64)
    demand = lateral[:, None] * np.linspace(0.0, 1.0, SHARES)
    grid = np.broadcast_to(speed[:, None], demand.shape)
    drag = np.asarray(car.drag_force(grid), dtype=np.float64)
    engine = np.asarray(engine_force(grid, car.drive_force, car.power, car.top_speed), dtype=np.float64)
    brakes = np.full_like(engine, car.brake_force)
    if not car.kinematic:
        engine = _largest_force(car, grid, demand, drag, engine, forward=True)
        brakes = _largest_force(car, grid, demand, drag, brakes, forward=False)
    return GripEnvelope(speed, lateral, (engine - drag) / car.mass, (brakes + drag) / car.mass)


def _largest_force(
    car: CarParameters, speed: Array, demand: Array, drag: Array, most: Array, *, forward: bool
) -> Array:
    """[V, S] N, the largest longitudinal force up to `most` that leaves both axles the grip to corner by `demand`."""
    lowest, highest = np.zeros_like(most), most.copy()
    for _ in range(BISECTIONS):
        force = 0.5 * (lowest + highest)
        fits = _fits(car, speed, demand, drag, force, forward)
        lowest, highest = np.where(fits, force, lowest), np.where(fits, highest, force)
    return np.where(_fits(car, speed, demand, drag, most, forward), most, lowest)


def _fits(car: CarParameters, speed: Array, demand: Array, drag: Array, force: Array, forward: bool) -> Array:
    acceleration = (force - drag) / car.mass if forward else -(force + drag) / car.mass
    loads = car.axle_loads(speed, acceleration)
    grips = car.axle_grips(speed, acceleration)
    if forward and car.drive_front >= 0.0:
        front_share = np.full_like(force, car.drive_front)
    else:
        front_share = loads[0] / np.maximum(loads[0] + loads[1], 1e-9)
    # In a steady turn the axles share the lateral force in proportion to the other one's distance.
    lateral_shares = (car.rear_length / car.wheelbase, car.front_length / car.wheelbase)
    fits = np.ones(force.shape, dtype=bool)
    for share, grip, lateral_share in zip((front_share, 1.0 - front_share), grips, lateral_shares, strict=True):
        along, across = share * force, lateral_share * car.mass * demand
        fits &= (along <= car.traction_limit * grip) & (along**2 + across**2 <= grip**2)
    return fits


def slip_angle(car: CarParameters, use: Array | float, stiffness: float) -> Array:
    """rad, at which a tyre gives the share `use` of its grip: the rising part of its curve, inverted.

    stiffness: 1/rad, of the linear tyre, where the car has one. Uses beyond `SLIDING` give the angle of `SLIDING`.
    """
    size = np.minimum(np.abs(use), SLIDING)
    if car.tyre_c == 0.0:
        return np.sign(use) * size / stiffness
    return np.sign(use) * np.interp(size, *_tyre_curve(car.tyre_c, car.tyre_e)) / car.tyre_b


@lru_cache(maxsize=64)
def _tyre_curve(c: float, e: float) -> tuple[Array, Array]:
    """(use, B a) on the rising part of use = sin(C atan(z)), z = B a - E (B a - atan(B a)), a the slip angle."""
    stretched = np.linspace(0.0, 2.0, 400)
    z = stretched - e * (stretched - np.arctan(stretched))
    return np.maximum.accumulate(np.sin(np.minimum(c * np.arctan(z), 0.5 * np.pi))), stretched


def cornering_speed(envelope: GripEnvelope, curvature: Array) -> Array:
    """[M] m/s, the largest steady speed at each curvature (1/m), at most the car's top speed."""
    fine = np.linspace(envelope.speed[0], envelope.speed[-1], 2000)
    holdable = np.interp(fine, envelope.speed, envelope.lateral) / fine**2
    # Downforce can make the holdable curvature rise again with speed; the slower branch is the safe one.
    holdable = np.minimum.accumulate(holdable)
    return np.interp(-np.abs(curvature), -holdable, fine)


def speed_profile(envelope: GripEnvelope, curvature: Array, steps: Array) -> Array:
    """[M] m/s around a closed line. curvature: [M] 1/m; steps: [M] m from each point to the next."""
    speed = cornering_speed(envelope, curvature)
    _forward_backward(
        speed,
        np.abs(curvature),
        steps,
        envelope.speed[0],
        envelope.speed[1] - envelope.speed[0],
        envelope.lateral,
        envelope.accelerate,
        envelope.brake,
    )
    return speed


@numba.njit(cache=True)
def look_up(table: Array, lateral: Array, first_speed: float, speed_step: float, speed: float, demand: float) -> float:
    """`table` [V, S] at a speed (m/s) and a lateral acceleration (m/s2), bilinear."""
    row = min(max((speed - first_speed) / speed_step, 0.0), table.shape[0] - 1.001)
    i = int(row)
    row -= i
    limit = lateral[i] * (1.0 - row) + lateral[i + 1] * row
    column = min(demand / limit, 1.0) * (table.shape[1] - 1)
    j = min(int(column), table.shape[1] - 2)
    column -= j
    low = table[i, j] * (1.0 - column) + table[i, j + 1] * column
    high = table[i + 1, j] * (1.0 - column) + table[i + 1, j + 1] * column
    return low * (1.0 - row) + high * row


@numba.njit(cache=True)
def _forward_backward(
    speed: Array,
    bend: Array,
    steps: Array,
    first_speed: float,
    speed_step: float,
    lateral: Array,
    accelerate: Array,
    brake: Array,
) -> None:
    """Lowers `speed`, in place, twice around the loop in each direction, so that the values at the seam agree."""
    count = len(speed)
    for k in range(2 * count):
        i = (2 * count - 1 - k) % count
        j = (i + 1) % count
        slowing = look_up(brake, lateral, first_speed, speed_step, speed[j], speed[j] ** 2 * bend[j])
        speed[i] = min(speed[i], math.sqrt(speed[j] ** 2 + 2.0 * max(slowing, 0.0) * steps[i]))
    for k in range(2 * count):
        i = k % count
        j = (i + 1) % count
        gaining = look_up(accelerate, lateral, first_speed, speed_step, speed[i], speed[i] ** 2 * bend[i])
        reachable = math.sqrt(max(speed[i] ** 2 + 2.0 * gaining * steps[i], first_speed**2))
        speed[j] = min(speed[j], reachable)


def times_along(speed: Array, steps: Array) -> Array:
    """[M + 1] s from point 0 to each point, the last being the lap time."""
    slices = 2.0 * steps / (speed + np.roll(speed, -1))
    return np.concatenate([[0.0], np.cumsum(slices)])

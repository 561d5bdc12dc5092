"""Single-precision arithmetic that vectorises (no calls into a maths library), and counter-based random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.sim.kernels.compile import inline

Real = Any  # a float32 scalar inside a kernel

ZERO = np.float32(0.0)
HALF = np.float32(0.5)
ONE = np.float32(1.0)
PI = np.float32(math.pi)
TWO_PI = np.float32(2.0 * math.pi)
HALF_PI = np.float32(0.5 * math.pi)

# Minimax polynomials; largest errors in single precision: atan 2e-7, sine 2e-7, tanh 1e-5.
A0, A1, A2, A3 = map(np.float32, (0.9999993443, -0.3332985938, 0.1994656175, -0.1390860975))
A4, A5, A6, A7 = map(np.float32, (0.0964215025, -0.0559116974, 0.0218625329, -0.0040544528))
S1, S2, S3, S4 = map(np.float32, (-0.16666647791862488, 0.008332899771630764, -0.000198008812731, 2.5904562e-06))
T0, T1, T2, T3 = map(np.float32, (135135.0, 17325.0, 378.0, 1.0))
U1, U2, U3 = map(np.float32, (62370.0, 3150.0, 28.0))
TANH_RANGE = np.float32(4.97)
SIXTH = np.float32(1.0 / 6.0)
TWENTY_FOURTH = np.float32(1.0 / 24.0)


@inline
def clip(value: Real, low: Real, high: Real) -> Real:
    return min(max(value, low), high)


@inline
def arctangent(x: Real) -> Real:
    """atan(x) for any x, rad."""
    size = abs(x)
    inverted = size > ONE
    t = ONE / size if inverted else size
    z = t * t
    p = ((((((A7 * z + A6) * z + A5) * z + A4) * z + A3) * z + A2) * z + A1) * z + A0
    angle = p * t
    angle = HALF_PI - angle if inverted else angle
    return angle if x >= ZERO else -angle


@inline
def direction_angle(x: Real, y: Real) -> Real:
    """atan2(y, x), rad; 0 where both are 0."""
    steep = abs(y) > abs(x)
    longer, shorter = (y, x) if steep else (x, y)
    angle = arctangent(shorter / longer if longer != ZERO else ZERO)
    flat = angle if x >= ZERO else angle + PI if y >= ZERO else angle - PI
    upright = HALF_PI - angle if y >= ZERO else -HALF_PI - angle
    return upright if steep else flat


@inline
def sine(x: Real) -> Real:
    """sin(x) for |x| up to 1.5 pi."""
    folded = PI - x if x > HALF_PI else x
    folded = -PI - x if x < -HALF_PI else folded
    z = folded * folded
    return folded * ((((S4 * z + S3) * z + S2) * z + S1) * z + ONE)


@inline
def cosine(x: Real) -> Real:
    """cos(x) for |x| up to pi."""
    return sine(HALF_PI - abs(x))


@inline
def hyperbolic_tangent(x: Real) -> Real:
    """tanh(x)."""
    t = clip(x, -TANH_RANGE, TANH_RANGE)
    z = t * t
    ratio = t * (((T3 * z + T2) * z + T1) * z + T0) / (((U3 * z + U2) * z + U1) * z + T0)
    return clip(ratio, -ONE, ONE)


@inline
def small_turn(angle: Real) -> tuple[Real, Real]:
    """(cos, sin) of a small angle, for the turn of half a substep."""
    z = angle * angle
    return ONE - z * HALF + z * z * TWENTY_FOURTH, angle * (ONE - z * SIXTH)


@inline
def wrapped(angle: Real) -> Real:
    """An angle at most one turn out brought into [-pi, pi], rad."""
    angle = angle - TWO_PI if angle > PI else angle
    return angle + TWO_PI if angle < -PI else angle


@inline
def random_bits(seed: int, car: int, episode: int, step: int, purpose: int, item: int) -> Any:
    """64 random bits that depend on the key alone: three rounds of the SplitMix64 finaliser over it."""
    z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(car)
    z = _mixed(z) + (np.uint64(episode) << np.uint64(32)) + np.uint64(step)
    z = _mixed(z) + (np.uint64(purpose) << np.uint64(32)) + np.uint64(item)
    return _mixed(z)


@inline
def _mixed(z: Any) -> Any:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inline
def random_uniform(seed: int, car: int, episode: int, step: int, purpose: int, item: int) -> Real:
    """A number in [0, 1), float64."""
    bits = random_bits(seed, car, episode, step, purpose, item)
    return np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inline
def random_normal(seed: int, car: int, episode: int, step: int, purpose: int, item: int) -> Real:
    """A standard normal number, float64 (Box and Muller's first)."""
    bits = random_bits(seed, car, episode, step, purpose, item)
    radius = (np.float64(bits >> np.uint64(32)) + 0.5) * (1.0 / 4294967296.0)
    angle = np.float64(bits & np.uint64(0xFFFFFFFF)) * (2.0 * math.pi / 4294967296.0)
    return math.sqrt(-2.0 * math.log(radius)) * math.cos(angle)

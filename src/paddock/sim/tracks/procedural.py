"""Seeded tracks, kept when they are drivable: loops of periodic noise, or circuits. One seed, one track, everywhere."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy

from paddock.core.errors import InputError, did_you_mean, unknown_choice
from paddock.sim.tracks.builder import build_track
from paddock.sim.tracks.geometry import loop_curvature
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.procedural_circuit import TIGHTEST_ARC, draw_circuit
from paddock.sim.tracks.track import PROCEDURAL_PREFIX, Array, Track

ATTEMPTS = 200
RELAXATION = 0.98  # of the amplitude after a rejected draw, so that every seed ends in a track
SAMPLES = 360  # points of the trial loop
TIGHTEST = {"loop": 1.4, "circuit": 0.85 * TIGHTEST_ARC}  # smallest radius of a corner, in road widths
TIGHTEST_BUILT = {"loop": 1.2, "circuit": 0.7 * TIGHTEST_ARC}  # likewise, as it is built: a spline swings out a little
GAP = 0.6  # grass between pieces of road that pass each other, in road widths
STRAIGHT = 1.0 / 250.0  # 1/m, what counts as straight when the start line is placed


@dataclass(frozen=True)
class ProceduralSettings:
    """points: bumps and dents around a loop, or the corners of a circuit, chicanes apart. radius, width: m.
    amplitude: of the noise, as a share of the radius. style: `loop` or `circuit`.
    """

    points: int = 14
    radius: float = 190.0
    amplitude: float = 0.8
    width: float = 11.0
    obstacles: int = 0
    style: str = "loop"

    def __post_init__(self) -> None:
        if self.style not in TIGHTEST:
            raise unknown_choice("style of procedural track", self.style, TIGHTEST)
        limits = {
            "points": (4, 60),
            "radius": (3.0 * self.width, 5000.0),
            "amplitude": (0.0, 0.95),
            "width": (0.3, 40.0),
            "obstacles": (0, 1000),
        }
        for name, (lowest, highest) in limits.items():
            if not lowest <= getattr(self, name) <= highest:
                raise InputError(
                    f"a procedural track's {name} must be from {lowest:g} to {highest:g}, got {getattr(self, name)}."
                )


def procedural_track(seed: int, settings: ProceduralSettings | None = None) -> Track:
    """The track of a seed: the first drivable draw of its own random stream, each draw a little tamer."""
    settings = settings or ProceduralSettings()
    if seed < 0:
        raise InputError(f"a seed is a whole number of 0 or more, got {seed}.")
    generator = np.random.Generator(np.random.PCG64(seed))
    amplitude = settings.amplitude
    for _ in range(ATTEMPTS):
        points, half_width = _draw(generator, settings, amplitude)
        if _is_drivable(points, settings):
            track = _build(_name(seed, settings), points, half_width, settings)
            if track is not None:
                return with_obstacles(track, settings.obstacles, seed) if settings.obstacles else track
        amplitude *= RELAXATION
    raise InputError(
        f"no drivable track in {ATTEMPTS} draws of seed {seed} with {settings}. "
        "Use a larger radius, fewer points or a narrower road."
    )


def procedural_from_text(text: str) -> Track:
    """`procedural:SEED`, with options as in `procedural:7:points=20:width=9`."""
    seed, *options = text.removeprefix(PROCEDURAL_PREFIX).split(":")
    if not seed.isdigit():
        raise InputError(f"'{text}' needs a seed, a whole number of 0 or more: '{PROCEDURAL_PREFIX}42'.")
    kinds: dict[str, Any] = {"int": int, "float": float, "str": str}
    known = {field.name: kinds[str(field.type)] for field in fields(ProceduralSettings)}
    values: dict[str, Any] = {}
    for option in options:
        name, _, value = option.partition("=")
        if name not in known:
            raise InputError(
                f"'{text}': unknown option '{name}'.{did_you_mean(name, known)} Allowed: {', '.join(known)}, "
                f"as in '{PROCEDURAL_PREFIX}42:points=20:width=9'."
            )
        try:
            values[name] = known[name](value)
        except ValueError as error:
            raise InputError(f"'{text}': {name} must be {known[name].__name__}, got '{value}'.") from error
    return procedural_track(int(seed), ProceduralSettings(**values))


def _name(seed: int, settings: ProceduralSettings) -> str:
    """The text that makes this very track again."""
    standard = ProceduralSettings()
    changed = [
        f":{field.name}={getattr(settings, field.name)}"
        for field in fields(settings)
        if getattr(settings, field.name) != getattr(standard, field.name)
    ]
    return f"{PROCEDURAL_PREFIX}{seed}{''.join(changed)}"


def _build(name: str, points: Array, half_width: Array, settings: ProceduralSettings) -> Track | None:
    """The track, or nothing when the smooth curve through the points is not drivable after all."""
    try:
        track = build_track(name, points, half_width, half_width)
    except InputError:
        return None
    is_tight = np.abs(track.curvature).max() > 1.0 / (TIGHTEST_BUILT[settings.style] * settings.width)
    return None if is_tight else track


def _draw(generator: np.random.Generator, settings: ProceduralSettings, amplitude: float) -> tuple[Array, Array]:
    """Points [Q, 2] m and half the road's width [Q] m, rounded so that the last bits of a cosine do not matter."""
    if settings.style == "circuit":
        points, half_width = draw_circuit(generator, settings.points, settings.radius, amplitude, settings.width)
    else:
        points, half_width = _draw_loop(generator, settings, amplitude), np.full(SAMPLES, 0.5 * settings.width)
    start = _start_on_straight(points)
    return np.round(np.roll(points, -start, axis=0), 6), np.round(np.roll(half_width, -start), 6)


def _draw_loop(generator: np.random.Generator, settings: ProceduralSettings, amplitude: float) -> Array:
    """[SAMPLES, 2] m, star-shaped around 0, 0."""
    count = settings.points
    noise = 2.0 * generator.random(count) - 1.0
    jitter = generator.random(count) - 0.5
    clockwise = generator.random() < 0.5
    knots = 2.0 * np.pi * (np.arange(count) + 0.7 * jitter) / count
    angle = 2.0 * np.pi * np.arange(SAMPLES) / SAMPLES
    # Each point pulls the loop out or in around its own direction, over about the distance to its neighbours.
    away = np.angle(np.exp(1j * (angle[:, None] - knots)))
    pull = np.exp(-0.5 * (away * count / (2.0 * np.pi) / 0.55) ** 2)
    radius = settings.radius * (1.0 + amplitude * (pull @ noise) / pull.sum(axis=1))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points[::-1] if clockwise else points


def _start_on_straight(points: Array) -> int:
    """The index of the point two thirds down the straightest stretch."""
    is_bent = np.abs(np.round(loop_curvature(points), 6)) > STRAIGHT
    if not is_bent.any() or is_bent.all():
        return 0
    first = int(np.argmax(is_bent))
    run, longest, end = 0, 0, 0
    for index, bent in enumerate(np.roll(is_bent, -first)):
        run = 0 if bent else run + 1
        if run > longest:
            longest, end = run, index
    return first + end - longest // 3


def _is_drivable(points: Array, settings: ProceduralSettings) -> bool:
    """Corners no tighter than the road can follow, and grass between pieces that pass each other."""
    width = settings.width
    if np.abs(loop_curvature(points)).max() > 1.0 / (TIGHTEST[settings.style] * width):
        return False
    steps = np.hypot(*(np.roll(points, -1, axis=0) - points).T)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    reach = (1.0 + GAP) * width
    pairs = scipy.spatial.cKDTree(points).query_pairs(reach, output_type="ndarray")
    apart = np.abs(along[pairs[:, 0]] - along[pairs[:, 1]])
    apart = np.minimum(apart, along[-1] - apart)
    return not bool(np.any(apart > 2.0 * reach))

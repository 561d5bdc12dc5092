"""Seeded loops: periodic noise on a circle, kept when it is drivable. One seed, one track, on every machine."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.spatial import cKDTree

from paddock.core.errors import InputError, did_you_mean
from paddock.sim.track import PROCEDURAL_PREFIX, Array, Track
from paddock.sim.track_builder import build_track

ATTEMPTS = 200
RELAXATION = 0.98  # of the amplitude after a rejected draw, so that every seed ends in a track
SAMPLES = 360  # points of the trial loop
TIGHTEST = 1.4  # smallest radius of a corner, in road widths
TIGHTEST_BUILT = 1.2  # likewise, of the road as it is built, whose spline swings out a little
GAP = 0.6  # grass between pieces of road that pass each other, in road widths
STRAIGHT = 1.0 / 250.0  # 1/m, what counts as straight when the start line is placed


@dataclass(frozen=True)
class ProceduralSettings:
    """points: bumps and dents around the loop. radius, width: m. amplitude: of the noise, as a share of the radius."""

    points: int = 14
    radius: float = 190.0
    amplitude: float = 0.8
    width: float = 11.0
    obstacles: int = 0

    def __post_init__(self) -> None:
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
    """The loop of a seed: the first drivable draw of its own random stream, each draw a little tamer."""
    settings = settings or ProceduralSettings()
    if seed < 0:
        raise InputError(f"a seed is a whole number of 0 or more, got {seed}.")
    generator = np.random.Generator(np.random.PCG64(seed))
    amplitude = settings.amplitude
    for _ in range(ATTEMPTS):
        points = _draw(generator, settings, amplitude)
        if _is_drivable(points, settings.width):
            track = _build(_name(seed, settings), points, settings.width)
            if track is not None:
                return track.with_obstacles(settings.obstacles, seed) if settings.obstacles else track
        amplitude *= RELAXATION
    raise InputError(
        f"no drivable loop in {ATTEMPTS} draws of seed {seed} with {settings}. "
        "Use a larger radius, fewer points or a narrower road."
    )


def procedural_from_text(text: str) -> Track:
    """`procedural:SEED`, with options as in `procedural:7:points=20:width=9`."""
    seed, *options = text.removeprefix(PROCEDURAL_PREFIX).split(":")
    if not seed.isdigit():
        raise InputError(f"'{text}' needs a seed, a whole number of 0 or more: '{PROCEDURAL_PREFIX}42'.")
    kinds = {"int": int, "float": float}
    known = {field.name: kinds[str(field.type)] for field in fields(ProceduralSettings)}
    values: dict[str, float] = {}
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
    return procedural_track(int(seed), ProceduralSettings(**values))  # type: ignore[arg-type]


def _name(seed: int, settings: ProceduralSettings) -> str:
    """The text that makes this very track again."""
    standard = ProceduralSettings()
    changed = [
        f":{field.name}={getattr(settings, field.name)}"
        for field in fields(settings)
        if getattr(settings, field.name) != getattr(standard, field.name)
    ]
    return f"{PROCEDURAL_PREFIX}{seed}{''.join(changed)}"


def _build(name: str, points: Array, width: float) -> Track | None:
    """The track, or nothing when the smooth curve through the points is not drivable after all."""
    try:
        track = build_track(name, points, 0.5 * width, 0.5 * width)
    except InputError:
        return None
    is_tight = np.abs(track.curvature).max() > 1.0 / (TIGHTEST_BUILT * width)
    return None if is_tight else track


def _draw(generator: np.random.Generator, settings: ProceduralSettings, amplitude: float) -> Array:
    """[SAMPLES, 2] m, rounded so that the last bits of a machine's cosine do not matter; star-shaped around 0, 0."""
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
    if clockwise:
        points = points[::-1]
    return np.round(_start_on_straight(points), 6)


def _curvature(points: Array) -> Array:
    """[Q] 1/m, of the circle through each point and its neighbours."""
    into, out = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    across = into + out
    cross = into[:, 0] * out[:, 1] - into[:, 1] * out[:, 0]
    return 2.0 * cross / (np.hypot(*into.T) * np.hypot(*out.T) * np.hypot(*across.T))


def _start_on_straight(points: Array) -> Array:
    """The loop turned so that it begins two thirds down its straightest stretch."""
    is_bent = np.abs(np.round(_curvature(points), 6)) > STRAIGHT
    if not is_bent.any() or is_bent.all():
        return points
    points = np.roll(points, -int(np.argmax(is_bent)), axis=0)
    is_bent = np.roll(is_bent, -int(np.argmax(is_bent)))
    run, longest, end = 0, 0, 0
    for index, bent in enumerate(is_bent):
        run = 0 if bent else run + 1
        if run > longest:
            longest, end = run, index
    return np.roll(points, -(end - longest // 3), axis=0)


def _is_drivable(points: Array, width: float) -> bool:
    """Corners no tighter than the road can follow, and grass between pieces that pass each other."""
    if np.abs(_curvature(points)).max() > 1.0 / (TIGHTEST * width):
        return False
    steps = np.hypot(*(np.roll(points, -1, axis=0) - points).T)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    reach = (1.0 + GAP) * width
    pairs = cKDTree(points).query_pairs(reach, output_type="ndarray")
    apart = np.abs(along[pairs[:, 0]] - along[pairs[:, 1]])
    apart = np.minimum(apart, along[-1] - apart)
    return not bool(np.any(apart > 2.0 * reach))

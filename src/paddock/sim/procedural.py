"""Seeded loops: periodic noise on a circle, kept when it is drivable. One seed, one track, on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paddock.core.errors import InputError
from paddock.sim.track import PROCEDURAL_PREFIX, Array, Track
from paddock.sim.track_builder import build_track

ATTEMPTS = 200
MINIMUM_RADIUS = 14.0  # m, of the tightest corner's centreline
MINIMUM_GAP = 6.0  # m of grass between pieces of road that pass each other
HARMONICS_PER_POINT = 0.5


@dataclass(frozen=True)
class ProceduralSettings:
    """points: how many bends the noise has room for. radius, width: m. amplitude: share of the radius."""

    points: int = 12
    radius: float = 150.0
    amplitude: float = 0.45
    width: float = 11.0
    obstacles: int = 0


def procedural_track(seed: int, settings: ProceduralSettings | None = None) -> Track:
    """The loop of a seed: the first drivable draw of its own random stream."""
    settings = settings or ProceduralSettings()
    return _draw(seed, settings)


def procedural_from_text(text: str) -> Track:
    """`procedural:SEED`."""
    seed = text.removeprefix(PROCEDURAL_PREFIX)
    if not seed.isdigit():
        raise InputError(f"'{text}' needs a seed, a whole number of 0 or more: '{PROCEDURAL_PREFIX}42'.")
    return procedural_track(int(seed))


def _draw(seed: int, settings: ProceduralSettings) -> Track:
    generator = np.random.Generator(np.random.PCG64(seed))
    for _ in range(ATTEMPTS):
        points = _star(generator, settings)
        try:
            return build_track(f"{PROCEDURAL_PREFIX}{seed}", points, 0.5 * settings.width, 0.5 * settings.width)
        except InputError:
            continue
    raise InputError(f"no drivable loop in {ATTEMPTS} draws of seed {seed}: use fewer points or less amplitude.")


def _star(generator: np.random.Generator, settings: ProceduralSettings) -> Array:
    angle = np.linspace(0.0, 2.0 * np.pi, 16 * settings.points, endpoint=False)
    radius = np.ones_like(angle)
    for harmonic in range(1, settings.points // 2 + 1):
        size, phase = generator.random(), generator.random() * 2.0 * np.pi
        radius += settings.amplitude * size / np.sqrt(settings.points) * np.cos(harmonic * angle + phase)
    return np.round(settings.radius * radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), 6)

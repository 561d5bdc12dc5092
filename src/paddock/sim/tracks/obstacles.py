"""Seeded round obstacles on a road, each of them beside a passage that stays free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paddock.core.errors import InputError
from paddock.sim.tracks.track import Array, Track

# All as shares of the road's width at the obstacle, so that a scaled track gets scaled obstacles.
SMALLEST_RADIUS, LARGEST_RADIUS = 0.04, 0.08
PASSAGE = 0.5  # free road on one side of every obstacle
ROOM_BETWEEN = 4.0  # along the lap, from one obstacle to the next and to the start line
TRIES = 50


def place_obstacles(track: Track, count: int, seed: int) -> Array:
    """[count, 3] as (x, y, radius), one in each of `count` equal stretches of the lap."""
    width = track.left_width + track.right_width
    room = ROOM_BETWEEN * float(width.max())
    allowed = int(track.length // room) - 1
    if not 0 <= count <= allowed:
        raise InputError(f"track '{track.name}' has room for 0 to {allowed} obstacles, got {count}.")
    generator = np.random.Generator(np.random.PCG64(seed))
    stretch = (track.length - room) / max(count, 1)
    placed = [_place(track, generator, room, room + k * stretch, stretch - room) for k in range(count)]
    return np.round(np.array(placed).reshape(-1, 3), 6)


def _place(
    track: Track, generator: np.random.Generator, room: float, begin: float, slack: float
) -> tuple[float, float, float]:
    for _ in range(TRIES):
        index = int((begin + slack * generator.random()) / track.spacing) % len(track)
        width = track.left_width[index] + track.right_width[index]
        radius = width * (SMALLEST_RADIUS + (LARGEST_RADIUS - SMALLEST_RADIUS) * generator.random())
        # Measured from the edge the obstacle stands at: the rest of the road, less its own size, is the passage.
        from_edge = radius + (width * (1.0 - PASSAGE) - 2.0 * radius) * generator.random()
        is_left = generator.random() < 0.5
        lateral = track.left_width[index] - from_edge if is_left else from_edge - track.right_width[index]
        x = track.x[index] + lateral * track.normal[index, 0]
        y = track.y[index] + lateral * track.normal[index, 1]
        if not _stands_on_another_piece(track, index, x, y, radius, room):
            return x, y, radius
    raise InputError(f"track '{track.name}' has no free place for an obstacle {begin:.0f} m along the lap; use fewer.")


def _stands_on_another_piece(track: Track, index: int, x: float, y: float, radius: float, room: float) -> bool:
    """Whether the obstacle also reaches a piece of road far along the lap, as under a bridge."""
    apart = np.abs(np.arange(len(track)) - index)
    apart = np.minimum(apart, len(track) - apart) * track.spacing
    reach = np.maximum(track.left_width, track.right_width) + radius
    return bool(np.any((np.hypot(track.x - x, track.y - y) < reach) & (apart > 0.5 * room)))


def with_obstacles(track: Track, count: int, seed: int) -> Track:
    """The same road with `count` seeded obstacles in place of those it has; a passage always stays free."""
    return replace(track, obstacles=place_obstacles(track, count, seed))

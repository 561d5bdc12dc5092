"""Seeded circuits as they are built for racing: long straights, tight corners, chicanes, a road of changing width.

A polygon around the middle, some of its sides with a chicane in them, every corner rounded by an arc of its own radius.
"""

from __future__ import annotations

import numpy as np

from paddock.sim.tracks.geometry import polygon_corners
from paddock.sim.tracks.track import Array

FEWEST_CORNERS = 0.6  # of the given number; fewer corners, longer straights
SPACING = 0.4  # between the points of the drawn line, in road widths
TIGHTEST_ARC = 0.9  # smallest radius of a corner, in road widths
WIDEST_ARC = 14.0  # largest, likewise; radii between them are equally likely by ratio
SIDE_SHARE = 0.48  # of a side may be taken by the arc at one of its ends
CHICANE_SIDE = 14.0  # a side this long, in road widths, may have a chicane
CHICANES = 0.45  # of those sides have one
WIDTH_SPAN = (0.8, 1.3)  # of the given width, along the lap


def draw_circuit(
    generator: np.random.Generator, corners: int, radius: float, amplitude: float, width: float
) -> tuple[Array, Array]:
    """[Q, 2] m, the points of a closed line, and [Q] m, half the width of the road at each.

    corners: at most, chicanes apart.
    """
    count = int(generator.integers(max(int(FEWEST_CORNERS * corners), 4), corners + 1))
    vertices = _with_chicanes(generator, _polygon(generator, count, radius, amplitude), width)
    points = _rounded(generator, vertices, width)
    return points, 0.5 * width * _width_profile(generator, len(points))


def _polygon(generator: np.random.Generator, corners: int, radius: float, amplitude: float) -> Array:
    """[corners, 2] m, star-shaped around 0, 0."""
    jitter = generator.random(corners) - 0.5
    angle = 2.0 * np.pi * (np.arange(corners) + 0.8 * jitter) / corners
    reach = radius * (1.0 + amplitude * (2.0 * generator.random(corners) - 1.0))
    if generator.random() < 0.5:
        angle = -angle
    return np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1)


def _with_chicanes(generator: np.random.Generator, vertices: Array, width: float) -> Array:
    """The polygon with two more vertices, a step to one side, in some of its longer sides."""
    found = []
    for start, end in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        found.append(start)
        side = end - start
        length = float(np.hypot(*side))
        is_chosen, place, step, along, sign = generator.random(5)
        if length < CHICANE_SIDE * width or is_chosen > CHICANES:
            continue
        forward = side / length
        left = np.array([-forward[1], forward[0]])
        first = start + (0.35 + 0.3 * place) * side
        sideways = (0.8 + 1.4 * step) * width * (1.0 if sign < 0.5 else -1.0)
        found += [first, first + (1.5 + 2.5 * along) * width * forward + sideways * left]
    return np.array(found)


def _rounded(generator: np.random.Generator, vertices: Array, width: float) -> Array:
    """[Q, 2] m, points along the polygon, its corners replaced by arcs that fit into their sides."""
    into, out, lengths, turn = polygon_corners(vertices)
    room = SIDE_SHARE * np.minimum(lengths, np.roll(lengths, -1))
    slope = np.tan(0.5 * np.abs(turn))
    drawn = width * TIGHTEST_ARC * (WIDEST_ARC / TIGHTEST_ARC) ** generator.random(len(vertices))
    arc = np.minimum(drawn, room / np.maximum(slope, 1e-6))
    tangent = arc * slope
    pieces = []
    for i, vertex in enumerate(vertices):
        begin, end = vertex - tangent[i] * into[i], vertex + tangent[i] * out[i]
        swept = np.linspace(0.0, turn[i], max(int(arc[i] * abs(turn[i]) / (SPACING * width)), 1) + 1)
        left = np.array([-into[i][1], into[i][0]]) * np.sign(turn[i])
        centre = begin + arc[i] * left
        cosine, sine = np.cos(swept)[:, None], np.sin(swept)[:, None]
        pieces.append(centre - arc[i] * (cosine * left + sine * np.array([-left[1], left[0]])))
        following = vertices[(i + 1) % len(vertices)] - tangent[(i + 1) % len(vertices)] * out[i]
        count = int(np.hypot(*(following - end)) / (SPACING * width))
        if count > 1:
            pieces.append(end + (following - end) * (np.arange(1, count) / count)[:, None])
    return np.concatenate(pieces)


def _width_profile(generator: np.random.Generator, count: int) -> Array:
    """[count] a slow wave between the bounds of WIDTH_SPAN."""
    lap = 2.0 * np.pi * np.arange(count) / count
    waves = sum(
        weight * np.sin(number * lap + 2.0 * np.pi * phase)
        for number, weight, phase in zip(range(1, 6), generator.random(5), generator.random(5), strict=True)
    )
    low, high = WIDTH_SPAN
    waves = np.asarray(waves)
    return low + (high - low) * (waves - waves.min()) / (waves.max() - waves.min())

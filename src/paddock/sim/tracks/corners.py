"""Where a road bends: its corners, counted the way a driver counts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from paddock.sim.tracks.track import Track

# Lengths in road widths, so that a scaled track has the same corners.
GENTLEST = 11.0  # radius above which the road counts as straight
EASE = 0.5  # the curvature is averaged over this before it is judged
LEAST_TURN = np.radians(20.0)  # a smaller change of heading is a kink, not a corner


@dataclass(frozen=True)
class Corner:
    """A bend in one direction. first, apex, last: track points; `last` can be past the start line (more than M).

    turn: rad, left positive. radius: m, at the apex, of the centreline.
    """

    first: int
    apex: int
    last: int
    turn: float
    radius: float


def find_corners(track: Track) -> list[Corner]:
    """The corners of a lap, in driving order from the start line."""
    width = track.mean_width
    curvature = scipy.ndimage.gaussian_filter1d(track.curvature, max(EASE * width / track.spacing, 0.5), mode="wrap")
    side = np.where(np.abs(curvature) * GENTLEST * width > 1.0, np.sign(curvature), 0.0)
    count = len(track)
    changes = np.flatnonzero(side != np.roll(side, 1))
    if not changes.size:
        return [_corner(track, curvature, 0, count - 1)] if side[0] else []
    corners = []
    for first, following in zip(changes, np.append(changes[1:], changes[0] + count), strict=True):
        if side[first]:
            corner = _corner(track, curvature, int(first), int(following) - 1)
            if abs(corner.turn) >= LEAST_TURN:
                corners.append(corner)
    return sorted(corners, key=lambda corner: corner.apex)


def _corner(track: Track, curvature: np.ndarray, first: int, last: int) -> Corner:
    points = np.arange(first, last + 1) % len(track)
    apex = int(points[np.argmax(np.abs(curvature[points]))])
    turn = float(np.sum(track.curvature[points]) * track.spacing)
    return Corner(first, apex, last, turn, float(1.0 / abs(curvature[apex])))

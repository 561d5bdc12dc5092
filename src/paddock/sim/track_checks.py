"""What makes a road drivable. Each check raises an `InputError` that names the point at fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from paddock.core.errors import InputError
from paddock.sim.track import Array, Track

Label = Callable[[int], str]

CLEARANCE = 0.25  # of the car's width, kept free on each side of it
OVERLAP_TOLERANCE = 0.02  # of the half width: edges may graze by this much
BRIDGE_ANGLE = np.radians(30.0)  # two pieces of road may cross at no less than this


def check_points(name: str, points: Array, widths: Array, label: Label) -> None:
    """points: [P, 2], widths: [P, 2] as (left, right): finite, wide enough to exist, and never standing still."""
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"track '{name}': points must be [P, 2] as (x, y), got an array of shape {points.shape}.")
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1) | ~np.isfinite(widths).all(axis=1))
    if bad.size:
        raise InputError(
            f"track '{name}', {label(int(bad[0]))}: every number must be finite, got x, y = "
            f"{points[bad[0]].tolist()} and widths {widths[bad[0]].tolist()}."
        )
    narrow = np.flatnonzero((widths <= 0.0).any(axis=1))
    if narrow.size:
        raise InputError(
            f"track '{name}', {label(int(narrow[0]))}: both widths must be more than 0 m, got left "
            f"{widths[narrow[0], 0]:g} and right {widths[narrow[0], 1]:g}."
        )
    steps = np.hypot(*np.diff(points, axis=0).T)
    repeated = np.flatnonzero(steps < 1e-6)
    if repeated.size:
        raise InputError(
            f"track '{name}', {label(int(repeated[0]) + 1)}: repeats the point before it; leave one of them out."
        )


def check_closed(name: str, points: Array, label: Label) -> None:
    """points: [P, 2] of a densely sampled loop. One step far longer than all others is a gap in the road."""
    steps = np.hypot(*(np.roll(points, -1, axis=0) - points).T)
    largest = int(np.argmax(steps))
    ordered = np.sort(steps)
    if steps[largest] <= max(4.0 * float(np.median(steps)), 1.5 * ordered[-2]):
        return
    following = (largest + 1) % len(points)
    if following == 0:
        raise InputError(
            f"track '{name}' is not a closed loop: its last point ({label(largest)}) is {steps[largest]:.1f} m from "
            f"its first ({label(0)}), though neighbours are {np.median(steps):.1f} m apart. Add the missing part."
        )
    raise InputError(
        f"track '{name}' has a gap of {steps[largest]:.1f} m between {label(largest)} and {label(following)}, though "
        f"neighbours are {np.median(steps):.1f} m apart. Add the missing points."
    )


def check_geometry(track: Track, label: Label) -> None:
    """No folded edges and no road that touches itself, bridges apart. `label(i)` names the track's i-th point."""
    check_folds(track, label)
    check_overlaps(track, label)


def check_folds(track: Track, label: Label) -> None:
    """The inside of a corner must be wider than a point: radius > width on that side."""
    inside = np.where(track.curvature > 0.0, track.left_width, track.right_width)
    fold = np.abs(track.curvature) * inside
    worst = int(np.argmax(fold))
    if fold[worst] >= 1.0:
        raise InputError(
            f"track '{track.name}', {label(worst)}: the corner's radius of {1.0 / abs(track.curvature[worst]):.1f} m "
            f"is not more than the {inside[worst]:.1f} m of road on its inside, so the edge folds over itself. "
            "Widen the corner or narrow the road there."
        )


def check_overlaps(track: Track, label: Label) -> None:
    """Pieces of road that are far apart along the lap must not share ground, unless one bridges the other."""
    first, second = _overlapping_pairs(track)
    if not first.size:
        return
    angle = np.abs(np.sin(track.heading[first] - track.heading[second]))
    if not track.bridge:
        raise InputError(
            f"track '{track.name}' touches itself: the road at {label(int(first[0]))} and at {label(int(second[0]))} "
            "share ground. Move them apart or narrow the road; if one passes over the other, mark the track as a "
            "bridge (a comment line '# bridge' in the CSV, or `paddock tracks import --bridge`)."
        )
    shallow = np.flatnonzero(angle < np.sin(BRIDGE_ANGLE))
    if shallow.size:
        worst = shallow[np.argmin(angle[shallow])]
        raise InputError(
            f"track '{track.name}' touches itself: at {label(int(first[worst]))} and {label(int(second[worst]))} the "
            f"roads meet at {np.degrees(np.arcsin(angle[worst])):.0f} degrees; a bridge must cross at "
            f"{np.degrees(BRIDGE_ANGLE):.0f} degrees or more."
        )


def _overlapping_pairs(track: Track) -> tuple[np.ndarray, np.ndarray]:
    """Indices (i, j): an edge point or centre point of section j lies on the road of section i, far along the lap."""
    half_width = np.maximum(track.left_width, track.right_width)
    centre = np.stack([track.x, track.y], axis=1)
    pairs = cKDTree(centre).query_pairs(2.0 * float(half_width.max()) + track.spacing, output_type="ndarray")
    count = len(track)
    apart = np.abs(pairs[:, 0] - pairs[:, 1])
    apart = np.minimum(apart, count - apart) * track.spacing
    pairs = pairs[apart > 1.5 * (half_width[pairs[:, 0]] + half_width[pairs[:, 1]])]
    pairs = np.vstack([pairs, pairs[:, ::-1]])
    if not len(pairs):
        return pairs[:, 0], pairs[:, 1]

    here, there = pairs[:, 0], pairs[:, 1]
    touching = np.zeros(len(pairs), dtype=bool)
    tolerance = OVERLAP_TOLERANCE * half_width[here]
    tangent = np.stack([np.cos(track.heading), np.sin(track.heading)], axis=1)
    for points in (centre, track.left_edge, track.right_edge):
        delta = points[there] - centre[here]
        along = np.abs(np.sum(delta * tangent[here], axis=1))
        lateral = np.sum(delta * track.normal[here], axis=1)
        inside = (lateral < track.left_width[here] - tolerance) & (lateral > tolerance - track.right_width[here])
        touching |= inside & (along < 0.75 * track.spacing)
    return here[touching], there[touching]


def check_fits(track: Track, car_name: str, car_width: float) -> None:
    """The road must leave the car a little room on both sides everywhere. car_width: m."""
    width = track.left_width + track.right_width
    needed = car_width * (1.0 + 2.0 * CLEARANCE)
    narrowest = int(np.argmin(width))
    if width[narrowest] < needed:
        raise InputError(
            f"track '{track.name}' is too narrow for the car '{car_name}': {width[narrowest]:.2f} m wide at "
            f"{track.s[narrowest]:.0f} m along the lap, and the car ({car_width:.2f} m wide) needs {needed:.2f} m. "
            "Use a smaller car or a wider road."
        )

"""What makes a road drivable. Each check raises an `InputError` that names the point at fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from paddock.core.errors import InputError
from paddock.sim.tracks.track import Array, Track

Label = Callable[[int], str]

CLEARANCE = 0.25  # of the car's width, kept free on each side of it
OVERLAP_TOLERANCE = 0.02  # of the half width: edges may graze by this much
BRIDGE_ANGLE = np.radians(30.0)  # two pieces of road may cross at no less than this

# Limits that keep a wrong unit or a hostile file from taking the machine's memory.
LONGEST_LAP = 100_000.0  # m
MOST_POINTS = 200_000  # of a track, after sampling
FARTHEST = 100_000.0  # m from the origin: single precision, which the simulator uses, is 8 mm there
WIDEST = 200.0  # m from the centreline to an edge
MOST_OBSTACLES = 1000
MOST_PAIRS = 6_000_000  # places near each other that are looked at for overlaps; some hundreds of megabytes


class RepairableError(InputError):
    """A road that a survey cannot mean; `paddock tracks import` may be able to repair it."""


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
    far = np.flatnonzero((np.abs(points) > FARTHEST).any(axis=1))
    if far.size:
        raise InputError(
            f"track '{name}', {label(int(far[0]))}: x, y = {points[far[0]].tolist()} lies more than "
            f"{FARTHEST / 1000.0:g} km from the origin. Coordinates are metres; subtract the same x and y from every "
            "point, so that the road lies near (0, 0)."
        )
    wide = np.flatnonzero((widths > WIDEST).any(axis=1))
    if wide.size:
        raise InputError(
            f"track '{name}', {label(int(wide[0]))}: widths of {widths[wide[0]].tolist()} m; at most {WIDEST:g} m lie "
            "between the centreline and an edge. Widths are metres."
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
        raise RepairableError(
            f"track '{name}', {label(int(repeated[0]) + 1)}: repeats the point before it; leave one of them out."
        )


def check_size(name: str, length: float, spacing: float) -> None:
    """A lap of `length` m with a point every `spacing` m must fit into memory."""
    if length > LONGEST_LAP:
        raise InputError(
            f"track '{name}' has a lap of {length / 1000.0:,.0f} km; a lap has at most {LONGEST_LAP / 1000.0:g} km. "
            "Coordinates are metres."
        )
    if length / spacing > MOST_POINTS:
        raise InputError(
            f"track '{name}' would have {length / spacing:,.0f} points, one every {spacing:g} m; at most "
            f"{MOST_POINTS:,} are kept. Use a larger spacing."
        )


def check_obstacles(name: str, obstacles: Array) -> None:
    """obstacles: [K, 3] as (x, y, radius): finite, of some size, and not without number."""
    if len(obstacles) > MOST_OBSTACLES:
        raise InputError(f"track '{name}' has {len(obstacles):,} obstacles; at most {MOST_OBSTACLES:,} are allowed.")
    for x, y, radius in obstacles.tolist():
        if not (abs(x) <= 2.0 * FARTHEST and abs(y) <= 2.0 * FARTHEST and 0.0 < radius <= WIDEST):
            raise InputError(
                f"track '{name}': an obstacle at x, y = {x:g}, {y:g} with a radius of {radius:g} m. Coordinates are "
                f"metres, and the radius is more than 0 and at most {WIDEST:g} m."
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
        raise RepairableError(
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
        raise RepairableError(
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
    pairs = _far_along_the_lap(track, 2.0 * float(half_width.max()) + track.spacing)
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


def _far_along_the_lap(track: Track, reach: float) -> np.ndarray:
    """[K, 2] indices of centre points within `reach` m of each other that belong to different pieces of road."""
    tree = scipy.spatial.cKDTree(np.stack([track.x, track.y], axis=1))
    if tree.count_neighbors(tree, reach) > 2 * MOST_PAIRS:
        raise InputError(
            f"track '{track.name}' is wound so closely, for a road up to {reach / 2.0:.0f} m to a side, that whole "
            "stretches of it share ground. Coordinates and widths are metres, from the centreline to each edge."
        )
    pairs = tree.query_pairs(reach, output_type="ndarray")
    half_width = np.maximum(track.left_width, track.right_width)
    apart = np.abs(pairs[:, 0] - pairs[:, 1])
    apart = np.minimum(apart, len(track) - apart) * track.spacing
    return pairs[apart > 1.5 * (half_width[pairs[:, 0]] + half_width[pairs[:, 1]])]


def find_crossings(track: Track) -> np.ndarray:
    """[K, 2] indices (i, j), i < j: the centreline from point i to the next crosses that from point j to the next."""
    pairs = np.sort(_far_along_the_lap(track, 2.0 * track.spacing), axis=1)
    here, there = pairs[:, 0], pairs[:, 1]
    centre = np.stack([track.x, track.y], axis=1)
    following = np.roll(centre, -1, axis=0)

    def side(first: np.ndarray, points: Array) -> Array:
        along, across = following[first] - centre[first], points - centre[first]
        return along[:, 0] * across[:, 1] - along[:, 1] * across[:, 0]

    crosses = side(here, centre[there]) * side(here, following[there]) <= 0.0
    crosses &= side(there, centre[here]) * side(there, following[here]) <= 0.0
    return pairs[crosses]


def is_bridge(track: Track) -> bool:
    """Whether the road crosses itself and shares ground with itself nowhere but at crossings."""
    crossings = find_crossings(track)
    if not len(crossings):
        return False
    pairs = np.stack(_overlapping_pairs(track), axis=1)
    # Roads that cross at 10 degrees share ground for 12 half widths either way; which angle is too flat for a bridge
    # is for `check_overlaps` to say.
    reach = 12.0 * max(float(track.left_width.max()), float(track.right_width.max())) + track.spacing
    around = scipy.spatial.cKDTree(np.vstack([crossings, crossings[:, ::-1]]), boxsize=np.full(2, float(len(track))))
    away = np.asarray(around.query(pairs, p=np.inf)[0]) * track.spacing
    return bool(np.all(away <= reach))


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

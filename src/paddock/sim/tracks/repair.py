"""Repairs of what a survey cannot mean: points given twice, a lap that runs past its own start, inside edges that fold
over themselves, a bridge that is not marked as one. Centreline points are left out or kept, never moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from paddock.core.errors import InputError
from paddock.sim.tracks.builder import DEFAULT_SPACING, curvature_at_points, sample_uniformly
from paddock.sim.tracks.checks import BRIDGE_ANGLE, FARTHEST, check_points, find_crossings, is_bridge
from paddock.sim.tracks.csv import BRIDGE_MARK, COLUMNS, Survey
from paddock.sim.tracks.track import Array

FOLD_LIMIT = 0.999  # of a corner's radius: the road that is left on the inside of a repaired corner
FINER = 10  # the road is looked at this many times as finely as it is driven
LEAST_LEFT = 0.1  # of a width: a corner that needs more narrowing than that is no survey's inaccuracy
MOST_POINTS, MOST_SAMPLES = 200, 20_000  # of one folded corner; likewise
WRITTEN = 1e-4  # m, to which narrowed widths are written
REPEATED = 0.01  # of the usual step between points: two points nearer than that are one
NEAREST = 0.05  # m, likewise
LONGEST_OVERLAP = 0.2  # of the points: the most that may run past the start
BESIDE = 0.25  # of the road's width: as far beside the first metres may the last ones lie


@dataclass(frozen=True)
class Narrowing:
    """The inside of one corner, narrowed. lines: first and last of the file; metres: along the lap, at the tightest."""

    side: str
    lines: tuple[int, int]
    metres: float
    radius: float
    width: float
    narrowed: float

    def __str__(self) -> str:
        first, last = self.lines
        where = f"line {first}" if first == last else f"lines {first} to {last}"
        return (
            f"narrowed the {self.side} of the road at {self.metres:,.0f} m along the lap ({where}) by up to "
            f"{self.narrowed:.2f} m: the corner's radius is {self.radius:.2f} m and {self.width:.2f} m of road lay on "
            "its inside, so the edge folded over itself."
        )


def repair_survey(survey: Survey, name: str) -> tuple[Survey, list[str]]:
    """The survey with what it cannot mean put right, and a sentence for each change; what else is wrong stays."""
    changes: list[str] = []
    if not np.isfinite(survey.points).all() or np.abs(survey.points).max() > FARTHEST:
        return survey, changes
    survey = _drop_repeated(survey, changes)
    survey = _drop_overlap(survey, changes)
    try:
        check_points(name, survey.points, _widths(survey), survey.label)
        survey = _narrow_folds(survey, name, changes)
        survey = _mark_bridge(survey, name, changes)
    except InputError:
        return survey, changes  # the checks of the track itself name it
    return survey, changes


def _widths(survey: Survey) -> Array:
    return np.stack([survey.left_width, survey.right_width], axis=1)


def _leave_out(survey: Survey, points: list[int]) -> Survey:
    lines = [survey.lines[index] for index in points]
    return survey.edited({line: f"# left out: {survey.text[line - 1].strip()}" for line in lines})


def _drop_repeated(survey: Survey, changes: list[str]) -> Survey:
    """Without the points that stand where the one before them stands."""
    steps = np.hypot(*np.diff(survey.points, axis=0).T)
    nearest = min(REPEATED * float(np.median(steps)), NEAREST)
    repeated, last = [], 0
    for index in range(1, len(survey.points)):
        if math.dist(survey.points[index], survey.points[last]) <= nearest:
            repeated.append(index)
        else:
            last = index
    if not repeated:
        return survey
    lines = ", ".join(str(survey.lines[index]) for index in repeated[:10]) + (", ..." if len(repeated) > 10 else "")
    changes.append(f"left out {len(repeated)} of the points, which repeat the one before them (line {lines}).")
    return _leave_out(survey, repeated)


def _drop_overlap(survey: Survey, changes: list[str]) -> Survey:
    """Without the last points, where a survey went on past the point at which it had begun."""
    points, count = survey.points, len(survey.points)
    most = int(LONGEST_OVERLAP * count)
    if most < 2:
        return survey
    starts, steps = points[:most], np.diff(points[: most + 1], axis=0)
    room = BESIDE * (survey.left_width + survey.right_width)
    last = count - 1
    while last >= count - most and _lies_past_start(points[last], points[last] - points[last - 1], starts, steps, room):
        last -= 1
    if last == count - 1 or last < count - most:
        return survey
    lines = survey.lines[last + 1], survey.lines[-1]
    changes.append(
        f"left out the last {count - 1 - last} points (lines {lines[0]} to {lines[1]}): they lie on the first "
        "metres of the lap, which the survey drove twice."
    )
    return _leave_out(survey, list(range(last + 1, count)))


def _lies_past_start(point: Array, direction: Array, starts: Array, steps: Array, room: Array) -> bool:
    """Whether a point lies on one of the first pieces of the centreline, ahead of the start line and driven alike."""
    squared = np.sum(steps**2, axis=1)
    share = np.clip(np.sum((point - starts) * steps, axis=1) / squared, 0.0, 1.0)
    away = np.hypot(*(point - starts - share[:, None] * steps).T)
    nearest = int(np.argmin(away))
    is_ahead = nearest > 0 or share[0] > 0.0
    return bool(is_ahead and away[nearest] < room[nearest] and np.dot(direction, steps[nearest]) > 0.0)


def _narrow_folds(survey: Survey, name: str, changes: list[str]) -> Survey:
    widths = _widths(survey)
    narrowed, narrowings = narrow_folds(survey, name)
    edits = {}
    for index in np.flatnonzero((narrowed < widths).any(axis=1)).tolist():
        cells = survey.text[survey.lines[index] - 1].strip()
        separator = ";" if ";" in cells else ","
        values = cells.split(separator)
        for side, column in ((0, COLUMNS.index("w_tr_left_m")), (1, COLUMNS.index("w_tr_right_m"))):
            if narrowed[index, side] < widths[index, side]:
                values[column] = f"{narrowed[index, side]:.4f}"
        edits[survey.lines[index]] = separator.join(values)
    changes.extend(str(narrowing) for narrowing in narrowings)
    return survey.edited(edits) if edits else survey


def narrow_folds(survey: Survey, name: str = "") -> tuple[Array, list[Narrowing]]:
    """Widths [P, 2] as (left, right) at which no inside edge folds over itself, and what was done for that.

    The least amount: among all widths that nowhere, between the points either, leave more than `FOLD_LIMIT` radii of
    road on the inside of a corner, those with the least sum of squared changes. Corners that do not fold stay as given.
    """
    given, road = _widths(survey), _look_closely(survey, name)
    narrowed, found = given.copy(), []
    for side in (0, 1):
        bend = np.maximum(road.curvature if side == 0 else -road.curvature, 1e-12)
        excess = road.widths[:, side] - FOLD_LIMIT / bend
        for corner in _corners(np.flatnonzero(excess > 0.0), road.place, len(given)):
            worst = corner[int(np.argmax(road.widths[corner, side] * bend[corner]))]
            if road.widths[worst, side] * bend[worst] < 1.0:
                continue
            before = np.floor(road.place[corner]).astype(int)
            if len(np.unique(before)) > MOST_POINTS or len(corner) > MOST_SAMPLES:
                continue
            points, change = _least_change(before, road.place[corner] - before, excess[corner], len(given))
            left = np.floor((given[points, side] - change) / WRITTEN) * WRITTEN
            if (left < LEAST_LEFT * given[points, side]).any():
                continue
            narrowed[points, side] = left
            lines = [survey.lines[index] for index in points]
            found.append(
                Narrowing(
                    side=("left", "right")[side],
                    lines=(min(lines), max(lines)),
                    metres=float(road.metres[worst]),
                    radius=float(1.0 / bend[worst]),
                    width=float(road.widths[worst, side]),
                    narrowed=float(change.max()),
                )
            )
    return narrowed, sorted(found, key=lambda narrowing: narrowing.metres)


@dataclass(frozen=True)
class _Closely:
    """The road at K places in the order of the lap. place: [K] among the survey's points; metres: [K] along the lap;
    curvature: [K] 1/m; widths: [K, 2] m as (left, right)."""

    place: Array
    metres: Array
    curvature: Array
    widths: Array


def _look_closely(survey: Survey, name: str) -> _Closely:
    """At every place that is driven, several between them, and the points, where a spline bends most."""
    given = _widths(survey)
    driven, _ = sample_uniformly(name, survey.points, given, DEFAULT_SPACING, bridge=True)
    road, place = sample_uniformly(name, survey.points, given, driven.spacing / FINER, bridge=True)
    points = np.arange(len(given), dtype=np.float64)
    curvature = np.concatenate([road.curvature, curvature_at_points(survey.points)])
    widths = np.vstack([np.stack([road.left_width, road.right_width], axis=1), given])
    order = np.argsort(np.concatenate([place, points]), kind="stable")
    everywhere = np.concatenate([place, points])[order]
    return _Closely(everywhere, np.interp(everywhere, place, road.s), curvature[order], widths[order])


def _corners(folded: np.ndarray, place: Array, count: int) -> list[np.ndarray]:
    """The folded samples in groups whose pieces of centreline touch no point of another group; the lap is a ring."""
    if not folded.size:
        return []
    piece = np.floor(place[folded]).astype(int)
    groups = np.split(folded, np.flatnonzero(np.diff(piece) > 1) + 1)
    if len(groups) > 1 and piece[0] + count - piece[-1] <= 1:
        groups[0] = np.concatenate([groups.pop(), groups[0]])
    return groups


def _least_change(before: np.ndarray, share: Array, excess: Array, count: int) -> tuple[np.ndarray, Array]:
    """The points whose widths change, and how much is taken from each, in m.

    The least squares of d with (1 - share) d[before] + share d[before + 1] >= excess at every sample: Lawson
    and Hanson's problem of least distance, solved through non-negative least squares.
    """
    points, columns = np.unique(np.concatenate([before, (before + 1) % count]), return_inverse=True)
    samples = np.arange(len(before))
    weights = np.zeros((len(before), len(points)))
    weights[samples, columns[: len(before)]] = 1.0 - share
    weights[samples, columns[len(before) :]] = share
    system = np.vstack([weights.T, excess])
    target = np.zeros(len(points) + 1)
    target[-1] = 1.0
    solution, _ = scipy.optimize.nnls(system, target)
    remainder = system @ solution - target
    change = -remainder[:-1] / remainder[-1]
    return points[change > 1e-9], change[change > 1e-9]


def _mark_bridge(survey: Survey, name: str, changes: list[str]) -> Survey:
    """Marked as a bridge where the road crosses itself at an angle and touches itself nowhere else."""
    if survey.bridge:
        return survey
    track, place = sample_uniformly(name, survey.points, _widths(survey), DEFAULT_SPACING, bridge=False)
    if not is_bridge(track):
        return survey
    seen: list[tuple[float, float]] = []
    for here, there in find_crossings(track).tolist():
        angle = math.asin(abs(math.sin(track.heading[here] - track.heading[there])))
        metres = float(track.s[here]), float(track.s[there])
        if angle < BRIDGE_ANGLE or any(math.dist(metres, other) < 4.0 * track.spacing for other in seen):
            continue
        seen.append(metres)
        lines = [survey.lines[int(place[index])] for index in (here, there)]
        changes.append(
            f"took the crossing at {metres[0]:,.0f} m and {metres[1]:,.0f} m along the lap (lines {lines[0]} and "
            f"{lines[1]}, {math.degrees(angle):.0f} degrees) for a bridge."
        )
    return survey.edited({}, f"# {BRIDGE_MARK}")

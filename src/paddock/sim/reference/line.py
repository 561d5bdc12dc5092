"""A smooth line through a road: least squared curvature, mixed with a share of shortest path, by a sparse QP."""

from __future__ import annotations

import clarabel
import numpy as np
import scipy  # Its packages load when first used: most runs find their line in the cache.

from paddock.sim.tracks.track import Array, Track

GRID = 3.0  # track points to a grid point of the programme
LINEARISATIONS = 4  # from the centreline; half as many from a neighbouring line
TRUST = 0.5  # share of the road's width that one linearisation may move the line
SETTLED = 2e-3  # share of the road's width: a smaller move ends the iteration


def racing_line(track: Track, margin: float, shortness: float = 0.0, start: Array | None = None) -> Array:
    """[M] lateral offsets, m, left positive, at least `margin` m inside both edges.

    Minimises the sum of curvature^2 ds + shortness * (2 pi / length)^2 ds over the line's own arc length, the curvature
    being that of the circle through three neighbours, linearised around the line of the iteration before.
    """
    count = max(int(len(track) / GRID), 8)
    s = np.arange(count, dtype=np.float64) * (track.length / count)

    def on_grid(values: Array) -> Array:
        return around(track.s, values, track.length)(s)

    centre = on_grid(np.stack([track.x, track.y], axis=1))
    normal = on_grid(track.normal)
    normal /= np.hypot(normal[:, 0], normal[:, 1])[:, None]
    # The narrowest of three neighbours, so that the line does not bulge over the margin between grid points.
    left_room, right_room = (
        scipy.ndimage.minimum_filter1d(w, 5, mode="wrap") for w in (track.left_width, track.right_width)
    )
    left, right = np.interp(s, track.s, left_room), np.interp(s, track.s, right_room)
    middle = 0.5 * (left - right)  # of a road too narrow for the margin
    upper, lower = np.maximum(left - margin, middle), np.minimum(margin - right, middle)
    offset = np.clip(np.zeros(count) if start is None else on_grid(start), lower, upper)
    width = float(np.mean(upper - lower)) + margin
    length_weight = shortness * (2.0 * np.pi / track.length) ** 2
    for _ in range(LINEARISATIONS if start is None else LINEARISATIONS // 2):
        residuals, jacobian = _residuals(centre, normal, offset, length_weight)
        reach = TRUST * width
        step = _solve(
            jacobian,
            residuals,
            np.maximum(lower - offset, -reach),
            np.minimum(upper - offset, reach),
        )
        offset = np.clip(offset + step, lower, upper)
        if np.abs(step).max() < SETTLED * width:
            break
    return beside_track(track, centre + normal * offset[:, None])


def beside_track(track: Track, points: Array) -> Array:
    """[M] m: where the smooth curve through `points` [G, 2], evenly placed along the lap, passes each track point.

    The curve is smooth even where the centreline is not, so its offsets follow every kink of the centreline.
    """
    s = np.arange(len(points), dtype=np.float64) * (track.length / len(points))
    curve = around(s, points, track.length)
    tangent = np.stack([np.cos(track.heading), np.sin(track.heading)], axis=1)
    centre = np.stack([track.x, track.y], axis=1)
    place = track.s.copy()
    for _ in range(4):  # Newton's method for the place where the curve meets the normal
        ahead = np.sum((curve(place) - centre) * tangent, axis=1)
        rate = np.sum(curve(place, 1) * tangent, axis=1)
        place -= np.clip(ahead / np.maximum(rate, 0.2), -2.0 * track.spacing, 2.0 * track.spacing)
    return np.sum((curve(place) - centre) * track.normal, axis=1)


def around(s: Array, values: Array, length: float) -> scipy.interpolate.CubicSpline:
    """values: [P, ...] at `s` m, as a smooth function around a loop of that length."""
    return scipy.interpolate.CubicSpline(np.append(s, length), np.concatenate([values, values[:1]]), bc_type="periodic")


def _residuals(
    centre: Array, normal: Array, offset: Array, length_weight: float
) -> tuple[Array, scipy.sparse.csc_matrix]:
    """The least-squares problem at `offset`: residuals [R] and their Jacobian [R, G] with respect to it."""
    point = centre + normal * offset[:, None]
    before, after = np.roll(point, 1, axis=0), np.roll(point, -1, axis=0)
    into, out, across = point - before, after - point, after - before
    normal_before, normal_after = np.roll(normal, 1, axis=0), np.roll(normal, -1, axis=0)
    length_in, length_out, length_across = (np.hypot(v[:, 0], v[:, 1]) for v in (into, out, across))
    curvature = 2.0 * _cross(into, out) / (length_in * length_out * length_across)

    # d(curvature) = 2 d(cross) / (product of lengths) - curvature * d(log of that product)
    scale = 2.0 / (length_in * length_out * length_across)
    log_in, log_out, log_across = (
        v / (length**2)[:, None] for v, length in ((into, length_in), (out, length_out), (across, length_across))
    )
    by_before = -scale * _cross(normal_before, out) + curvature * _dot(log_in + log_across, normal_before)
    by_here = scale * (_cross(normal, out) - _cross(into, normal)) - curvature * _dot(log_in - log_out, normal)
    by_after = scale * _cross(into, normal_after) - curvature * _dot(log_out + log_across, normal_after)

    weight = np.sqrt(0.5 * (length_in + length_out))
    residuals = [curvature * weight]
    rows = [_bands(by_before * weight, by_here * weight, by_after * weight)]
    if length_weight > 0.0:
        # The length of each step, as a residual whose square over the grid spacing sums to the line's length.
        stretch = np.sqrt(length_weight / length_out.mean())
        residuals.append(length_out * stretch)
        direction = out / length_out[:, None]
        rows.append(_bands(np.zeros(len(offset)), -_dot(direction, normal), _dot(direction, normal_after)) * stretch)
    return np.concatenate(residuals), scipy.sparse.vstack(rows, format="csc")


def _cross(first: Array, second: Array) -> Array:
    return first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]


def _dot(first: Array, second: Array) -> Array:
    return np.sum(first * second, axis=1)


def _bands(before: Array, here: Array, after: Array) -> scipy.sparse.csc_matrix:
    """[G, G] around the loop: row i has `before[i]` at i-1, `here[i]` at i and `after[i]` at i+1."""
    count = len(here)
    row = np.arange(count)
    columns = np.concatenate([(row - 1) % count, row, (row + 1) % count])
    values = np.concatenate([before, here, after])
    return scipy.sparse.csc_matrix((values, (np.tile(row, 3), columns)), shape=(count, count))


def _solve(jacobian: scipy.sparse.csc_matrix, residuals: Array, lower: Array, upper: Array) -> Array:
    """The step in [lower, upper] that minimises |jacobian @ step + residuals|^2."""
    count = jacobian.shape[1]
    hessian = (jacobian.T @ jacobian).tocsc()
    # Scaled so that the diagonal is near one, whatever the size of the road.
    unit = 1.0 / hessian.diagonal().max()
    identity = scipy.sparse.identity(count, format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    solver = clarabel.DefaultSolver(
        scipy.sparse.triu(hessian * unit, format="csc"),
        jacobian.T @ residuals * unit,
        scipy.sparse.vstack([identity, -identity], format="csc"),
        np.concatenate([upper, -lower]),
        [clarabel.NonnegativeConeT(2 * count)],
        settings,
    )
    return np.asarray(solver.solve().x)

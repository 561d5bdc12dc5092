"""Curvature of three neighbours on circles, and the corners of polygons."""

from __future__ import annotations

import numpy as np
import pytest

from paddock.sim.tracks.geometry import loop_curvature, polygon_corners


@pytest.mark.parametrize("radius", [0.5, 30.0, 4_000.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_loop_curvature_of_a_circle_is_one_over_its_radius(radius: float, sign: int) -> None:
    angle = sign * np.sort(np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, 50))
    points = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    np.testing.assert_allclose(loop_curvature(points), sign / radius, rtol=1e-6)


def test_polygon_corners_turn_once_around_a_square() -> None:
    into, out, lengths, turn = polygon_corners(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]))
    np.testing.assert_allclose(turn, 0.5 * np.pi)
    np.testing.assert_allclose(lengths, 2.0)
    np.testing.assert_allclose(into[1], [1.0, 0.0])
    np.testing.assert_allclose(out[1], [0.0, 1.0])

"""Trajectories of TrackMania: exact spacing, files that are only data."""

import numpy as np
import pytest
from safetensors.numpy import save

from paddock.core.errors import InputError
from paddock.core.reading import DamagedError
from paddock.environments.trackmania.trajectory import (
    SPACING,
    Trajectory,
    load_trajectory,
    resample,
    save_trajectory,
)


def wavy(samples=700, seed=0):
    """A bending path with uneven samples, some of them twice, as packets of a slow and a fast car give them."""
    places = np.sort(np.random.default_rng(seed).uniform(0, 200, samples))
    places = np.concatenate([[0.0], places, [200.0, 200.0]])
    return np.stack([places, 10.0 + 0.2 * np.sin(places / 9), 15.0 * np.sin(places / 25)], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_trajectory_spacing_is_exact(seed):
    path = wavy(seed=seed)
    points = resample(path)
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    assert np.abs(steps[:-1] - SPACING).max() < 1e-9
    assert 0 < steps[-1] <= SPACING + 1e-9
    assert points[0].tolist() == path[0].tolist()
    assert points[-1].tolist() == path[-1].tolist()
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert abs(len(points) - 1 - length / SPACING) < 1.5


def test_trajectory_of_a_straight_line_has_the_known_points():
    points = resample([[0, 10, 0], [0, 10, 0], [0.25, 10, 0], [1.0, 10, 0]])
    np.testing.assert_allclose(points[:, 0], np.arange(11) / 10, atol=1e-12)


def test_trajectory_curvature_of_a_circle_and_a_straight():
    angle = np.arange(0, 4, 0.1 / 40)
    circle = np.stack([40 * np.cos(angle), np.full_like(angle, 10), 40 * np.sin(angle)], axis=1)
    np.testing.assert_allclose(Trajectory(circle).curvature[60:-60], 1 / 40, rtol=1e-3)
    assert Trajectory(resample([[0, 0, 0], [50, 0, 0]])).curvature.max() < 1e-9


def test_trajectory_file_round_trip(tmp_path):
    made = Trajectory(resample(wavy()), "wavy")
    save_trajectory(made, tmp_path / "deep" / "wavy.safetensors")
    read = load_trajectory(tmp_path / "deep" / "wavy.safetensors")
    assert (read.points == made.points).all()
    assert read.name == "wavy"
    with pytest.raises(InputError, match=r"ends with \.safetensors"):
        save_trajectory(made, tmp_path / "wavy.pkl")


def test_trajectory_files_that_are_none_are_refused_with_a_sentence(tmp_path):
    path = tmp_path / "bad.safetensors"
    for content in (
        b"",
        b"\x80\x04cos\nsystem\n",
        save({"weights": np.zeros((3, 3))}),
        save({"points": np.zeros((1, 3))}),
        save({"points": np.full((5, 3), np.nan)}),
        save({"points": np.zeros((5, 2))}),
    ):
        path.write_bytes(content)
        with pytest.raises(DamagedError, match="cannot be read"):
            load_trajectory(path)

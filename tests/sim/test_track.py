import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.core.errors import InputError
from paddock.sim.tracks.builder import build_track
from paddock.sim.tracks.checks import check_fits
from paddock.sim.tracks.circuits import load_circuit
from paddock.sim.tracks.corners import find_corners
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track
from paddock.sim.tracks.track import Track


def circle(radius: float = 100.0, points: int = 60, width: float = 12.0) -> Track:
    angle = 2.0 * np.pi * np.arange(points) / points
    return build_track("circle", radius * np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.5 * width, 0.5 * width)


def gaps(track: Track) -> np.ndarray:
    return np.hypot(np.roll(track.x, -1) - track.x, np.roll(track.y, -1) - track.y)


def test_a_circle_has_the_length_heading_and_curvature_of_a_circle() -> None:
    track = circle(100.0)
    assert track.length == pytest.approx(200.0 * np.pi, rel=1e-5)
    assert track.curvature == pytest.approx(np.full(len(track), 0.01), rel=1e-3)
    assert np.cos(track.heading) == pytest.approx(-track.y / 100.0, abs=1e-4)
    assert np.hypot(*track.left_edge.T) == pytest.approx(np.full(len(track), 94.0), abs=1e-2)
    assert np.hypot(*track.right_edge.T) == pytest.approx(np.full(len(track), 106.0), abs=1e-2)


@given(radius=st.floats(30.0, 400.0), wobble=st.floats(0.0, 0.12), bumps=st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_points_are_uniformly_spaced_and_the_loop_turns_once(radius: float, wobble: float, bumps: int) -> None:
    angle = 2.0 * np.pi * np.arange(90) / 90
    distance = radius * (1.0 + wobble * np.cos(bumps * angle))
    track = build_track("wobbly", np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1), 3.0, 3.0)
    assert np.ptp(gaps(track)) < 0.02 * track.spacing
    assert np.sum(track.curvature) * track.spacing == pytest.approx(2.0 * np.pi, rel=1e-2)


def test_the_closing_point_may_be_given_or_left_out() -> None:
    points = np.array([[0, 0], [100, 0], [150, 60], [80, 120], [0, 90.0]])
    left_out, given_twice = build_track("a", points, 4, 4), build_track("a", np.vstack([points, points[:1]]), 4, 4)
    assert left_out.fingerprint == given_twice.fingerprint


def test_records_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        circle().x[0] = 1.0


def test_scaling_keeps_the_shape() -> None:
    track = with_obstacles(load_circuit("meadow"), 3, seed=1)
    small = track.scaled(0.1)
    assert small.length == pytest.approx(0.1 * track.length)
    assert small.spacing == pytest.approx(0.1 * track.spacing)
    assert small.curvature * small.left_width == pytest.approx(track.curvature * track.left_width)
    assert small.obstacles == pytest.approx(0.1 * track.obstacles)
    assert len(find_corners(small)) == len(find_corners(track))


def test_only_model_cars_get_a_tenth_of_a_full_size_road() -> None:
    track = load_circuit("harbour")
    assert track.sized_for(2.0) is track
    small = track.sized_for(0.31)
    assert small.length == pytest.approx(0.1 * track.length)
    assert small.sized_for(0.31) is small


def test_reversing_twice_gives_the_same_road() -> None:
    track = load_circuit("meadow")
    back = track.reversed()
    assert (back.x[0], back.y[0]) == (track.x[0], track.y[0])
    assert back.left_edge[5] == pytest.approx(track.right_edge[-5])
    again = back.reversed()
    assert again.x == pytest.approx(track.x)
    assert np.cos(again.heading) == pytest.approx(np.cos(track.heading))
    assert again.curvature == pytest.approx(track.curvature)


def test_corners_are_counted_like_a_driver_does() -> None:
    assert [round(np.degrees(corner.turn), -1) for corner in find_corners(load_circuit("oval"))] == [180, 180]
    assert len(find_corners(circle(40.0))) == 1
    corners = find_corners(load_circuit("meadow"))
    assert [corner.apex for corner in corners] == sorted(corner.apex for corner in corners)
    backwards = find_corners(load_circuit("meadow").reversed())
    assert [np.sign(corner.turn) for corner in backwards] == [-np.sign(corner.turn) for corner in corners[::-1]]


def test_names_seeds_and_files_all_load(tmp_path) -> None:
    from paddock.sim.tracks.csv import write_track_csv

    write_track_csv(load_track("oval"), tmp_path / "mine.csv")
    for name in ("oval", "default", "procedural:4", str(tmp_path / "mine.csv")):
        assert len(load_track(name)) > 100
    assert load_track("default").name == "meadow"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("medow", "Did you mean 'meadow'"),
        ("procedural:x", "needs a seed"),
        ("procedural:3:ponits=9", "Did you mean 'points'"),
        ("procedural:3:points=2", "must be from 4 to 60"),
        ("nowhere/track.csv", "no track file"),
    ],
)
def test_a_wrong_name_gets_a_helpful_error(given: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        load_track(given)


def test_a_road_too_narrow_for_a_car_is_told() -> None:
    with pytest.raises(InputError, match=r"too narrow for the car 'gt': 2\.20 m wide at"):
        check_fits(circle(width=2.2), "gt", 2.0)
    check_fits(circle(width=3.2), "gt", 2.0)

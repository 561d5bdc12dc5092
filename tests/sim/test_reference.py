import os
from pathlib import Path

import numpy as np
import pytest
from real_circuits import NAMES, needs_real_circuits, real_circuit

from paddock.core import array_cache
from paddock.core.errors import InputError
from paddock.sim.cars.car import CARS, load_car
from paddock.sim.reference import lap as reference
from paddock.sim.reference.lap import ReferenceLap, centre_follower, lap_along, line_margin, reference_lap
from paddock.sim.reference.line import racing_line
from paddock.sim.reference.speed_profile import cornering_speed, grip_envelope, slip_angle, speed_profile
from paddock.sim.reference.store import keep_line, kept_line
from paddock.sim.tracks.builder import build_track
from paddock.sim.tracks.circuits import circuit_names, load_circuit
from paddock.sim.tracks.sources import load_track
from paddock.sim.tracks.track import Track


def circle(radius: float) -> Track:
    angle = 2.0 * np.pi * np.arange(200) / 200
    return build_track("circle", radius * np.stack([np.cos(angle), np.sin(angle)], axis=1), 5.0, 5.0)


def naive_profile(curvature: np.ndarray, steps: np.ndarray, car: str) -> np.ndarray:
    """The same passes as plain Python, the limits by numpy's own interpolation."""
    envelope = grip_envelope(load_car(car))
    shares = np.linspace(0.0, 1.0, envelope.brake.shape[1])

    def at(table: np.ndarray, speed: float, demand: float) -> float:
        share = min(demand / np.interp(speed, envelope.speed, envelope.lateral), 1.0)
        return float(np.interp(speed, envelope.speed, [np.interp(share, shares, row) for row in table]))

    speed = cornering_speed(envelope, curvature)
    count = len(speed)
    for i in reversed(range(count - 1)):
        slowing = max(at(envelope.brake, speed[i + 1], speed[i + 1] ** 2 * abs(curvature[i + 1])), 0.0)
        speed[i] = min(speed[i], np.sqrt(speed[i + 1] ** 2 + 2.0 * slowing * steps[i]))
    for i in range(count - 1):
        gaining = at(envelope.accelerate, speed[i], speed[i] ** 2 * abs(curvature[i]))
        speed[i + 1] = min(speed[i + 1], np.sqrt(speed[i] ** 2 + 2.0 * gaining * steps[i]))
    return speed


@pytest.mark.parametrize("car", ["gt", "road", "f1tenth"])
def test_a_circle_is_driven_at_the_speed_its_grip_allows(car: str) -> None:
    track = circle(60.0).sized_for(CARS[car].width)
    envelope = grip_envelope(CARS[car])
    lap = lap_along(track, np.zeros(len(track)), envelope)
    radius = track.length / (2.0 * np.pi)
    speed = float(lap.speed.mean())
    # Some of the grip pushes against drag, so the limit itself is not quite reached.
    assert 0.97 < speed**2 / radius / float(CARS[car].lateral_limit(speed)) < 1.001
    assert lap.lap_time == pytest.approx(track.length / speed, rel=1e-3)


def test_the_compiled_profile_matches_a_naive_one() -> None:
    # A straight, a tight arc and a straight, with the slowest point in the middle: no seam to carry over.
    s = np.arange(400.0)
    curvature = 0.03 * np.exp(-(((s - 200.0) / 30.0) ** 2)) + 1e-4
    curvature[[0, -1]] = 0.05
    steps = np.ones(400)
    compiled = speed_profile(grip_envelope(load_car("gt")), curvature, steps)
    assert compiled == pytest.approx(naive_profile(curvature, steps, "gt"), rel=2e-3)


@pytest.mark.parametrize("car", sorted(CARS))
@pytest.mark.parametrize("name", ["meadow", "harbour"])
def test_a_lap_stays_within_what_the_car_can_do(name: str, car: str) -> None:
    parameters = load_car(car)
    lap = reference_lap(load_circuit(name).sized_for(parameters.width), car)
    envelope = grip_envelope(parameters)
    lateral = lap.speed**2 * np.abs(lap.curvature)
    assert np.all(lateral <= 1.01 * np.interp(lap.speed, envelope.speed, envelope.lateral))
    following = np.roll(lap.speed, -1)
    along = (following**2 - lap.speed**2) / (2.0 * lap.steps)
    strongest = np.interp(lap.speed, envelope.speed, envelope.accelerate.max(axis=1))
    hardest = np.interp(following, envelope.speed, envelope.brake.max(axis=1))
    assert np.all(along <= strongest + 0.05)
    assert np.all(-along <= hardest + 0.05)
    assert lap.speed.max() <= parameters.top_speed
    assert np.abs(lap.curvature).max() <= np.tan(parameters.steer_limit) / parameters.wheelbase


def assert_inside(lap: ReferenceLap, car: str) -> None:
    track, half_width = lap.track, 0.5 * CARS[car].width
    assert np.all(lap.offset <= track.left_width - half_width)
    assert np.all(lap.offset >= half_width - track.right_width)


@pytest.mark.parametrize("name", circuit_names())
def test_reference_lines_of_the_circuits(name: str) -> None:
    track = load_circuit(name)
    lap = reference_lap(track, "gt")
    assert_inside(lap, "gt")
    assert lap.lap_time < 0.96 * lap.centreline_time
    assert lap.time_at[0] == 0.0
    assert np.all(np.diff(lap.time_at) > 0.0)
    assert lap.sector_times.sum() == pytest.approx(lap.lap_time)
    assert np.hypot(lap.x - track.x, lap.y - track.y) == pytest.approx(np.abs(lap.offset))
    assert lap.length == pytest.approx(track.length, rel=0.05)


@needs_real_circuits
@pytest.mark.parametrize("name", NAMES)
def test_on_real_circuits_every_bit_of_room_makes_a_lap_faster(name: str) -> None:
    """The centreline as surveyed, a car's width of room around it, all of the road: each holds the one before."""
    track, car = load_track(real_circuit(name)), CARS["gt"]
    lap = reference_lap(track, "gt")
    assert_inside(lap, "gt")
    follower = centre_follower(track, car)
    assert np.abs(follower).max() < 0.5 * car.width + 0.1
    surveyed = lap_along(track, np.zeros(len(track)), grip_envelope(car))
    assert lap.lap_time < 0.97 * lap.centreline_time
    assert lap.centreline_time < surveyed.lap_time


def test_on_a_narrow_road_following_the_centreline_stays_on_it_too() -> None:
    track, car = load_circuit("harbour").scaled(0.4), CARS["gt"]
    follower = centre_follower(track, car)
    assert np.all(follower <= track.left_width - 0.5 * car.width)
    assert np.all(follower >= 0.5 * car.width - track.right_width)
    lap = reference_lap(track, "gt")
    assert lap.lap_time <= 1.001 * lap.centreline_time


def test_the_reference_is_quicker_than_least_curvature_and_than_the_middle() -> None:
    track, car = load_circuit("ribbon"), CARS["gt"]
    envelope = grip_envelope(car)
    least_curvature = lap_along(track, racing_line(track, line_margin(car)), envelope)
    middle = lap_along(track, np.zeros(len(track)), envelope)
    assert reference_lap(track, "gt").lap_time < least_curvature.lap_time < middle.lap_time
    bend = np.sum(least_curvature.curvature**2 * least_curvature.steps)
    assert bend < 0.8 * np.sum(middle.curvature**2 * middle.steps)


def test_scaling_a_track_and_the_line_on_it_agree() -> None:
    track, margin = load_circuit("kidney"), 1.5
    small = racing_line(track.scaled(0.1), 0.1 * margin)
    assert 10.0 * small == pytest.approx(racing_line(track, margin), abs=0.05)


def test_the_same_track_and_car_give_the_same_lap() -> None:
    first = reference_lap(load_circuit("meadow"), "gt")
    assert reference_lap(load_circuit("meadow"), load_car("gt")) is first
    slower = load_car("gt").with_changes(power=150_000.0)
    assert reference_lap(load_circuit("meadow"), slower).lap_time > first.lap_time


def test_a_kept_line_gives_the_very_same_lap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    track, car = load_circuit("oval"), load_car("gt").with_changes(mass=1300.0)
    monkeypatch.setattr(reference, "_cache", {})
    computed = reference_lap(track, car)
    (kept,) = (tmp_path / "cache" / "reference").iterdir()
    reference._cache.clear()
    monkeypatch.setattr(reference, "_compute", None)
    recalled = reference_lap(track, car)
    assert recalled is not computed
    assert (recalled.lap_time, recalled.centreline_time) == (computed.lap_time, computed.centreline_time)
    assert np.array_equal(recalled.speed, computed.speed)
    assert kept_line(track, car.with_changes(mass=1301.0)) is None
    kept.write_bytes(b"broken")
    assert kept_line(track, car) is None


def test_only_so_many_lines_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    monkeypatch.setattr(array_cache, "MOST_KEPT", 2)
    tracks = [load_track(f"procedural:{seed}") for seed in range(3)]
    for age, track in enumerate(tracks):
        keep_line(track, CARS["gt"], np.zeros(len(track)), 1.0)
        for file in (tmp_path / "cache" / "reference").iterdir():
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 10 * (3 - age)))
    assert [kept_line(track, CARS["gt"]) is not None for track in tracks] == [False, True, True]


def test_an_unwritable_home_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "file"))
    keep_line(load_circuit("oval"), CARS["gt"], np.zeros(1011), 1.0)
    assert kept_line(load_circuit("oval"), CARS["gt"]) is None


def test_a_road_too_narrow_is_refused() -> None:
    with pytest.raises(InputError, match="too narrow for the car 'gt'"):
        reference_lap(load_circuit("harbour").scaled(0.25), "gt")


@pytest.mark.parametrize("car", ["gt", "road", "f1tenth"])
def test_slip_angles_invert_the_tyre(car: str) -> None:
    parameters = load_car(car)
    uses = np.array([-0.9, -0.3, 0.0, 0.5, 0.95])
    slip = slip_angle(parameters, uses, parameters.rear_stiffness)
    b, c, e = parameters.tyre_b, parameters.tyre_c, parameters.tyre_e
    x = b * slip
    given = np.sin(c * np.arctan(x - e * (x - np.arctan(x)))) if c else parameters.rear_stiffness * slip
    assert given == pytest.approx(uses, abs=2e-3)

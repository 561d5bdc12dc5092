"""Sensors against naive versions: rays by exact intersections, the course by interpolation; noise, loss, delay."""

from __future__ import annotations

import numpy as np
import pytest
from world_tracks import circle_track, stadium_track

from paddock.core.errors import InputError
from paddock.sim.settings import (
    FULL_READINGS,
    TELEMETRY,
    CourseSettings,
    Imperfection,
    RaySettings,
    StartSettings,
    TelemetrySettings,
    WorldSettings,
)
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track
from paddock.sim.tracks.track import Track
from paddock.sim.world import World

SPREAD = StartSettings(lateral=0.8, heading=0.6, speed=(0.0, 15.0))


def naive_rays(track: Track, world: World, car: int, angles: np.ndarray, reach: float) -> np.ndarray:
    """Exact: every ray against every piece of the edges near the car, every obstacle and every side of other cars."""
    x, y, heading = world.x[car], world.y[car], float(world.heading[car])
    direction = np.stack([np.cos(heading + angles), np.sin(heading + angles)], axis=1)
    distance = np.full(len(angles), reach)
    near = np.abs((track.s - world.s[car] + 0.5 * track.length) % track.length - 0.5 * track.length) < 1.5 * reach
    pieces = []
    for edge in (track.left_edge, track.right_edge):
        pieces.append(np.stack([edge, np.roll(edge, -1, axis=0)], axis=1)[near])
    group = world.settings.group_size
    for other in range(car - car % group, car - car % group + group):
        if other != car:
            length, width = world.parameters[other, 12:14] / 2
            nose = np.array([np.cos(world.heading[other]), np.sin(world.heading[other])])
            side = np.array([-nose[1], nose[0]])
            centre = np.array([world.x[other], world.y[other]])
            signs = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
            corners = np.array([centre + a * length * nose + b * width * side for a, b in signs])
            pieces.append(np.stack([corners, np.roll(corners, -1, axis=0)], axis=1))
    for start, end in np.concatenate(pieces):
        a, d = start - (x, y), end - start
        for k, (dx, dy) in enumerate(direction):
            bottom = dx * d[1] - dy * d[0]
            if bottom == 0.0:
                continue
            t, u = (a[0] * d[1] - a[1] * d[0]) / bottom, (a[0] * dy - a[1] * dx) / bottom
            if t >= 0.0 and 0.0 <= u <= 1.0:
                distance[k] = min(distance[k], t)
    for ox, oy, radius in track.obstacles:
        along = direction @ (ox - x, oy - y)
        under = radius**2 - ((ox - x) ** 2 + (oy - y) ** 2 - along**2)
        hits = (under >= 0.0) & (along > 0.0)
        distance[hits] = np.minimum(distance[hits], np.maximum(along[hits] - np.sqrt(under[hits]), 0.0))
    return distance


@pytest.mark.parametrize("name", ["stadium", "serpent", "harbour", "overpass"])
def test_rays_match_exact_intersections(name: str) -> None:
    track = stadium_track(120.0, 25.0) if name == "stadium" else load_track(name)
    track = with_obstacles(track, 4, 2)
    rays = RaySettings(count=19, range=80.0)
    world = World(track, "gt", 24, settings=WorldSettings(start=SPREAD, rays=rays), seed=4)
    width = track.mean_width
    checked = 0
    for car in range(24):
        expected = naive_rays(track, world, car, rays.ray_angles(), rays.range)
        error = np.abs(world.rays[car, 0] - expected)
        # Edges seen by rays may lie 0.2 % of the width beside the track's; a grazing ray multiplies that.
        assert np.median(error) < 0.01 * width
        checked += int((error < 0.03 * width).sum())
    assert checked >= 0.97 * 24 * 19


def test_rays_see_cars_of_their_group_but_not_ghosts() -> None:
    track = stadium_track(200.0)
    rays = RaySettings(count=36, fan=2 * np.pi * 35 / 36, range=60.0)
    settings = WorldSettings(group_size=3, rays=rays, contact=False)
    world = World(track, "gt", 6, settings=settings)
    place = np.tile([10.0, 22.0, 30.0], 2)
    aside = np.tile([0.0, 2.0, -3.0], 2)
    world.reset(s=place, lateral=aside, heading_error=np.tile([0.0, 0.4, -1.0], 2), speed=0.0)
    for car in range(6):
        expected = naive_rays(track, world, car, rays.ray_angles(), rays.range)
        np.testing.assert_allclose(world.rays[car, 0], expected, atol=0.05)
    ahead = world.rays[0, 0].min()
    world.ghost[1:3] = True
    world.reset(s=place, lateral=aside, heading_error=0.0, speed=0.0)
    assert world.rays[0, 0].max() == rays.range
    assert world.rays[0, 0].min() <= ahead


def test_any_angles_and_a_mount() -> None:
    track = circle_track(100.0, 8.0)
    settings = WorldSettings(rays=RaySettings(angles=(0.5 * np.pi, -0.5 * np.pi), mount=2.0))
    world = World(track, "gt", 1, settings=settings)
    world.reset(s=0.0, lateral=1.0, heading_error=0.0)
    assert world.rays.shape == (1, 1, 2)
    np.testing.assert_allclose(world.rays[0, 0], [7.0, 9.0], atol=0.1)


def test_rays_from_beside_the_road_still_find_it() -> None:
    world = World(circle_track(100.0, 8.0), "gt", 1, settings=WorldSettings(rays=RaySettings(angles=(0.5 * np.pi,))))
    world.reset(s=0.0, lateral=-20.0, heading_error=0.0)
    assert world.rays[0, 0, 0] == pytest.approx(12.0, abs=0.1)


def test_course_points_lie_on_the_centreline_ahead() -> None:
    track = load_track("serpent")
    course = CourseSettings(count=6, horizon=3.0, least_speed=4.0)
    world = World(track, "gt", 16, settings=WorldSettings(start=SPREAD, course=course))
    for car in range(16):
        pace = max(float(world.vx[car]), 4.0) * 0.5
        ahead = (world.s[car] + pace * np.arange(1, 7)) % track.length
        grid = np.append(track.s, track.length)
        px = np.interp(ahead, grid, np.append(track.x, track.x[0])) - world.x[car]
        py = np.interp(ahead, grid, np.append(track.y, track.y[0])) - world.y[car]
        cos, sin = np.cos(world.heading[car]), np.sin(world.heading[car])
        expected = np.stack([px * cos + py * sin, py * cos - px * sin], axis=1)
        np.testing.assert_allclose(world.course[car, 0, :, :2], expected, atol=0.01)
        left = np.interp(ahead, grid, np.append(track.left_width, track.left_width[0]))
        np.testing.assert_allclose(world.course[car, 0, :, 2], left, atol=0.01)


def test_course_of_curvatures() -> None:
    course = CourseSettings(count=5, kind="curvature")
    world = World(circle_track(50.0, 6.0), "gt", 2, settings=WorldSettings(course=course))
    assert world.course.shape == (2, 1, 5, 3)
    np.testing.assert_allclose(world.course[..., 0], 0.02, atol=1e-6)
    np.testing.assert_allclose(world.course[..., 1:], 6.0, atol=1e-5)


def test_telemetry_tells_what_the_arrays_tell() -> None:
    world = World(circle_track(), "gt", 8, settings=WorldSettings(start=SPREAD, telemetry=TelemetrySettings()))
    for _ in range(30):
        world.step(np.tile([0.2, 0.7], (8, 1)))
    reading = dict(zip(TELEMETRY, world.telemetry[:, 0].T, strict=True))
    np.testing.assert_allclose(reading["speed"], np.hypot(world.vx, world.vy), rtol=1e-5)
    np.testing.assert_array_equal(reading["gear"], world.gear)
    np.testing.assert_array_equal(reading["rpm"], world.rpm)
    np.testing.assert_allclose(reading["slip"], np.arctan2(world.vy, world.vx), atol=1e-4)
    np.testing.assert_allclose(reading["last_steer"], 0.2, rtol=1e-6)
    np.testing.assert_allclose(reading["last_throttle"], 0.7, rtol=1e-6)


def test_history_and_latency_are_the_readings_of_before() -> None:
    settings = [
        WorldSettings(start=SPREAD, rays=RaySettings(history=history, imperfection=Imperfection(latency=latency)))
        for history, latency in ((1, 0), (4, 0), (3, 2))
    ]
    plain, history, late = (World(circle_track(), "gt", 6, settings=each) for each in settings)
    assert (history.rays == history.rays[:, :1]).all()
    seen = [plain.rays[:, 0].copy()] * 8
    for _ in range(20):
        for world in (plain, history, late):
            world.step(np.tile([0.1, 0.5], (6, 1)))
        seen.insert(0, plain.rays[:, 0].copy())
        np.testing.assert_array_equal(history.rays, np.stack(seen[:4], axis=1))
        np.testing.assert_array_equal(late.rays, np.stack(seen[2:5], axis=1))


def test_noise_and_dropout_have_the_given_size() -> None:
    flaws = Imperfection(noise=0.5, dropout=0.2)
    rays = RaySettings(range=200.0, angles=(0.5 * np.pi, -0.5 * np.pi), imperfection=flaws)
    world = World(
        circle_track(), "gt", 4000, settings=WorldSettings(rays=rays, telemetry=TelemetrySettings(imperfection=flaws))
    )
    world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=0.0)
    readings = world.rays[:, 0].ravel()
    lost = readings == 200.0
    assert lost.mean() == pytest.approx(0.2, abs=0.02)
    assert readings[~lost].std() == pytest.approx(0.5, abs=0.03)
    assert readings[~lost].mean() == pytest.approx(8.0, abs=0.05)
    before = world.telemetry[:, 0].copy()
    world.step(np.zeros((4000, 2)))
    held = (world.telemetry[:, 0] == before).all(axis=1)
    assert held.mean() == pytest.approx(0.2, abs=0.03)


def test_instruments_are_noisy_by_their_range_and_by_their_reading() -> None:
    settings = TelemetrySettings(relative_noise=0.1, imperfection=Imperfection(noise=0.01))
    world = World(circle_track(), "gt", 8000, settings=WorldSettings(telemetry=settings))
    world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=20.0)
    world.step(np.tile([0.2, 0.5], (8000, 1)))
    exact = World(circle_track(), "gt", 1, settings=WorldSettings(telemetry=TelemetrySettings()))
    exact.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=20.0)
    exact.step([[0.2, 0.5]])
    for column, name in enumerate(TELEMETRY):
        value, readings = float(exact.telemetry[0, 0, column]), world.telemetry[:, 0, column]
        if name in ("gear", "last_steer", "last_throttle"):
            assert (readings == value).all(), name
        else:
            spread = 0.01 * FULL_READINGS[name] + 0.1 * abs(value)
            assert readings.std() == pytest.approx(spread, rel=0.04), name
            assert readings.mean() == pytest.approx(value, abs=0.05 * spread), name


def test_actions_arrive_late_and_jittered() -> None:
    delayed = World(circle_track(), "gt", 1, settings=WorldSettings(action_delay=3))
    jittered = World(circle_track(), "gt", 500, settings=WorldSettings(action_jitter=2))
    for step in range(12):
        delayed.step([[0.01 * step, 0.0]])
        jittered.step(np.tile([0.01 * step, 0.0], (500, 1)))
        assert delayed.applied_steer[0] == pytest.approx(max(0.01 * (step - 3), 0.0), abs=1e-6)
    ages = np.round(11 - jittered.applied_steer * 100).astype(int)
    assert set(ages) == {0, 1, 2}
    assert np.bincount(ages).min() > 100


def test_impossible_settings_are_explained() -> None:
    with pytest.raises(InputError, match="Did you mean 'yaw_rate'"):
        TelemetrySettings(full={"yaw_rat": 4.0})
    with pytest.raises(InputError, match="relative_noise is -1"):
        TelemetrySettings(relative_noise=-1.0)
    with pytest.raises(InputError, match="dropout is 2"):
        Imperfection(dropout=2.0)
    with pytest.raises(InputError, match="Did you mean 'grass'"):
        WorldSettings(edge="gras")
    with pytest.raises(InputError, match="multiple of the 3 sectors"):
        WorldSettings(gates=10)
    with pytest.raises(InputError, match="Did you mean 'friction'"):
        WorldSettings(randomise={"frictoin": (0.9, 1.1)})

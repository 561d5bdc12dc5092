"""The judge: exact crossings, sectors, kinds of lap, gates, cuts and wrong ways."""

from __future__ import annotations

import numpy as np
import pytest
from world_tracks import circle_track, follow, plane_track, stadium_track

from paddock.sim.cars.car import CARS
from paddock.sim.settings import StartSettings, WorldSettings
from paddock.sim.tracks.sources import load_track
from paddock.sim.world import World

ARCADE = CARS["arcade"]


def lap_around(world: World, speed: float, steps: int) -> list[int]:
    """Drive the centreline; the steps at which a lap was counted for car 0."""
    track = world.tracks[0]
    done = []
    for step in range(steps):
        world.step(follow(world, track, speed, ARCADE.wheelbase, ARCADE.steer_limit))
        if world.lap_completed[0]:
            done.append(step)
    return done


def kept_lap_times(world: World) -> list[float]:
    """The lap times [s] of car 0 in the ring, oldest first."""
    laps, kept = int(world.lap_count[0]), world.settings.lap_history
    return [float(world.lap_times[0, lap % kept]) for lap in range(max(laps - kept, 0), laps)]


def test_a_straight_crossing_is_timed_between_substeps() -> None:
    """At constant speed along a straight the crossing time is distance / speed, whatever the phase of the step."""
    track = stadium_track(400.0)
    starts = np.linspace(3.0, 9.0, 40)
    world = World(track, "arcade", 40, settings=WorldSettings(gates=3))
    speed = 20.0
    world.reset(s=track.length - starts, lateral=0.0, heading_error=0.0, speed=speed)
    for _ in range(12):
        world.step(np.zeros((40, 2)))
    np.testing.assert_allclose(world.vx, speed, rtol=1e-5)
    np.testing.assert_allclose(world.lap_start, starts / speed, atol=2e-5)


def test_lap_times_of_a_circle_match_its_length_over_the_speed() -> None:
    track = circle_track(60.0)
    world = World(track, "arcade", 1, settings=WorldSettings(start=StartSettings("flying", speed=(15.0, 15.0))))
    lap_around(world, 15.0, 1300)
    assert world.lap_count[0] >= 2
    laps = kept_lap_times(world)
    for lap in laps[1:]:
        path = 2.0 * np.pi * (60.0 - float(np.mean(world.lateral)))
        assert lap == pytest.approx(path / float(world.vx[0]), rel=0.01)
    assert world.best_lap_time[0] == min(laps)
    assert world.last_lap_time[0] == laps[-1]
    assert np.nansum(world.last_sector_times[0]) == pytest.approx(laps[-1], abs=1e-9)


def test_lap_times_do_not_depend_on_the_control_rate() -> None:
    times = []
    for rate, substeps in ((20.0, 5), (50.0, 2), (100.0, 1)):
        start = StartSettings("flying", speed=(12.0, 12.0))
        settings = WorldSettings(control_rate=rate, substeps=substeps, start=start)
        world = World(circle_track(50.0), "arcade", 1, settings=settings)
        steer = ARCADE.steer_limit * 12.0 / 50.0 / ARCADE.turn_rate
        for _ in range(round(60 * rate)):
            world.step([[steer / ARCADE.steer_limit, 0.0]])
        times.append(kept_lap_times(world)[-1])
    assert np.ptp(times) < 0.01


def test_standing_flying_and_out_laps_are_told_apart() -> None:
    track = circle_track(40.0)
    grid = World(track, "arcade", 1, settings=WorldSettings(start=StartSettings("grid")))
    assert grid.lap_kind[0] == 1
    assert grid.lap_distance[0] < 0.0
    lap_around(grid, 12.0, 1000)
    assert list(grid.lap_kinds[0, :2]) == [1, 2]
    assert grid.lap_times[0, 0] > grid.lap_times[0, 1]

    anywhere = World(track, "arcade", 1)
    anywhere.reset(s=0.5 * track.length, speed=10.0)
    assert anywhere.lap_kind[0] == 0
    done = lap_around(anywhere, 12.0, 300)
    assert done == []
    assert anywhere.lap_kind[0] == 2
    assert anywhere.next_gate[0] > 1

    from_start = World(track, "arcade", 1, settings=WorldSettings(laps_from="start"))
    from_start.reset(s=0.5 * track.length, speed=12.0)
    lap_around(from_start, 12.0, 480)
    assert from_start.lap_count[0] == 1


def test_driving_backwards_is_flagged_and_earns_no_lap() -> None:
    track = circle_track(40.0)
    world = World(track, "arcade", 1)
    world.reset(s=5.0, heading_error=np.pi, speed=10.0)
    for _ in range(1500):
        world.step([[-10.0 / 40.0 / ARCADE.turn_rate, 0.0]])
    assert world.wrong_way[0]
    assert world.distance[0] < -1.5 * track.length
    assert world.lap_count[0] == 0
    assert not world.lap_rejected[0]


def test_to_and_fro_over_the_line_earns_nothing() -> None:
    track = stadium_track(300.0)
    world = World(track, "arcade", 1)
    world.reset(s=track.length - 20.0, lateral=0.0, heading_error=0.0, speed=0.0)
    gained = 0.0
    for step in range(1200):
        world.step([[0.0, 0.6 if step % 120 < 60 else -1.0]])
        gained += float(world.progress_gain[0])
    assert world.lap_count[0] == 0
    assert gained == pytest.approx(world.distance[0], abs=0.01)


def test_a_cut_makes_the_lap_invalid_and_pays_nothing() -> None:
    track = stadium_track(200.0, radius=40.0, half_width=5.0)
    world = World(track, "arcade", 1, settings=WorldSettings(grass_grip=1.0, grass_drag=0.0, gates=48))
    world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=12.0)
    cut = rejected = False
    paid = off_steps = 0.0
    for _ in range(1500):
        inside = 10.0 if 60.0 < world.s[0] < 200.0 else 0.0  # across the inside of the first corner
        world.step(follow(world, track, 12.0, ARCADE.wheelbase, ARCADE.steer_limit, inside))
        if world.off_track[0]:
            off_steps += 1
            paid += max(float(world.progress_gain[0]), 0.0)
        cut |= bool(world.cut[0])
        rejected |= bool(world.lap_rejected[0])
        assert not world.lap_completed[0]
        if rejected:
            break
    assert off_steps > 20
    assert cut
    assert paid == 0.0
    assert rejected
    assert world.lap_valid[0]


@pytest.mark.parametrize(("heading_error", "cut"), [(0.0, True), (0.6, False)])
def test_a_car_askew_reaches_farther_through_a_gate(heading_error: float, cut: bool) -> None:
    """A corner above the road is enough, as it is for not being off the track."""
    track = stadium_track(200.0, radius=40.0, half_width=5.0)
    world = World(track, "arcade", 1, settings=WorldSettings(gates=48))
    beyond = 5.0 + 0.5 * ARCADE.width + 0.3
    world.reset(s=track.length / 48 - 0.2, lateral=beyond, heading_error=heading_error, speed=10.0)
    world.step([[0.0, 0.0]])
    assert world.s[0] > track.length / 48
    assert world.off_track[0] == cut
    assert world.cut[0] == cut


def test_progress_follows_the_road_where_it_passes_over_itself() -> None:
    track = load_track("overpass")
    world = World(track, "arcade", 4, settings=WorldSettings(edge="wall"))
    world.reset(s=np.linspace(0.0, track.length, 4, endpoint=False), lateral=0.0, speed=10.0)
    before = world.distance.copy()
    for _ in range(2500):
        world.step(follow(world, track, 10.0, ARCADE.wheelbase, ARCADE.steer_limit))
        moved = world.distance - before
        assert (np.abs(moved) < 2.0).all()
        before = world.distance.copy()
    assert (world.distance > 0.8 * 10.0 * 125.0 * 0.8).all()


def test_lap_history_is_bounded_and_keeps_the_newest() -> None:
    track = circle_track(12.0, half_width=4.0)
    settings = WorldSettings(lap_history=2, start=StartSettings("flying", speed=(8.0, 8.0)))
    world = World(track, "arcade", 1, settings=settings)
    for _ in range(1200):
        world.step([[8.0 / 12.0 / ARCADE.turn_rate, 0.0]])
    assert world.lap_count[0] >= 4
    assert len(kept_lap_times(world)) == 2
    assert kept_lap_times(world)[-1] == world.last_lap_time[0]


def test_the_plane_is_wide_enough_for_manoeuvres() -> None:
    world = World(plane_track(), "gt", 1)
    world.reset(s=0.0, lateral=0.0, speed=50.0)
    for _ in range(100):
        world.step([[0.1, 0.5]])
    assert world.wheels_off[0] == 0

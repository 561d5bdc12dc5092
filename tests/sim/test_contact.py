"""Contact: walls, obstacles and cars against momentum and energy; edges by choice; starts that are free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from world_tracks import circle_track, follow, plane_track, stadium_track

from paddock.core.errors import InputError
from paddock.sim.cars.car import CARS
from paddock.sim.settings import StartSettings, WorldSettings
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track
from paddock.sim.world import World


def momentum(world: World) -> complex:
    return complex(np.sum(world.parameters[:, 0] * np.exp(1j * world.heading) * (world.vx + 1j * world.vy)))


def test_two_cars_exchange_momentum_and_lose_energy() -> None:
    car = CARS["gt"].with_changes(friction=1e-4, drag=0.0, rolling_resistance=0.0)
    world = World(plane_track(), car, 2, settings=WorldSettings(group_size=2))
    world.reset(s=[0.0, 9.0], lateral=[0.0, 0.5], heading_error=[0.0, 0.3], speed=[25.0, 5.0])
    for _ in range(60):
        before, energy = momentum(world), float(np.sum(world.vx**2 + world.vy**2))
        world.step(np.zeros((2, 2)))
        if world.touched_car.any():
            break
    assert world.touched_car.all()
    assert world.impact[0] > 5.0
    assert abs(momentum(world) - before) < 0.005 * abs(before)
    spin = np.sum(world.yaw_rate**2) * car.yaw_inertia / car.mass
    assert float(np.sum(world.vx**2 + world.vy**2)) + spin < 0.99 * energy
    assert world.vx[0] < 20.0


def test_ghosts_and_worlds_without_contact_pass_through() -> None:
    for settings, ghost in ((WorldSettings(group_size=2), True), (WorldSettings(group_size=2, contact=False), False)):
        world = World(stadium_track(), "gt", 2, settings=settings)
        world.ghost[:] = ghost
        world.reset(s=[0.0, 15.0], lateral=0.0, heading_error=0.0, speed=[25.0, 0.0])
        for _ in range(40):
            world.step(np.zeros((2, 2)))
            assert not world.touched_car.any()
        assert world.s[0] > world.s[1]


def test_groups_do_not_touch_each_other() -> None:
    world = World(stadium_track(), "gt", 4, settings=WorldSettings(group_size=2))
    world.reset(s=[0.0, 50.0, 0.0, 50.0], lateral=0.0, heading_error=0.0, speed=10.0)
    world.step(np.zeros((4, 2)))
    assert not world.collided.any()


@pytest.mark.parametrize("angle", [0.2, 0.8, -1.5])
def test_a_wall_stops_the_car_and_keeps_it_in(angle: float) -> None:
    world = World(stadium_track(), "gt", 1, settings=WorldSettings(edge="wall"))
    world.reset(s=20.0, lateral=0.0, heading_error=angle, speed=20.0)
    hit = 0.0
    for _ in range(120):
        world.step([[0.0, 0.3]])
        hit = max(hit, float(world.impact[0]))
        assert abs(world.lateral[0]) < 8.0
        assert world.wheels_off[0] == 0
    assert 1.0 < hit < 21.0


def test_grass_is_slower_and_counts_wheels() -> None:
    speeds = {}
    for lateral in (0.0, -8.0, -12.0):
        world = World(stadium_track(), "gt", 1)
        world.reset(s=0.0, lateral=lateral, heading_error=0.0, speed=25.0)
        for _ in range(40):
            world.step([[0.0, 0.2]])
        speeds[lateral] = float(world.vx[0])
        assert world.wheels_off[0] == {0.0: 0, -8.0: 2, -12.0: 4}[lateral]
        assert world.off_track[0] == (lateral == -12.0)
    assert speeds[0.0] > speeds[-8.0] + 1.0 > speeds[-12.0] + 2.0


@pytest.mark.parametrize("margin", [1e-9, 0.3, 4.0])
def test_near_edge_is_the_farthest_corner_within_the_margin(margin: float) -> None:
    count, radius, half_width, car = 400, 60.0, 8.0, CARS["gt"]
    track = circle_track(radius, half_width, points=4_000)
    world, random = World(track, car, count), np.random.default_rng(0)
    s, lateral = random.uniform(0.0, track.length, count), random.uniform(-14.0, 14.0, count)
    world.reset(s=s, lateral=lateral, heading_error=random.uniform(-3.0, 3.0, count), speed=0.0)
    world.step(np.zeros((count, 2)))
    forward = 0.5 * car.length * np.array([1, 1, -1, -1])
    sideways = 0.5 * car.width * np.array([1, -1, 1, -1])
    turned = np.exp(1j * world.heading.astype(float))[:, None]
    corners = (world.x + 1j * world.y)[:, None] + (forward + 1j * sideways) * turned
    beyond = np.abs(np.abs(corners) - radius) - half_width
    near = world.near_edge(margin)
    assert np.array_equal(world.wheels_off, (beyond > 0.0).sum(1))
    if margin == 1e-9:
        assert np.array_equal(near > 0.0, world.wheels_off > 0)
    else:
        np.testing.assert_allclose(near, np.clip(1.0 + beyond.max(1) / margin, 0.0, 1.0), atol=1e-3 / margin)
        assert ((near > 0.1) & (world.wheels_off == 0)).sum() > 5


def test_a_crash_freezes_the_car_until_it_is_reset() -> None:
    world = World(stadium_track(), "gt", 2, settings=WorldSettings(edge="crash"))
    world.reset(s=0.0, lateral=0.0, heading_error=[0.5, 0.0], speed=20.0)
    for _ in range(60):
        world.step(np.tile([0.0, 1.0], (2, 1)))
    assert list(world.crashed) == [True, False]
    x = world.x[0]
    world.step(np.tile([0.0, 1.0], (2, 1)))
    assert world.x[0] == x
    assert world.progress_gain[0] == 0.0
    world.reset(np.array([True, False]))
    assert not world.crashed.any()


@pytest.mark.parametrize("effect", ["solid", "crash", "ghost"])
def test_obstacles_have_the_chosen_effect(effect: str) -> None:
    track = stadium_track()
    track = replace(track, obstacles=np.array([[track.x[40], track.y[40], 1.0]]))
    world = World(track, "gt", 1, settings=WorldSettings(obstacles=effect))
    world.reset(s=10.0, lateral=0.0, heading_error=0.0, speed=20.0)
    collided = False
    for _ in range(60):
        world.step([[0.0, 0.0]])
        collided |= bool(world.collided[0])
        if effect == "solid":
            gap = np.hypot(world.x[0] - track.x[40], world.y[0] - track.y[40])
            assert gap > 1.0 + 0.5 * CARS["gt"].width - 0.05
    assert collided == (effect != "ghost")
    assert bool(world.crashed[0]) == (effect == "crash")


def test_random_starts_are_on_the_road_and_free_of_obstacles() -> None:
    track = with_obstacles(load_track("serpent"), 12, 5)
    settings = WorldSettings(start=StartSettings(lateral=1.0, heading=0.1, speed=(0.0, 5.0)), edge="wall")
    world = World(track, "gt", 600, settings=settings)
    assert (world.lateral < world.left_width).all()
    assert (-world.lateral < world.right_width).all()
    gaps = np.hypot(world.x[:, None] - track.obstacles[:, 0], world.y[:, None] - track.obstacles[:, 1])
    assert (gaps > track.obstacles[:, 2] + 0.5 * CARS["gt"].width).all()
    assert np.ptp(world.s) > 0.9 * track.length


def test_a_grid_of_cars_starts_without_touching_and_races() -> None:
    track = load_track("meadow")
    settings = WorldSettings(group_size=8, start=StartSettings("grid"))
    world = World(track, "gt", 16, settings=settings)
    world.step(np.zeros((16, 2)))
    assert not world.collided.any()
    assert (world.vx == 0.0).all()
    car = CARS["gt"]
    for _ in range(200):
        world.step(follow(world, track, 15.0, car.wheelbase, car.steer_limit))
    assert (world.distance > 50.0).all()


def test_cars_on_many_tracks_and_misuse() -> None:
    tracks = [circle_track(50.0), stadium_track(), load_track("meadow")]
    world = World(tracks, "gt", 9)
    assert list(world.track_index) == [0, 1, 2] * 3
    np.testing.assert_allclose(world.track_length, [track.length for track in tracks] * 3)
    world.reset(track_index=np.full(9, 2))
    assert (world.track_index == 2).all()
    with pytest.raises(InputError, match="allowed: 0 to 2"):
        world.reset(track_index=np.full(9, 3))
    with pytest.raises(InputError, match="multiple of the group size"):
        World(tracks, "gt", 3, settings=WorldSettings(group_size=2))
    with pytest.raises(InputError, match="same track"):
        World(tracks, "gt", 2, settings=WorldSettings(group_size=2), track_index=[0, 1])


def test_parameters_can_differ_by_car_and_be_redrawn_at_each_reset() -> None:
    settings = WorldSettings(randomise={"mass": (0.5, 2.0)})
    world = World(circle_track(), "gt", 100, settings=settings)
    first = world.parameters[:, 0].copy()
    assert np.ptp(first) > 500.0
    half = np.arange(100) < 50
    world.reset(half)
    assert (world.parameters[:50, 0] != first[:50]).all()
    np.testing.assert_array_equal(world.parameters[50:, 0], first[50:])


def test_memory_per_car_is_small() -> None:
    assert World(circle_track(), "gt", 4096).bytes_per_car < 1024

import numpy as np
import pytest
from real_circuits import NAMES, needs_real_circuits, real_circuit

from paddock.sim.cars.car import CARS
from paddock.sim.reference.classical_driver import ClassicalDriver
from paddock.sim.reference.classical_laps import classical_laps
from paddock.sim.reference.detour import line_past_obstacles
from paddock.sim.reference.lap import reference_lap
from paddock.sim.settings import StartSettings, WorldSettings
from paddock.sim.tracks.circuits import circuit_names, load_circuit
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track
from paddock.sim.world import World

HALF = len(circuit_names()) // 2


def assert_clean(names: list[str], car: str) -> None:
    for lap in classical_laps([load_track(name).sized_for(CARS[car].width) for name in names], car):
        assert lap.off_track == 0, lap
        assert lap.ratio < 1.08, lap
        assert lap.ratio > 0.99, lap


@pytest.mark.parametrize("names", [circuit_names()[:HALF], circuit_names()[HALF:]], ids=["easier", "harder"])
def test_every_circuit_is_lapped_cleanly_within_8_per_cent(names: tuple[str, ...]) -> None:
    assert_clean(list(names), "gt")


@needs_real_circuits
@pytest.mark.parametrize("names", [NAMES[:3], NAMES[3:]], ids=["B-N", "S-Z"])
def test_real_circuits_are_lapped_cleanly_within_8_per_cent(names: tuple[str, ...]) -> None:
    assert_clean([real_circuit(name) for name in names], "gt")


@pytest.mark.parametrize("car", ["arcade", "f1tenth", "road"])
def test_the_other_cars_are_driven_too(car: str) -> None:
    assert_clean(["kidney", "meadow", "harbour"], car)


def test_no_wheel_leaves_the_road_where_leaving_is_a_crash() -> None:
    settings = WorldSettings(edge="crash", crash_corners=1)
    (lap,) = classical_laps([load_circuit("meadow")], "gt", settings=settings)
    assert lap.wheels_off == 0
    assert lap.ratio < 1.08


@pytest.mark.parametrize("car", ["arcade", "f1tenth", "gt", "road"])
def test_obstacles_are_driven_around(car: str) -> None:
    roads = [load_circuit(name).sized_for(CARS[car].width) for name in ("kidney", "meadow", "harbour")]
    for lap in classical_laps([with_obstacles(road, 8, seed) for seed, road in enumerate(roads)], car):
        assert lap.collided == lap.off_track == 0, lap
        assert lap.ratio < 1.2, lap


def test_a_line_past_obstacles_is_the_line_itself_where_there_are_none() -> None:
    track, car = load_circuit("kidney"), CARS["gt"]
    offset = reference_lap(track, "gt").offset
    assert line_past_obstacles(track, car, offset, 0.3) is offset
    crowded = with_obstacles(track, 8, 1)
    assert reference_lap(crowded, "gt").track is crowded
    points = crowded.offset_points(line_past_obstacles(crowded, car, offset, 0.3))
    for x, y, radius in crowded.obstacles:
        assert np.hypot(points[:, 0] - x, points[:, 1] - y).min() > radius + 0.5 * car.width + 0.3
    straight_on = crowded.offset_points(offset)
    gaps = [np.hypot(straight_on[:, 0] - x, straight_on[:, 1] - y).min() - r for x, y, r in crowded.obstacles]
    assert min(gaps) < 0.5 * car.width


def test_cars_set_down_anywhere_find_back_to_the_line() -> None:
    track = load_circuit("meadow")
    driver = ClassicalDriver(reference_lap(track, "gt"), "gt")
    start = StartSettings(place="random", lateral=0.8, heading=0.3, speed=(0.0, 10.0))
    world = World(track, "gt", 64, settings=WorldSettings(start=start), seed=3)
    for _ in range(30 * 20):
        world.step(driver.act(world))
    offset = np.interp(world.s, track.s, driver.line.offset)
    assert np.abs(world.lateral - offset).max() < 1.0
    assert world.distance.min() > 500.0


def test_a_car_is_driven_the_same_in_any_company() -> None:
    track = load_circuit("kidney")
    driver = ClassicalDriver(reference_lap(track, "gt"), "gt")
    world = World(track, "gt", 16, seed=1)
    together = driver.act(world)
    assert together.shape == (16, 2)
    assert together.dtype == np.float32
    assert np.abs(together).max() <= 1.0
    alone = np.vstack([driver.act(world, np.array([index])) for index in range(16)])
    assert np.array_equal(together, alone)

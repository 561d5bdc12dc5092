"""The car's physics against closed forms: brakes, power, grip, energy, convergence, and any action at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world_tracks import circle_track, plane_track

from paddock.core.errors import InputError
from paddock.sim.car import (
    CARS,
    GEAR_RATIOS,
    PARAMETER_COUNT,
    PARAMETER_INDEX,
    TYRE_CIRCUMFERENCE,
    CarParameters,
    load_car,
    randomised_cars,
)
from paddock.sim.settings import WorldSettings
from paddock.sim.world import World

DYNAMIC = ("f1tenth", "gt", "road")
PLANE = plane_track()


def on_plane(car: str | CarParameters, num_cars: int = 1, **options: object) -> World:
    world = World(PLANE, car, num_cars, settings=WorldSettings(**options))  # type: ignore[arg-type]
    world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=0.0)
    return world


def test_parameters_become_a_vector_in_the_order_of_the_fields() -> None:
    gt = load_car("gt")
    vector = gt.to_vector()
    assert vector.shape == (PARAMETER_COUNT,)
    for name, index in PARAMETER_INDEX.items():
        assert vector[index] == np.float32(getattr(gt, name))


def test_unknown_names_and_impossible_values_are_explained() -> None:
    with pytest.raises(InputError, match="Did you mean 'f1tenth'"):
        load_car("f1tent")
    with pytest.raises(InputError, match=r"friction.*above 0"):
        load_car("gt").with_changes(friction=-1.0)
    with pytest.raises(InputError, match="Did you mean 'mass'"):
        load_car("gt").with_changes(mas=1.0)
    with pytest.raises(InputError, match="0 < low <= high"):
        randomised_cars("gt", 2, {"mass": (1.2, 0.8)})


def test_randomised_cars_stay_within_their_ranges() -> None:
    cars = randomised_cars("gt", 500, {"mass": (0.8, 1.2), "friction": (0.9, 1.0)}, seed=3)
    factor = cars[:, PARAMETER_INDEX["mass"]] / CARS["gt"].mass
    assert 0.8 <= factor.min() < 0.82
    assert 1.18 < factor.max() <= 1.2
    untouched = cars[:, PARAMETER_INDEX["yaw_inertia"]]
    assert (untouched == CARS["gt"].yaw_inertia).all()


@pytest.mark.parametrize("car", CARS)
def test_braking_distance_matches_the_closed_form(car: str) -> None:
    parameters = CARS[car]
    start = min(40.0, 0.9 * parameters.top_speed)
    world = on_plane(car, allow_reverse=False)
    world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=start)
    x, y = world.x[0], world.y[0]
    for _ in range(300):
        world.step([[0.0, -1.0]])
    speeds = np.linspace(1e-6, start, 20_001)
    deceleration = (parameters.brake_limit(speeds) + parameters.drag_force(speeds)) / parameters.mass
    expected = np.trapezoid(speeds / deceleration, speeds)
    assert np.hypot(world.x[0] - x, world.y[0] - y) == pytest.approx(expected, rel=0.005)
    assert world.vx[0] == 0.0


@pytest.mark.parametrize("car", CARS)
def test_acceleration_matches_engine_and_drag(car: str) -> None:
    parameters = CARS[car]
    world = on_plane(car)
    speed, step = 0.0, 0.001
    for _ in range(160):
        world.step([[0.0, 1.0]])
        for _ in range(50):
            force = parameters.drive_limit(speed) - parameters.drag_force(speed)
            speed += float(force) / parameters.mass * step
    assert world.vx[0] == pytest.approx(speed, rel=0.01)


def steady_turns(car: CarParameters, speed: float, count: int = 1024) -> tuple[np.ndarray, np.ndarray]:
    """(lateral acceleration m/s2, speed m/s) of cars that settled into a turn, over a sweep of steering."""
    world = World(PLANE, car, count)
    world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=speed)
    needed = car.wheelbase * float(car.lateral_limit(speed)) / speed**2 / car.steer_limit
    steer = np.linspace(0.0, min(1.0, 3.0 * needed), count)
    yaw_rate = slip = np.zeros(count)
    for step in range(410):
        if step == 400:
            yaw_rate, slip = world.yaw_rate.copy(), np.arctan2(world.vy, world.vx)
        pace = np.hypot(world.vx, world.vy)
        world.step(np.stack([steer * min(1.0, step / 200), np.clip(speed - pace, -1.0, 1.0)], axis=1))
    pace = np.hypot(world.vx, world.vy)
    turned = np.arctan2(world.vy, world.vx)
    settled = (np.abs(world.yaw_rate - yaw_rate) < 0.01 * np.abs(yaw_rate)) & (np.abs(turned - slip) < 0.003)
    settled &= np.abs(turned) < 0.3
    return (pace * world.yaw_rate)[settled], pace[settled]


@pytest.mark.parametrize("name", DYNAMIC)
def test_steady_cornering_reaches_and_never_exceeds_the_limit(name: str) -> None:
    car = CARS[name]
    lateral, speed = steady_turns(car, 0.4 * car.top_speed)
    share = lateral / car.lateral_limit(speed)
    assert 0.96 < share.max() < 1.04
    front, rear = car.axle_grips(speed)
    assert (lateral < 1.005 * (front + rear) / car.mass).all()


def test_cornering_with_stiff_tyres_matches_mu_g_within_two_percent() -> None:
    """Hardly any slip, so no grip is spent on driving against it, and no load moves: the textbook's v^2 / r."""
    car = CARS["f1tenth"].with_changes(cg_height=0.0, front_stiffness=30.0, rear_stiffness=33.0)
    lateral, _ = steady_turns(car, 8.0)
    assert lateral.max() == pytest.approx(car.friction * 9.81, rel=0.02)


@pytest.mark.parametrize("name", DYNAMIC)
def test_neither_power_nor_grip_is_ever_exceeded(name: str) -> None:
    car = CARS[name]
    generator = np.random.default_rng(5)
    count = 512
    world = World(PLANE, name, count)
    world.reset(s=0.0, lateral=0.0, speed=generator.uniform(2.0 * car.blend_speed, 0.8 * car.top_speed, count))
    grip = car.friction * (9.81 + (car.front_downforce + car.rear_downforce) * car.top_speed**2 / car.mass)
    action = np.zeros((count, 2))
    for step in range(300):
        if step % 8 == 0:
            action = generator.uniform(-1.0, 1.0, (count, 2))
        energy = 0.5 * car.mass * (world.vx**2 + world.vy**2) + 0.5 * car.yaw_inertia * world.yaw_rate**2
        velocity = np.exp(1j * world.heading) * (world.vx + 1j * world.vy)
        speed = np.hypot(world.vx, world.vy)
        moving = (speed > 3.0 * car.blend_speed) & ((world.vx > 0.0) | (speed > 5.0 * car.reverse_speed))
        world.step(action)
        gained = 0.5 * car.mass * (world.vx**2 + world.vy**2) + 0.5 * car.yaw_inertia * world.yaw_rate**2 - energy
        moving &= (world.vx > 0.0) | (speed > 5.0 * car.reverse_speed)
        change = np.exp(1j * world.heading) * (world.vx + 1j * world.vy) - velocity
        assert (gained[moving] <= 1.001 * car.power * 0.05 + 1e-3 * energy[moving]).all()
        assert (np.abs(change[moving]) / 0.05 <= 1.02 * grip + car.drag * car.top_speed**2 / car.mass).all()


@pytest.mark.parametrize("name", DYNAMIC)
def test_five_substeps_are_close_to_converged(name: str) -> None:
    car = CARS[name]
    ends = {}
    for substeps in (5, 10, 64):
        world = on_plane(name, substeps=substeps)
        world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=0.5 * car.top_speed)
        amplitude = 0.5 * car.wheelbase * float(car.lateral_limit(0.5 * car.top_speed)) / (0.5 * car.top_speed) ** 2
        for step in range(80):
            steer = amplitude / car.steer_limit * np.sin(2.0 * np.pi * step / 40)
            world.step([[steer, 0.2]])
        ends[substeps] = np.array([world.x[0], world.y[0]])
        travelled = world.distance[0]
    error_five = np.hypot(*(ends[5] - ends[64])) / travelled
    error_ten = np.hypot(*(ends[10] - ends[64])) / travelled
    assert error_five < 0.005
    assert error_ten < 0.6 * error_five + 1e-4


@pytest.mark.parametrize("car", CARS)
def test_a_car_left_alone_stands_still(car: str) -> None:
    world = on_plane(car)
    x, y, heading = world.x[0], world.y[0], world.heading[0]
    for steer in np.linspace(-1.0, 1.0, 100):
        world.step([[steer, 0.0]])
    assert (world.x[0], world.y[0], world.heading[0]) == (x, y, heading)
    assert world.vx[0] == world.vy[0] == world.yaw_rate[0] == 0.0


@pytest.mark.parametrize("car", CARS)
def test_reverse_is_kinematic_and_tame(car: str) -> None:
    parameters = CARS[car]
    world = on_plane(car)
    for _ in range(200):
        world.step([[1.0, -1.0]])
    assert -1.05 * parameters.reverse_speed < world.vx[0] < -0.8 * parameters.reverse_speed
    if parameters.turn_rate == 0:
        rolling = world.vx[0] * np.tan(world.steer[0]) / parameters.wheelbase
        gripping = parameters.friction * 9.81 / world.vx[0]
        assert world.yaw_rate[0] == pytest.approx(max(rolling, gripping), rel=0.1)
    assert world.gear[0] == 0


def test_reverse_can_be_forbidden() -> None:
    world = on_plane("gt", allow_reverse=False)
    for _ in range(50):
        world.step([[0.5, -1.0]])
    assert world.vx[0] == 0.0


def test_arcade_has_the_top_speed_and_turn_rate_it_was_given() -> None:
    car = CARS["arcade"].with_changes(top_speed=17.0, turn_rate=0.7)
    world = on_plane(car)
    for _ in range(200):
        world.step([[1.0, 1.0]])
    assert world.yaw_rate[0] == pytest.approx(0.7, rel=1e-3)
    assert world.vx[0] == pytest.approx(17.0, rel=0.02)


def test_gears_follow_the_formula_and_do_not_hunt() -> None:
    world = on_plane("gt")
    gears = []
    for step in range(600):
        world.step([[0.0, 1.0 if step < 500 else -0.2]])
        gears.append(int(world.gear[0]))
        expected = 60.0 * world.vx[0] / (TYRE_CIRCUMFERENCE * GEAR_RATIOS[gears[-1] - 1])
        assert world.rpm[0] == pytest.approx(expected, rel=1e-4)
    assert max(gears) >= 6
    assert np.abs(np.diff(gears)).max() == 1
    assert (np.diff(gears[:500]) >= 0).all()


@settings(max_examples=25, deadline=None)
@given(
    car=st.sampled_from(sorted(CARS)),
    seed=st.integers(0, 2**31 - 1),
    hold=st.integers(1, 30),
    speed=st.floats(0.0, 1.0),
    turned=st.floats(-np.pi, np.pi),
    edge=st.sampled_from(["grass", "wall"]),
)
def test_any_action_sequence_keeps_the_state_sound(
    car: str, seed: int, hold: int, speed: float, turned: float, edge: str
) -> None:
    generator = np.random.default_rng(seed)
    scale = 0.1 if car == "f1tenth" else 1.0
    world = World(circle_track(60.0, 7.0).scaled(scale), car, 64, settings=WorldSettings(edge=edge))
    world.reset(s=0.0, heading_error=turned, speed=speed * CARS[car].top_speed)
    action = np.zeros((64, 2))
    for step in range(120):
        if step % hold == 0:
            action = generator.choice([-1.0, -0.3, 0.0, 0.4, 1.0, np.nan, 5.0], (64, 2))
        world.step(action)
    for values in (world.x, world.y, world.heading, world.vx, world.vy, world.yaw_rate, world.steer, world.s):
        assert np.isfinite(values).all()
    assert (np.hypot(world.vx, world.vy) <= 1.3 * CARS[car].top_speed).all()
    assert (np.abs(world.yaw_rate) < 60.0).all()
    assert (np.abs(world.steer) <= CARS[car].steer_limit * 1.0001).all()

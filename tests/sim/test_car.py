"""The car's physics against closed forms: brakes, power, grip, energy, convergence, and any action at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world_tracks import circle_track, plane_track

from paddock.core.errors import InputError
from paddock.sim.cars.car import (
    CARS,
    GEAR_RATIOS,
    PARAMETER_COUNT,
    PARAMETER_INDEX,
    TYRE_CIRCUMFERENCE,
    CarParameters,
    engine_force,
    load_car,
)
from paddock.sim.reference.speed_profile import slip_angle
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
        WorldSettings(randomise={"mass": (1.2, 0.8)})


def test_randomised_parameters_stay_within_their_ranges() -> None:
    ranges = {"mass": (0.8, 1.2), "friction": (0.9, 1.0)}
    cars = World(PLANE, "gt", 500, settings=WorldSettings(randomise=ranges), seed=3).parameters
    factor = cars[:, PARAMETER_INDEX["mass"]] / CARS["gt"].mass
    assert 0.8 <= factor.min() < 0.82
    assert 1.18 < factor.max() <= 1.2
    untouched = cars[:, PARAMETER_INDEX["yaw_inertia"]]
    assert (untouched == CARS["gt"].yaw_inertia).all()


def straight_force(car: CarParameters, demand: Any, speed: Any, sign: float) -> Any:
    """The part of `demand` [N] that the tyres transmit in a straight line, `sign` 1 for drive and -1 for brakes."""
    force, drag = demand, car.drag_force(speed)
    for _ in range(8):  # load transfer and force depend on each other; the loop contracts by mu * h / L
        acceleration = (sign * force - drag) / car.mass
        front, rear = car.axle_loads(speed, acceleration)
        front_grip, rear_grip = car.axle_grips(speed, acceleration)
        share = front / (front + rear) if sign < 0 or car.drive_front < 0 else car.drive_front
        front_force = np.minimum(demand * share, car.traction_limit * front_grip)
        force = front_force + np.minimum(demand * (1.0 - share), car.traction_limit * rear_grip)
    return force


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
    braking = straight_force(parameters, np.full_like(speeds, parameters.brake_force), speeds, -1.0)
    deceleration = (braking + parameters.drag_force(speeds)) / parameters.mass
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
            engine = engine_force(speed, parameters.drive_force, parameters.power, parameters.top_speed)
            force = straight_force(parameters, engine, speed, 1.0) - parameters.drag_force(speed)
            speed += float(force) / parameters.mass * step
    assert world.vx[0] == pytest.approx(speed, rel=0.01)


def steady_limit(car: CarParameters, speed: float) -> tuple[float, float]:
    """(largest v^2 / r in m/s2, steering for it in rad) of a car that holds its speed in a turn.

    The axles' grip is mu Fz (1 + eps Fz / Fz0) with downforce in Fz. Their lateral forces balance in yaw, so one of
    them gives way first. What holds the speed (drag, rolling, the front tyres' pull backwards) is driven by the same
    tyres, within the friction ellipse. The nose points off the course by the rear tyres' slip, so a part of the
    centripetal acceleration lies along the car and shifts load between the axles. Solved by damped iteration.
    """
    front, rear, mass = car.front_length, car.rear_length, car.mass
    lateral, drift, steer, front_force = 5.0, 0.0, 0.0, 0.0
    resistance = float(car.drag_force(speed)) / speed  # N per m/s of either component of the velocity
    for _ in range(300):
        vx, vy, yaw_rate = speed * np.cos(drift), speed * np.sin(drift), lateral / speed
        along = -yaw_rate * vy
        front_load, rear_load = car.axle_loads(vx, along)
        front_grip, rear_grip = car.axle_grips(vx, along)
        drive = mass * along + resistance * vx + front_force * np.sin(steer)
        share = car.drive_front if car.drive_front >= 0 else front_load / (front_load + rear_load)
        pull = drive * share * np.sin(steer)
        front_left = np.sqrt(front_grip**2 - (drive * share) ** 2)
        rear_left = np.sqrt(rear_grip**2 - (drive * (1.0 - share)) ** 2)
        front_across = min(front_left * np.cos(steer) + pull, rear_left * rear / front)
        front_force, rear_force = (front_across - pull) / np.cos(steer), front_across * front / rear
        front_slip = float(slip_angle(car, front_force / front_left, car.front_stiffness))
        rear_slip = float(slip_angle(car, rear_force / rear_left, car.rear_stiffness))
        needed = (front_across + rear_force - resistance * vy) / (mass * np.cos(drift))
        lateral += 0.1 * (float(needed) - lateral)
        drift += 0.1 * (np.arctan(rear * yaw_rate / vx - np.tan(rear_slip)) - drift)
        steer += 0.1 * (front_slip + np.arctan((vy + front * yaw_rate) / vx) - steer)
    return lateral, float(steer)


def steady_turns(car: CarParameters, speed: float, steer: float) -> np.ndarray:
    """v^2 / r [m/s2] of cars that settled into a turn, their steering swept around `steer` rad; r from their path."""
    count, before, steps = 128, 600, 620
    world = World(PLANE, car, count)
    world.reset(s=0.0, lateral=0.0, heading_error=0.0, speed=speed)
    command = np.clip(np.linspace(0.7, 1.3, count) * steer / car.steer_limit, 0.0, 1.0)
    turned, travelled, drift = np.zeros(count), np.zeros(count), np.zeros(count)
    for step in range(steps):
        x, y, heading, pace = world.x.copy(), world.y.copy(), world.heading.copy(), np.hypot(world.vx, world.vy)
        if step == before:
            drift, first_pace, yaw_rate = np.arctan2(world.vy, world.vx), pace, world.yaw_rate.copy()
        world.step(np.stack([command * min(1.0, step / 300), np.clip(speed - pace, -1.0, 1.0)], axis=1))
        if step >= before:
            turned += np.angle(np.exp(1j * (world.heading - heading)))
            travelled += np.hypot(world.x - x, world.y - y)
    pace, drifted = np.hypot(world.vx, world.vy), np.arctan2(world.vy, world.vx) - drift
    settled = (np.abs(drifted) < 0.003) & (np.abs(pace / first_pace - 1.0) < 0.003)
    settled &= np.abs(world.yaw_rate / yaw_rate - 1.0) < 0.01
    return (pace**2 * (turned + drifted) / travelled)[settled]


@pytest.mark.parametrize("share", [0.2, 0.3, 0.4])
@pytest.mark.parametrize("name", DYNAMIC)
def test_steady_cornering_matches_the_closed_form_within_two_percent(name: str, share: float) -> None:
    """Above these speeds the rear of the `gt` gives way first, and no fixed steering holds it at its limit."""
    car = CARS[name]
    speed = share * car.top_speed
    limit, steer = steady_limit(car, speed)
    lateral = steady_turns(car, speed, steer)
    assert lateral.max() == pytest.approx(limit, rel=0.02)
    weight_and_air = car.mass * 9.81 + (car.front_downforce + car.rear_downforce) * speed**2
    assert lateral.max() <= 1.005 * car.friction * weight_and_air / car.mass


@pytest.mark.parametrize("share", [0.2, 0.3, 0.4])
@pytest.mark.parametrize("name", DYNAMIC)
def test_lateral_limit_matches_the_closed_form_within_five_percent(name: str, share: float) -> None:
    """The reference lap's limit leaves out the steering's geometry and a nose that points outwards at low speed."""
    car = CARS[name]
    limit, _ = steady_limit(car, share * car.top_speed)
    assert float(car.lateral_limit(share * car.top_speed)) == pytest.approx(limit, rel=0.05)


def test_cornering_with_stiff_tyres_is_the_textbooks_within_two_percent() -> None:
    """Hardly any slip, so no grip is spent on driving against it, and no load moves: v^2 / r = mu g."""
    car = CARS["f1tenth"].with_changes(cg_height=0.0, front_stiffness=30.0, rear_stiffness=33.0)
    _, steer = steady_limit(car, 8.0)
    assert steady_turns(car, 8.0, steer).max() == pytest.approx(car.friction * 9.81, rel=0.02)


def test_an_arcade_car_turns_as_fast_as_it_was_told() -> None:
    car = CARS["arcade"]
    lateral = steady_turns(car, 20.0, car.steer_limit)
    assert lateral.max() == pytest.approx(20.0 * car.turn_rate, rel=0.02)
    assert float(car.lateral_limit(20.0)) == pytest.approx(20.0 * car.turn_rate)


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

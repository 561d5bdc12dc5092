"""The same seed gives the same bits: for any number of threads, of other cars, and after a restored state."""

from __future__ import annotations

import multiprocessing
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import pytest
from real_circuits import NAMES, needs_real_circuits, real_circuit
from world_tracks import circle_track, stadium_track

from paddock.core.errors import InputError
from paddock.sim.cars.car import CARS
from paddock.sim.kernels.launch import get_threads, set_threads
from paddock.sim.settings import (
    CameraSettings,
    CourseSettings,
    Imperfection,
    RaySettings,
    StartSettings,
    TelemetrySettings,
    WorldSettings,
)
from paddock.sim.tracks.circuits import circuit_names, load_circuit
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track
from paddock.sim.world import World

FLAWED = Imperfection(noise=0.3, dropout=0.1, latency=2)
EVERYTHING = WorldSettings(
    start=StartSettings(lateral=0.5, heading=0.2, speed=(2.0, 20.0)),
    randomise={"mass": (0.8, 1.2), "friction": (0.7, 1.0)},
    random_track=True,
    action_delay=1,
    action_jitter=2,
    rays=RaySettings(history=3, imperfection=FLAWED),
    course=CourseSettings(imperfection=FLAWED),
    telemetry=TelemetrySettings(imperfection=FLAWED),
    camera=CameraSettings(width=16, height=12, imperfection=Imperfection(noise=4.0, dropout=0.1, latency=1)),
)
TRACKS = [with_obstacles(stadium_track(), 6, 1), circle_track(80.0)]


def run(world: World, steps: int, seed: int = 7) -> None:
    """Actions depend on the car's number and the step alone."""
    number = np.arange(world.num_cars)
    for step in range(steps):
        steer = np.sin(0.37 * number + 0.11 * step + seed)
        throttle = np.cos(0.53 * number + 0.05 * step)
        resets = (number + step) % 41 == 0
        world.step(np.stack([steer, throttle], axis=1), reset_mask=resets)


def digest(world: World, cars: int) -> dict[str, Any]:
    state = {name: getattr(world, name)[:cars].copy() for name in ("x", "y", "heading", "vx", "s", "rays", "course")}
    state |= {name: getattr(world, name)[:cars].copy() for name in ("telemetry", "camera", "parameters", "track_index")}
    return state


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


def test_runs_from_one_seed_are_identical_and_seeds_differ() -> None:
    worlds = [World(TRACKS, "gt", 40, settings=EVERYTHING, seed=seed) for seed in (3, 3, 4)]
    for world in worlds:
        run(world, 90)
    assert_same(digest(worlds[0], 40), digest(worlds[1], 40))
    assert not np.array_equal(worlds[0].rays, worlds[2].rays)


def test_threads_do_not_matter() -> None:
    threads = get_threads()
    results = []
    try:
        for count in {1, threads}:
            set_threads(count)
            world = World(TRACKS, "gt", 300, settings=EVERYTHING, seed=1)
            run(world, 60)
            results.append(digest(world, 300))
    finally:
        set_threads(threads)
    assert_same(results[0], results[-1])
    with pytest.raises(InputError, match="threads"):
        set_threads(0)


@pytest.mark.parametrize("count", [1, 5, 33, 200])
def test_other_cars_do_not_matter(count: int) -> None:
    crowd = World(TRACKS, "gt", 200, settings=EVERYTHING, seed=2)
    few = World(TRACKS, "gt", count, settings=EVERYTHING, seed=2)
    run(crowd, 60)
    run(few, 60)
    assert_same(digest(few, count), digest(crowd, count))


def test_a_restored_state_goes_on_bit_for_bit() -> None:
    world = World(TRACKS, "gt", 50, settings=EVERYTHING, seed=9)
    run(world, 50)
    state = world.get_state()
    run(world, 50, seed=1)
    expected = world.get_state()
    other = World(TRACKS, "gt", 50, settings=EVERYTHING, seed=0)
    other.set_state(state)
    run(other, 50, seed=1)
    restored = other.get_state()
    for name, values in expected.items():
        np.testing.assert_array_equal(values, restored[name], err_msg=name)


def test_a_state_of_another_world_is_refused() -> None:
    world = World(TRACKS, "gt", 4)
    with pytest.raises(InputError, match="same settings"):
        World(TRACKS, "gt", 80).set_state(world.get_state())
    with pytest.raises(InputError, match="not a state"):
        world.set_state({})


def test_reset_with_a_seed_restarts_the_streams() -> None:
    world = World(TRACKS, "gt", 30, settings=EVERYTHING, seed=5)
    run(world, 30)
    first = digest(world, 30)
    world.reset(seed=5)
    run(world, 30)
    assert_same(first, digest(world, 30))


def _positions(queue: Any) -> None:
    world = World(TRACKS, "gt", 300, seed=1)
    run(world, 20)
    queue.put(world.x.tobytes())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_drives_on_after_its_parent_did() -> None:
    here: Any = SimpleQueue()
    _positions(here)
    context = multiprocessing.get_context("fork")
    there = context.Queue()
    child = context.Process(target=_positions, args=(there,))
    child.start()
    assert there.get(timeout=60) == here.get()
    child.join(10)
    assert child.exitcode == 0


def test_two_threads_may_drive_two_worlds_at_once() -> None:
    alone: Any = SimpleQueue()
    _positions(alone)
    together: Any = SimpleQueue()
    threads = [Thread(target=_positions, args=(together,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together.get() == together.get() == alone.get()


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=needs_real_circuits)], ids=["shipped", "real"])
def test_ten_million_random_car_steps_stay_finite(real: bool) -> None:
    """Over every car and circuit, with resets on the way; hypothesis varies starts and actions elsewhere."""
    generator = np.random.default_rng(0)
    shipped = [*TRACKS, circle_track(30.0, 5.0), *(load_circuit(name) for name in circuit_names())]
    tracks = [load_track(real_circuit(name)) for name in NAMES] if real else shipped
    start = StartSettings(lateral=0.9, heading=3.0, speed=(0, 20))
    for car in sorted(CARS):
        world = World(
            [track.sized_for(CARS[car].width) for track in tracks], car, 8192, settings=WorldSettings(start=start)
        )
        for step in range(308):  # times 8,192 cars times 4 kinds of car: 10.1 million
            if step % 5 == 0:
                action = generator.uniform(-1.5, 1.5, (8192, 2)).astype(np.float32)
            world.step(action, reset_mask=generator.random(8192) < 0.002)
            for name in ("x", "y", "heading", "vx", "vy", "yaw_rate", "s", "lateral", "longitudinal_acceleration"):
                assert np.isfinite(getattr(world, name)).all(), (car, name, step)

"""How fast the racing world is, beside Gymnasium's CarRacing-v3 in the same run.

python benchmarks/simulator.py            all of it, about a minute and a half
python benchmarks/simulator.py --quick    the steps alone, without compile times and CarRacing
python benchmarks/simulator.py --layer    what the environment layer costs: `make_vec` beside the bare world, in turns
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import paddock.environments  # noqa: F401  makes paddock/Racing-v0 known
from paddock.sim.cars.car import load_car
from paddock.sim.kernels.launch import get_threads, set_threads
from paddock.sim.settings import CameraSettings, RaySettings, StartSettings, WorldSettings
from paddock.sim.tracks.sources import load_track
from paddock.sim.world import World

TRACK = "ridgeway"
REPEATS = 40  # short windows: the best of them is what an evaluation_mode machine does
FIRST_STEP = """
import time; begin = time.perf_counter()
import numpy as np
from paddock.sim.settings import RaySettings, WorldSettings
from paddock.sim.tracks.track import Track
from paddock.sim.world import World
angle = np.linspace(0, 2 * np.pi, 600, endpoint=False)
width = np.full(600, 6.0)
track = Track("circle", 100 * np.cos(angle), 100 * np.sin(angle), np.angle(np.exp(1j * (angle + np.pi / 2))),
              np.full(600, 0.01), width, width, 200 * np.pi)
world = World(track, "gt", 64, settings=WorldSettings(rays=RaySettings()))
world.step(np.zeros((64, 2)))
print(time.perf_counter() - begin)
"""


def processor() -> str:
    """The machine's name for itself."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def driver(world: World) -> Callable[[], np.ndarray]:
    """A driver that keeps cars of a `gt` near the centreline at a speed for the next corner, numpy only."""
    track, car = world.tracks[0], load_car("gt")

    def act() -> np.ndarray:
        here = (world.point_index + np.round(0.4 * world.vx / track.spacing).astype(int)) % len(track)
        curvature = track.curvature[here]
        steer = car.wheelbase * curvature - 0.02 * world.lateral - 0.5 * world.heading_error
        wanted = np.minimum(20.0, np.sqrt(5.0 / np.maximum(np.abs(curvature), 1e-3)))
        return np.stack([np.clip(steer / car.steer_limit, -1, 1), np.clip(0.5 * (wanted - world.vx), -1, 1)], 1)

    return act


def rate(settings: WorldSettings, cars: int, budget: float = 1.5) -> tuple[float, float, float]:
    """(median, best car-steps/s, bytes per car); only the time inside `step` counts, cars keep driving."""
    world = World(load_track(TRACK), "gt", cars, settings=settings)
    act = driver(world)
    for _ in range(30):
        world.step(act(), reset_mask=world.off_track)
    began = time.perf_counter()
    world.step(act())
    steps = max(1, int(budget / REPEATS / max(time.perf_counter() - began, 1e-5)))
    rates = []
    for _ in range(REPEATS):
        inside = 0.0
        for _ in range(steps):
            action, resets = act(), world.off_track.copy()
            began = time.perf_counter()
            world.step(action, reset_mask=resets)
            inside += time.perf_counter() - began
        rates.append(steps * cars / inside)
    return float(np.median(rates)), max(rates), world.bytes_per_car


def car_racing_rate(seconds: float = 5.0) -> float:
    """Steps/s of CarRacing-v3 with its pictures, one process, as it comes."""
    env = gymnasium.make("CarRacing-v3")
    env.reset(seed=0)
    env.action_space.seed(0)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        steps += 1
        if terminated or truncated:
            env.reset()
    elapsed = time.perf_counter() - began
    env.close()
    return steps / elapsed


def timed_steps(steps: int, act: Callable[[], np.ndarray], step: Callable[[np.ndarray], Any]) -> tuple[float, float]:
    """(seconds, seconds of the processor) inside so many calls of `step`."""
    wall = processor_time = 0.0
    for _ in range(steps):
        action = act()
        began, began_processor = time.perf_counter(), time.process_time()
        step(action)
        processor_time += time.process_time() - began_processor
        wall += time.perf_counter() - began
    return wall, processor_time


def layer_rates(cars: int, windows: int, options: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Car-steps/s of `make_vec` and of two bare worlds, by clock and by the processor's time: medians of windows of
    about 30 ms that take turns. `bare world` has the rays alone, `same sensors` is the environment's own world."""
    start = StartSettings(speed=(8.0, 15.0))
    plain = World(load_track(TRACK), "gt", cars, settings=WorldSettings(start=start, rays=RaySettings(count=19)))
    make = functools.partial(
        gymnasium.make_vec, "paddock/Racing-v0", cars, vectorization_mode="vector_entry_point", track=TRACK,
        start={"speed": (0.1, 0.19)}, **options,
    )  # fmt: skip
    env, own = make().unwrapped, make().unwrapped.world
    env.reset(seed=0)
    steppers: dict[str, tuple[Callable[[], np.ndarray], Callable[[np.ndarray], Any]]] = {
        "bare world": (driver(plain), lambda action: plain.step(action, reset_mask=plain.off_track)),
        "same sensors": (driver(own), lambda action: own.step(action, reset_mask=own.off_track)),
        "make_vec": (driver(env.world), env.step),
    }
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in steppers}
    steps = max(4, 60_000 // cars)
    for window in range(windows + 1):
        for name, (act, step) in steppers.items():
            wall, processor_time = timed_steps(steps, act, step)
            if window:  # The first warms up.
                rates[name].append((steps * cars / wall, steps * cars / processor_time))
    table = {}
    for column, kind in enumerate(("clock", "processor")):
        table[kind] = {name: float(np.median([rate[column] for rate in values])) for name, values in rates.items()}
        for name in ("bare world", "same sensors"):
            shares = [ours[column] / bare[column] for ours, bare in zip(rates["make_vec"], rates[name], strict=True)]
            table[kind][f"make_vec / {name}"] = float(np.median(shares))
    return table


def print_layer(windows: int, options: dict[str, Any]) -> None:
    """The environment layer's table, with all threads and with one."""
    everything = get_threads()
    for threads in sorted({everything, 1}, reverse=True):
        set_threads(threads)
        for cars in (4096, 256):
            for kind, row in layer_rates(cars, windows, options).items():
                shown = "  ".join(
                    f"{name} {value:,.2f}" if value < 10 else f"{name} {value:,.0f}" for name, value in row.items()
                )
                print(f"{cars:>5} cars, {threads} threads, by {kind:<9}  {shown}", flush=True)
    set_threads(everything)


def first_steps() -> tuple[float, float]:
    """Seconds from nothing to the first step, in a new process: without and with compiled kernels on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", FIRST_STEP]
        runs = [subprocess.run(command, env=environment, check=True, capture_output=True) for _ in range(2)]
    times = [float(run.stdout) for run in runs]
    return times[0], times[1]


def measure(quick: bool) -> dict[str, float]:
    """Every number of the table, by name."""
    start = StartSettings(speed=(8.0, 15.0))
    lidar = WorldSettings(start=start, rays=RaySettings(count=19))
    results: dict[str, float] = {}
    for cars in (256, 1024, 4096, 16384, 65536):
        results[f"19 rays, {cars} cars"], results[f"19 rays, {cars} cars, best"], size = rate(lidar, cars)
    results["bytes per car"] = size
    results["no sensors, 4096 cars"], results["no sensors, 4096 cars, best"], _ = rate(WorldSettings(start=start), 4096)
    camera = WorldSettings(start=start, camera=CameraSettings())
    results["camera 64x64 RGB, 1024 cars"], results["camera 64x64 RGB, 1024 cars, best"], _ = rate(camera, 1024)
    above = WorldSettings(start=start, camera=CameraSettings(view="above", colour=False))
    results["camera 64x64 grey from above, 1024 cars"], _, _ = rate(above, 1024)
    threads = get_threads()
    set_threads(1)
    results["19 rays, 4096 cars, one thread"], _, _ = rate(lidar, 4096)
    set_threads(threads)
    if not quick:
        results["CarRacing-v3"] = car_racing_rate()
        results["first step without compiled kernels, s"], results["first step with them, s"] = first_steps()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--layer", action="store_true")
    parser.add_argument("--windows", type=int, default=40, help="of --layer, for each of the three")
    parser.add_argument("--options", default='{"observation": "lidar"}', help="of --layer: of make_vec, JSON")
    arguments = parser.parse_args()
    if arguments.layer:
        print_layer(arguments.windows, json.loads(arguments.options))
        return
    results = measure(arguments.quick)
    machine = f"{processor()}, {get_threads()} threads, Python {platform.python_version()}, track {TRACK}, car gt"
    if arguments.json:
        print(json.dumps({"machine": machine, **results}, indent=2))
        return
    print(f"machine: {machine}\n")
    peer = results.get("CarRacing-v3")
    for name, value in results.items():
        ratio = f"{value / peer:12,.0f} x CarRacing-v3" if peer and ("cars" in name) else ""
        shown = f"{value:14.2f}" if value < 1000 else f"{value:14,.0f}"
        print(f"{name:46s}{shown}{ratio}")
    if peer:
        flat = results["19 rays, 256 cars"] / results["19 rays, 65536 cars"]
        print(f"\ncost per car-step, 65,536 cars against 256: {flat:.2f}")


if __name__ == "__main__":
    main()

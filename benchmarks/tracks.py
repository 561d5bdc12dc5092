"""Tracks, reference laps and the classical driver: how long they take, and the tables of docs/tracks.md.

python benchmarks/tracks.py            timings, as medians
python benchmarks/tracks.py --table    the tables of docs/tracks.md
python benchmarks/tracks.py --pictures docs/images/tracks
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from paddock.render.lap_time import format_lap_time
from paddock.render.track_picture import track_picture
from paddock.sim.cars.car import CARS
from paddock.sim.reference import lap as reference
from paddock.sim.reference.classical_laps import DrivenLap, classical_laps
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.circuits import circuit_design, circuit_names, load_circuit
from paddock.sim.tracks.procedural import procedural_track

ORDER = ("arcade", "f1tenth", "gt", "road")


def median_time(repeat: int, call: Callable[[int], object]) -> tuple[float, float]:
    """(median, largest) seconds of `repeat` calls, after one that compiles what there is to compile."""
    call(repeat)
    taken = []
    for number in range(repeat):
        begin = time.perf_counter()
        call(number)
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken)), max(taken)


def print_timings() -> None:
    track, car = load_circuit("ridgeway"), CARS["gt"]
    lap = reference_lap(track, "gt")
    print(f"machine: {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    rows = (
        ("procedural track", *median_time(100, procedural_track)),
        (f"reference lap of {track.length:,.0f} m", *median_time(7, lambda _: reference._compute(track, car))),
        ("picture, PNG", *median_time(3, lambda _: track_picture(track, lap).to_image())),
        ("picture, SVG", *median_time(3, lambda _: track_picture(track, lap).to_svg())),
    )
    for name, middle, worst in rows:
        print(f"{name:28s} median {1e3 * middle:7.1f} ms   worst {1e3 * worst:7.1f} ms")


def print_tables() -> None:
    print(f"| circuit | length | difficulty | {' | '.join(ORDER)} |")
    print("|---|--:|---|" + "--:|" * len(ORDER))
    driven = {car: _laps(car) for car in ORDER}
    for index, name in enumerate(circuit_names()):
        times = [format_lap_time(driven[car][index].reference_time) for car in ORDER]
        print(
            f"| {name} | {load_circuit(name).length:,.0f} m | {circuit_design(name).difficulty} | {' | '.join(times)} |"
        )
    print()
    print(f"| circuit | {' | '.join(ORDER)} |")
    print("|---|" + "--:|" * len(ORDER))
    for index, name in enumerate(circuit_names()):
        cells = [f"{format_lap_time(lap.lap_time)} ({lap.ratio:.3f})" for lap in (driven[car][index] for car in ORDER)]
        print(f"| {name} | {' | '.join(cells)} |")
    dirty = [(car, lap) for car in ORDER for lap in driven[car] if lap.off_track]
    print(f"\nlaps with all wheels off the road at any time: {dirty or 'none'}")


def _laps(car: str) -> list[DrivenLap]:
    return classical_laps([load_circuit(name).sized_for(CARS[car].width) for name in circuit_names()], car)


def draw_pictures(folder: Path) -> None:
    for name in circuit_names():
        track = load_circuit(name)
        track_picture(track, reference_lap(track, "gt"), car="gt").save(folder / f"{name}.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--pictures", type=Path)
    arguments = parser.parse_args()
    if arguments.pictures:
        draw_pictures(arguments.pictures)
    elif arguments.table:
        print_tables()
    else:
        print_timings()


if __name__ == "__main__":
    main()

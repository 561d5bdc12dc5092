"""A lap as a film: the car, and another driver's lap as its ghost, both across the line at the same moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from paddock.racing.laps.records import RecordedLap
from paddock.render.scene.renderer import Hud, Renderer, Scene, SpeedLine
from paddock.render.video import write_video
from paddock.sim.cars.car import SHIFT_UP_RPM, load_car
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.track import Track

FRAMES_PER_SECOND = 20.0
ENDING = 1.5  # s that the film goes on after the line


def film_lap(
    file: Path, track: Track, lap: RecordedLap, ghost: RecordedLap | None, *, size: tuple[int, int] = (768, 432)
) -> int:
    """Write an mp4 of `lap`; returns the number of frames. The reference line lies on the road, coloured by speed."""
    car = load_car(lap.car)
    reference = reference_lap(track, lap.car)
    line = SpeedLine(reference.x, reference.y, reference.speed)
    renderer = Renderer(track, size, "follow", car_length=car.length, line=line)
    laps = [lap] if ghost is None else [lap, ghost]

    times = np.arange(0.0, lap.lap_time + ENDING, 1.0 / FRAMES_PER_SECOND)

    def frames() -> Iterator[np.ndarray]:
        for time in times:
            yield renderer.draw(_scene(laps, float(time), car.length, car.width))

    return write_video(file, frames(), frames_per_second=FRAMES_PER_SECOND, total=len(times))


def _scene(laps: list[RecordedLap], time: float, length: float, width: float) -> Scene:
    # Around the line a car is where it was at the lap's other end: films of flying laps run on over the finish.
    moments = [time if time <= lap.lap_time else time - lap.lap_time for lap in laps]
    places = {
        name: np.array([lap.at(name, moment) for lap, moment in zip(laps, moments, strict=True)])
        for name in ("x", "y", "heading", "steer")
        if all(name in lap.samples for lap in laps)
    }
    lap, moment = laps[0], moments[0]
    is_over = time > lap.lap_time
    title = lap.driver + (f"   ghost: {laps[1].driver}" if len(laps) > 1 else "")
    hud = Hud(
        speed=lap.at("speed", moment),
        gear=round(lap.at("gear", moment)) if "gear" in lap.samples else 1,
        rpm=lap.at("rpm", moment) if "rpm" in lap.samples else 0.0,
        rpm_limit=SHIFT_UP_RPM * 1.05,
        lap=int(is_over),
        lap_time=moment,
        last_lap=lap.lap_time if is_over else float("nan"),
        best_lap=lap.lap_time if is_over else float("nan"),
        title=title,
    )
    heading = places.get("heading", np.zeros(len(laps)))
    ghosts = [number > 0 for number in range(len(laps))]
    return Scene(
        x=places["x"], y=places["y"], heading=heading, steer=places.get("steer"), length=length, width=width,
        colour=list(range(len(laps))), ghost=ghosts, hud=hud,
    )  # fmt: skip

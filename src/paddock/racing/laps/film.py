"""A lap as a film or a GIF: the car, and another driver's lap as its ghost, both across the line at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from paddock.core.errors import InputError
from paddock.racing.laps.records import RecordedLap
from paddock.render.scene.cars import PALETTE
from paddock.render.scene.renderer import Hud, Renderer, Scene, SpeedLine
from paddock.render.video import write_gif, write_video
from paddock.sim.cars.car import SHIFT_UP_RPM, load_car
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.track import Track

SIZE, FRAMES_PER_SECOND = (1280, 720), 60.0
QUICK_SIZE, QUICK_RATE = (768, 432), 20.0  # px and frames/s of films that training waits for
GIF_SIZE, GIF_COLOURS = (640, 360), 64
ACCENTS = ((204, 44, 40), (236, 236, 232), (70, 206, 96), (255, 128, 116), (16, 18, 24))  # kerbs, lines, gaps, panels
GIF_MILLISECONDS, GIF_SPEED = 80, 2.0  # of a frame, and times real time
ENDING = 1.5  # s that the film goes on after the line


def film_lap(
    file: Path,
    track: Track,
    lap: RecordedLap,
    ghost: RecordedLap | None,
    *,
    size: tuple[int, int] = SIZE,
    frames_per_second: float = FRAMES_PER_SECOND,
) -> int:
    """Write an mp4 of `lap`; returns the number of frames. The reference line lies on the road, coloured by speed, and
    the gap to the ghost is in the picture."""
    car, reference = load_car(lap.car), reference_lap(track, lap.car)
    line = SpeedLine(reference.x, reference.y, reference.speed)
    renderer = Renderer(track, size, "follow", car_length=car.length, line=line)
    scene = _scenes(track, lap, ghost, is_caption=False)
    times = np.arange(0.0, lap.lap_time + ENDING, 1.0 / frames_per_second)

    def frames() -> Iterator[np.ndarray]:
        for time in times:
            yield renderer.draw(scene(float(time)))

    return write_video(file, frames(), frames_per_second=frames_per_second, total=len(times))


def gif_lap(
    file: Path, track: Track, lap: RecordedLap, ghost: RecordedLap | None, *, size: tuple[int, int] = GIF_SIZE
) -> int:
    """Write a GIF of `lap`, small enough for a README: the whole circuit from above, at twice the pace. Returns the
    number of frames."""
    renderer = Renderer(track, size, "track", car_length=load_car(lap.car).length)
    scene = _scenes(track, lap, ghost, is_caption=True)
    times = np.arange(0.0, lap.lap_time, GIF_MILLISECONDS / 1_000 * GIF_SPEED)

    def frame(time: float) -> np.ndarray:
        return renderer.draw(scene(time))

    sample = [frame(float(time)) for time in times[:: max(len(times) // 4, 1)]]
    sample.append(_accents(size))
    frames = (frame(float(time)) for time in times)
    return write_gif(file, frames, milliseconds=GIF_MILLISECONDS, colours=GIF_COLOURS, sample=sample, total=len(times))


def _accents(size: tuple[int, int]) -> np.ndarray:
    """A frame of the colours that few pixels have but everybody looks at: without it grass would take all places."""
    colours = np.array([*PALETTE[:2], *ACCENTS], np.uint8)
    stripes = colours[np.arange(size[0]) * len(colours) // size[0]]
    return np.ascontiguousarray(np.broadcast_to(stripes, (size[1], size[0], 3)))


def check_gif(file: Path | None) -> None:
    """Refuse another kind of file, before anything is driven."""
    if file is not None and file.suffix.lower() != ".gif":
        raise InputError(f"--gif is '{file}'; a GIF's name ends with .gif.")


def _scenes(track: Track, lap: RecordedLap, ghost: RecordedLap | None, *, is_caption: bool) -> Callable[[float], Scene]:
    """What is to be seen at a moment of the lap."""
    car, gap = load_car(lap.car), _gap_to(track, lap, ghost)
    laps = [lap] if ghost is None else [lap, ghost]
    return lambda time: _scene(laps, time, car.length, car.width, gap(time), is_caption)


def _gap_to(track: Track, lap: RecordedLap, ghost: RecordedLap | None) -> Callable[[float], float]:
    """s that the car is behind the ghost at the place where it is at a moment; after the line, by how much it lost."""
    if ghost is None:
        return lambda time: float("nan")
    places = np.linspace(0.0, track.length, 2000)
    ghost_time, own_time = ghost.along("time", places, track.length), lap.along("time", places, track.length)

    def gap(time: float) -> float:
        if time >= lap.lap_time:
            return lap.lap_time - ghost.lap_time
        place = np.interp(time, own_time, places)
        return float(time - np.interp(place, places, ghost_time))

    return gap


def _scene(laps: list[RecordedLap], time: float, length: float, width: float, gap: float, is_caption: bool) -> Scene:
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
        gap=gap,
        is_caption=is_caption,
    )
    heading = places.get("heading", np.zeros(len(laps)))
    ghosts = [number > 0 for number in range(len(laps))]
    return Scene(
        x=places["x"], y=places["y"], heading=heading, steer=places.get("steer"), length=length, width=width,
        colour=list(range(len(laps))), ghost=ghosts, hud=hud,
    )  # fmt: skip

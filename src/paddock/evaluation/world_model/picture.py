"""Drawing a world model: a film of real and imagined, and a picture of how its errors grow with the steps imagined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from paddock.components.networks.images import is_channels_first
from paddock.evaluation.world_model.episode import Episode
from paddock.evaluation.world_model.probe import Errors
from paddock.render.canvas import Canvas, Colour, Polygon, Polyline, Text
from paddock.render.video import write_video

BACKGROUND: Colour = (250, 250, 247)
CARD: Colour = (255, 255, 255)
FRAME: Colour = (222, 224, 220)
INK: Colour = (28, 34, 40)
GREY: Colour = (130, 136, 142)
IMAGINED: Colour = (214, 48, 49)
CURVES: dict[str, Colour] = {"untrained": GREY, "unchanged": (9, 132, 227), "trained": IMAGINED}
MEANINGS = {
    "untrained": "a model that has learned nothing",
    "unchanged": "all stays as last seen",
    "trained": "the model",
}
MOST_READINGS = 7
PANEL, HEADER, MARGIN, GAP, LABELS = 62, 84, 18, 10, 132  # px
SCENE, READINGS = 480, 620  # px: usual height of a scene; width of the readings beside it
FRAMES_PER_SECOND = 10.0
CEILING = 2.0  # shares of variance beyond which a curve leaves the picture


def film(file: Path, episode: Episode) -> int:
    """Write the episode as an mp4: pictures side by side with their difference, or the scene beside its readings."""
    frames = _picture_frames(episode) if episode.pictures else _reading_frames(episode)
    return write_video(file, frames, frames_per_second=FRAMES_PER_SECOND)


def picture(episode: Episode, errors: Mapping[str, Errors], *, title: str) -> Canvas:
    """Errors over imagined steps, of observation and reward, above the readings of an episode."""
    readings = _chosen(episode)
    chart = 190
    canvas = Canvas(1100, HEADER + chart + 60 + len(readings) * (PANEL + GAP) + MARGIN, BACKGROUND)
    canvas.add(Text(MARGIN, 28, title, 26, INK, is_bold=True))
    place = float(MARGIN)
    for kind in [kind for kind in reversed(CURVES) if kind in errors]:
        canvas.add(Text(place, 62, MEANINGS[kind], 15, CURVES[kind], is_bold=True))
        place += 8.4 * len(MEANINGS[kind]) + 24
    half = (canvas.width - 2 * MARGIN - 2 * GAP) / 2
    for number, name in enumerate(("observation", "reward")):
        left = MARGIN + number * (half + 2 * GAP)
        curves = {kind: getattr(error, name) for kind, error in errors.items()}
        _draw_errors(canvas, left, HEADER, half, chart, f"error of the {name}", curves)
    _draw_readings(canvas, episode, MARGIN, HEADER + chart + 34, canvas.width - 2 * MARGIN, len(episode.imagined_steps))
    return canvas


def _picture_frames(episode: Episode) -> Iterator[np.ndarray]:
    """[real | imagined | difference], each part of the observation below the one before."""
    for t, ahead in enumerate(episode.imagined_steps):
        rows = []
        for real, told in episode.pictures.values():
            guess = told[t] if ahead else real[t]
            difference = np.abs(guess.astype(float) - real[t])
            rows.append(np.concatenate([_enlarged(each) for each in (real[t], guess, difference)], 1))
        picture = np.concatenate(rows, 0)
        words = f"imagined for {ahead} steps" if ahead else "seen"
        canvas = Canvas(picture.shape[1], 34, BACKGROUND)
        third = picture.shape[1] / 3
        for number, text in enumerate(("real", words, "difference")):
            colour = IMAGINED if number == 1 and ahead else INK
            canvas.add(Text((number + 0.5) * third, 17, text, 17, colour, align="middle"))
        yield np.concatenate([np.asarray(canvas.to_image()), picture], 0)


def _reading_frames(episode: Episode) -> Iterator[np.ndarray]:
    """The real scene on the left, the readings so far on the right."""
    for t, frame in enumerate(episode.frames):
        zoom = max(SCENE // len(frame), 1)
        scene = frame.repeat(zoom, 0).repeat(zoom, 1)
        canvas = Canvas(READINGS, len(scene), BACKGROUND)
        _draw_readings(canvas, episode, MARGIN, 14, READINGS - 2 * MARGIN, t + 1)
        yield np.concatenate([scene, np.asarray(canvas.to_image(zoom=2))], 1)


def _enlarged(picture: np.ndarray) -> np.ndarray:
    """A picture of any channels [H, W, C] as RGB, large enough to see."""
    values = np.clip(picture, 0, 255).astype(np.uint8)
    if is_channels_first(values.shape):
        values = np.moveaxis(values, 0, -1)
    rgb = values[..., :3] if values.shape[-1] % 3 == 0 else values[..., :1].repeat(3, -1)
    zoom = max(SCENE // 2 // rgb.shape[0], 1)
    return rgb.repeat(zoom, 0).repeat(zoom, 1)


def _chosen(episode: Episode) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Few enough to see: of each kind of reading the one that varies most, then whatever else does; and the reward."""
    spread = {name: float(np.std(real)) for name, (real, _) in episode.readings.items() if name != "reward"}
    by_spread = sorted(spread, key=lambda name: -spread[name])
    kinds: dict[str, str] = {}
    for name in by_spread:
        kinds.setdefault(name.rstrip("0123456789 "), name)
    first = [name for name in spread if name in kinds.values()]
    kept = {*(first + [name for name in by_spread if name not in first])[: MOST_READINGS - 1], "reward"}
    return {name: pair for name, pair in episode.readings.items() if name in kept}


def _draw_readings(canvas: Canvas, episode: Episode, left: float, top: float, width: float, rows: int) -> None:
    """A panel for each reading up to row `rows`: real in ink, imagined in red."""
    readings = _chosen(episode)
    canvas.add(
        Text(left, top, "real", 15, INK, is_bold=True), Text(left + 40, top, "imagined", 15, IMAGINED, is_bold=True)
    )
    total, ahead = len(episode.imagined_steps), int(episode.imagined_steps[rows - 1])
    if rows < total:
        state = f"{ahead} steps since it last saw anything" if ahead else "the model sees"
        canvas.add(Text(left + width, top, state, 15, GREY, align="right"))
    horizon = int(episode.imagined_steps.max())
    height = min(PANEL, (canvas.height - top - 20) / len(readings) - GAP)
    for number, (name, (real, told)) in enumerate(readings.items()):
        upper = top + 16 + number * (height + GAP)
        known = np.concatenate([real, told[np.isfinite(told)]])
        low, high = np.nanpercentile(known, [0, 100])
        span = max(high - low, 1e-6)
        x = left + LABELS + np.arange(total) / max(total - 1, 1) * (width - LABELS)

        def points(values: np.ndarray, part: slice, x: np.ndarray = x, upper: float = upper, low: float = low,
                   span: float = span) -> np.ndarray:  # fmt: skip
            y = upper + height - 3 - (values[part] - low) / span * (height - 6)
            return np.stack([x[part], y], 1)

        sides, ends = (left + LABELS, left + width), (upper, upper + height)
        box = np.array([[sides[i], ends[j]] for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))])
        canvas.add(Polygon(box, CARD), Polyline(box, FRAME, 1.0, is_closed=True))
        _polyline(canvas, points(real, slice(0, rows)), INK, 1.6)
        begin = int(np.argmax(episode.imagined_steps > 0))
        for start in range(begin, rows, horizon):
            _polyline(canvas, points(told, slice(start, min(start + horizon, rows))), IMAGINED, 1.6)
        canvas.add(Text(left, upper + height / 2, name.replace("_", " "), 13, INK))


def _polyline(canvas: Canvas, points: np.ndarray, colour: Colour, width: float) -> None:
    if len(points) > 1:
        canvas.add(Polyline(points, colour, width))


def _draw_errors(
    canvas: Canvas, left: float, top: float, width: float, height: float, name: str, curves: Mapping[str, np.ndarray]
) -> None:
    """Curves over the number of imagined steps; 1 is what knowing the mean would give."""
    canvas.add(Text(left, top + 8, f"{name}, as a share of its variance", 15, INK))
    upper, lower = top + 26, top + height - 22
    steps = max(len(curve) for curve in curves.values())
    ceiling = min(max(max(float(curve.max()) for curve in curves.values()) * 1.05, 1.1), CEILING)
    x = left + 30 + np.arange(steps) / max(steps - 1, 1) * (width - 40)

    def y(value: np.ndarray | float) -> np.ndarray:
        return lower - np.clip(np.asarray(value, float), 0, ceiling) / ceiling * (lower - upper)

    for level in (0.0, 0.5, 1.0, 1.5, 2.0):
        if level <= ceiling:
            canvas.add(Polyline(np.array([[left + 30, y(level)], [left + width - 10, y(level)]]), FRAME, 1.0))
            canvas.add(Text(left + 24, float(y(level)), f"{level:g}", 12, GREY, align="right"))
    for kind, colour in CURVES.items():
        if kind in curves:
            _polyline(canvas, np.stack([x, y(curves[kind])], 1), colour, 2.4)
    for number in sorted({0, steps // 2, steps - 1}):
        canvas.add(Text(float(x[number]), lower + 12, str(number + 1), 12, GREY, align="middle"))
    canvas.add(Text(left + width / 2, lower + 28, "steps imagined", 12, GREY, align="middle"))

"""Road, reconstruction and dream for people to keep: a film, or a strip of moments for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paddock.core.errors import InputError
from paddock.core.files import make_folder
from paddock.dream.panels import GAP, PANELS, SIDE, DreamPanels
from paddock.render.canvas import Canvas, Text
from paddock.render.video import write_gif, write_video

HEADER = 32  # px above the panels of a film
MARGIN, CAPTION = 112, 24  # px of a strip: left for the names, above for the times
STRIP_SIDE, STRIP_GAP = 128, 6  # px of a picture of a strip, and between two
MOMENTS = (0, 5, 10, 20, 40, 80, 120, 160)  # steps that a strip shows
GIF_SIDE, GIF_EVERY = 128, 4  # px of a panel of a GIF, and steps from one frame to the next
GIF_COLOURS, GIF_SPEED = 32, 2.0  # few, so that a page can hold it, and times real time
INK, PAPER = (40, 44, 52), (255, 255, 255)
Picture = NDArray[np.uint8]


def film_dream(panels: DreamPanels, file: Path, *, steps: int) -> int:
    """The run's own policy drives the road; its reconstruction and its dream beside it. Gives the number of frames.

    The file's ending says what is made: .mp4 and .gif are films, .png is a strip of moments, one row for each panel.
    It ends earlier than after `steps` where the episode on the road does.
    """
    writers: dict[str, Callable[[DreamPanels, Path, int], int]] = {".mp4": _mp4, ".gif": _gif, ".png": _strip}
    if file.suffix.lower() not in writers:
        raise InputError(f"a film of a dream ends in {', '.join(writers)}; got '{file}'.")
    make_folder(file.parent)
    return writers[file.suffix.lower()](panels, file, steps)


def _driven(panels: DreamPanels, steps: int) -> Iterator[tuple[int, list[Picture]]]:
    """Steps so far and the three pictures, until the road is over."""
    for step in range(steps):
        if panels.is_road_over:
            return
        yield step, panels.pictures()
        panels.step(panels.act())


def _mp4(panels: DreamPanels, file: Path, steps: int) -> int:
    frames = (_frame(pictures, SIDE, step / panels.rate) for step, pictures in _driven(panels, steps))
    return write_video(file, frames, frames_per_second=panels.rate)


def _gif(panels: DreamPanels, file: Path, steps: int) -> int:
    chosen = (pair for pair in _driven(panels, steps) if pair[0] % GIF_EVERY == 0)
    frames = [_frame(pictures, GIF_SIDE, step / panels.rate) for step, pictures in chosen]
    some = frames[:: max(len(frames) // 8, 1)]
    milliseconds = round(1_000 * GIF_EVERY / panels.rate / GIF_SPEED)
    return write_gif(file, frames, milliseconds=milliseconds, colours=GIF_COLOURS, sample=some)


def _strip(panels: DreamPanels, file: Path, steps: int) -> int:
    moments = [(step, pictures) for step, pictures in _driven(panels, steps + 1) if step in MOMENTS]
    pitch = STRIP_SIDE + STRIP_GAP
    size = (MARGIN + len(moments) * pitch, CAPTION + len(PANELS) * pitch)
    canvas = Canvas(*size, PAPER)
    for row, name in enumerate(PANELS):
        canvas.add(Text(MARGIN - 10, CAPTION + row * pitch + STRIP_SIDE / 2, name, 14, INK, "right"))
    for column, (step, _) in enumerate(moments):
        middle = MARGIN + column * pitch + STRIP_SIDE / 2
        canvas.add(Text(middle, CAPTION / 2, f"{step / panels.rate:g} s", 13, INK, "middle"))
    image = canvas.to_image()
    for column, (_, pictures) in enumerate(moments):
        for row, picture in enumerate(pictures):
            image.paste(_scaled(picture, STRIP_SIDE), (MARGIN + column * pitch, CAPTION + row * pitch))
    image.save(file, optimize=True)
    return len(moments)


def _frame(pictures: list[Picture], side: int, seconds: float) -> Picture:
    """uint8 [height, width, 3]: the panels in a row, their names above them, and the time."""
    pitch = side + GAP
    canvas = Canvas(len(PANELS) * pitch - GAP, HEADER + side, PAPER)
    for column, name in enumerate(PANELS):
        title = f"{name}, {seconds:.1f} s" if column == 0 else name
        canvas.add(Text(column * pitch + side / 2, HEADER / 2, title, 14, INK, "middle"))
    image = canvas.to_image()
    for column, picture in enumerate(pictures):
        image.paste(_scaled(picture, side), (column * pitch, HEADER))
    return np.asarray(image)


def _scaled(picture: Picture, side: int) -> Image.Image:
    """A picture of `side` pixels whose own pixels stay squares, as far as they fit."""
    return Image.fromarray(picture).resize((side, side), Image.Resampling.NEAREST)

"""Frames to an mp4 or a GIF file, with no program beyond what pip installs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from paddock.core.files import make_folder

Watcher = Callable[[int, int | None], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """While it lasts, `watcher(written, total)` is called after every frame of any video; total: None if unknown."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def write_video(file: Path, frames: Iterable[np.ndarray], *, frames_per_second: float, total: int | None = None) -> int:
    """Encode RGB frames [H, W, 3] uint8 as H.264; returns how many were written. total: how many there will be."""
    watcher = _watcher.get()
    make_folder(file.parent)
    temporary = file.with_name(f".{file.name}")
    temporary.unlink(missing_ok=True)  # A link that somebody put there would be written through.
    count = 0
    with av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(frames_per_second).limit_denominator(1000))
        stream.pix_fmt = "yuv420p"
        stream.options = {"preset": "veryfast"}  # A third of the time for about the same size.
        for frame in frames:
            # The pixel format halves both axes, so both have to be even.
            even = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]
            if count == 0:
                stream.height, stream.width = even.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")))
            count += 1
            if watcher is not None:
                watcher(count, total)
        container.mux(stream.encode())
    temporary.replace(file)
    return count


def write_gif(
    file: Path,
    frames: Iterable[np.ndarray],
    *,
    milliseconds: int,
    colours: int,
    sample: Sequence[np.ndarray],
    total: int | None = None,
) -> int:
    """Write RGB frames [H, W, 3] uint8 as a GIF that begins again; returns how many. Times are multiples of 10 ms.

    sample: frames whose `colours` most common colours are those of all: a palette for each frame would flicker.
    """
    watcher = _watcher.get()
    make_folder(file.parent)
    palette = Image.fromarray(np.concatenate(list(sample))).quantize(colours)
    reduced = []
    for frame in frames:
        reduced.append(Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE))
        if watcher is not None:
            watcher(len(reduced), total)
    reduced[0].save(file, save_all=True, append_images=reduced[1:], duration=milliseconds, loop=0, optimize=True)
    return len(reduced)

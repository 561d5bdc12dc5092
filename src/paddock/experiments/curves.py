"""Reading a run's logged points as columns, fast: only what is asked for, and thinned out for drawing.

Shapes: T logged points of a metric, P drawn points.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWN = 400  # points of a curve that are kept for drawing, at most
WORTH_PROCESSES = 64_000_000  # bytes of logs from which on several processes read them
CHUNK = 1 << 18  # bytes
LARGE = 32_000_000  # bytes of a log from which on it is sampled
SAMPLED = 10_000  # points


@dataclass(frozen=True)
class Curve:
    """One metric of one run, each [T]. steps: agent steps; seconds: wall clock of training."""

    steps: Floats
    seconds: Floats
    value: Floats

    @property
    def is_empty(self) -> bool:
        return not len(self.value)

    def thinned(self, points: int = DRAWN) -> Curve:
        """The same with at most so many points, each the mean of its share; the last one stays as it is."""
        if len(self.value) <= points:
            return self
        edges = np.linspace(0, len(self.value) - 1, points).astype(np.int64)
        counts = np.diff(edges)

        def means(column: Floats) -> Floats:
            return np.append(np.add.reduceat(column[:-1], edges[:-1]) / counts, column[-1])

        return Curve(means(self.steps), means(self.seconds), means(self.value))


def read_curves(file: Path, names: Sequence[str]) -> dict[str, Curve]:
    """The curves of some metrics of a `metrics.jsonl`; those that were never logged are empty.

    Of a large file, each curve gets at most `SAMPLED` points, evenly spread over the file and with the last one.
    """
    if file.exists() and file.stat().st_size > LARGE:
        return {name: _columns(rows, [name])[name] for name, rows in _sampled_rows(file, names).items()}
    return _columns(_all_rows(file, names), names)


def _columns(rows: Sequence[Any], names: Sequence[str]) -> dict[str, Curve]:
    steps = np.fromiter((row.agent_steps for row in rows), np.float64, len(rows))
    seconds = np.fromiter((row.seconds for row in rows), np.float64, len(rows))
    curves = {}
    for number, name in enumerate(names):
        attribute = f"metric_{number}"
        value = np.array([getattr(row, attribute) for row in rows], dtype=np.float64)  # None becomes NaN.
        there = np.isfinite(value)
        curves[name] = Curve(steps[there], seconds[there], value[there])
    return curves


def read_many(files: Sequence[Path], names: Sequence[str], *, points: int = DRAWN) -> list[dict[str, Curve]]:
    """The thinned curves of several files; several processes read them where they are large."""
    read = partial(_read_thinned, names=list(names), points=points)
    total = sum(file.stat().st_size for file in files if file.exists())
    processes = min(len(os.sched_getaffinity(0)), len(files))
    if total < WORTH_PROCESSES or processes < 2:
        return [read(file) for file in files]
    with ProcessPoolExecutor(processes, mp_context=get_context("forkserver")) as pool:
        return list(pool.map(read, files))


def metric_names(file: Path) -> list[str]:
    """Metrics in the first and the last of the logged points, which is where nearly all of them show."""
    import msgspec

    if not file.exists():
        return []
    with file.open("rb") as opened:
        head = opened.read(CHUNK)
        opened.seek(max(os.fstat(opened.fileno()).st_size - CHUNK, 0))
        tail = opened.read()
    names: dict[str, None] = {}
    for line in [*head.split(b"\n"), *tail.split(b"\n")]:
        try:
            names |= dict.fromkeys(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.DecodeError:  # Cut in the middle.
            continue
    return [name for name in names if "/" in name]


def _read_thinned(file: Path, names: Sequence[str], points: int) -> dict[str, Curve]:
    return {name: curve.thinned(points) for name, curve in read_curves(file, names).items()}


def _decoder(names: Sequence[str]) -> Any:
    """Decodes a logged line into a row with `agent_steps`, `seconds` and `metric_<number>`, and skips the rest."""
    import msgspec

    fields = [(f"metric_{number}", float | None, None) for number in range(len(names))]
    renames = {f"metric_{number}": name for number, name in enumerate(names)}
    columns = [("agent_steps", float, 0.0), ("seconds", float, 0.0), *fields]
    return msgspec.json.Decoder(msgspec.defstruct("Row", columns, rename=renames, gc=False))


def _all_rows(file: Path, names: Sequence[str]) -> list[Any]:
    """Every whole line; one that is damaged is left out."""
    if not file.exists():
        return []
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    return _decoded(whole, _decoder(names))


def _sampled_rows(file: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """For each metric lines that name it: at most one in each of `SAMPLED` stretches of the file, and the last one."""
    quoted = {name: f'"{name}":'.encode() for name in names}
    stride = file.stat().st_size // SAMPLED
    lines: dict[str, list[bytes]] = {name: [] for name in names}
    last = dict.fromkeys(names, b"")
    next_wanted = dict.fromkeys(names, 0)
    begin, rest = 0, b""
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            text, newline, rest = (rest + chunk).rpartition(b"\n")
            for name, key in quoted.items():
                place = text.find(key, max(next_wanted[name] - begin, 0))
                while place >= 0:
                    lines[name].append(_line_at(text, place))
                    next_wanted[name] = begin + place + max(stride, len(lines[name][-1]))
                    place = text.find(key, next_wanted[name] - begin)
                if (final := text.rfind(key)) >= 0:
                    last[name] = _line_at(text, final)
            begin += len(text) + len(newline)
    return {
        name: _decoded(b"\n".join(found if found[-1:] == [last[name]] else [*found, last[name]]), _decoder([name]))
        for name, found in lines.items()
    }


def _line_at(text: bytes, place: int) -> bytes:
    end = text.find(b"\n", place)
    return text[text.rfind(b"\n", 0, place) + 1 : end if end >= 0 else len(text)]


def _decoded(text: bytes, decoder: Any) -> list[Any]:
    import msgspec

    try:
        return decoder.decode_lines(text)
    except msgspec.DecodeError:
        rows = []
        for line in text.split(b"\n"):
            try:
                rows.append(decoder.decode(line))
            except msgspec.DecodeError:
                continue
        return rows

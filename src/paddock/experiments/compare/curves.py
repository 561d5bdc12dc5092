"""Reading a run's logged points as columns, fast: only what is asked for, and thinned out for drawing.

Shapes: T logged points of a metric, P drawn points.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from paddock.config.renamed import METRICS, rename_logged
from paddock.core.reading import DamagedError, open_regular
from paddock.core.system import PROCESS_START, available_cores
from paddock.experiments.documents import LARGEST_LOG, LONGEST_LINE, LogState

Floats = NDArray[np.float64]
DRAWN = 400  # points of a curve that are kept for drawing, at most
WORTH_PROCESSES = 64_000_000  # bytes of logs from which on several processes read them
CHUNK = 1 << 18  # bytes
LARGE = 32_000_000  # bytes of a log from which on it is sampled
SAMPLED = 10_000  # points
_NOT_A_FIELD = re.compile(r'["\\\x00-\x1f]')


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


@dataclass(frozen=True)
class Log:
    """Curves by name, and sentences about what of the file could not be read."""

    curves: dict[str, Curve]
    damage: list[str]


def read_curves(file: Path, names: Sequence[str]) -> dict[str, Curve]:
    """The curves of some metrics of a `metrics.jsonl`; those that were never logged are empty.

    Of a large file, each curve gets at most `SAMPLED` points, evenly spread over the file and with the last one.
    A file that cannot be read is a DamagedError; lines that cannot be read are left out.
    """
    return _read(file, names)[0]


def read_log(file: Path, names: Sequence[str], *, points: int = DRAWN) -> Log:
    """The thinned curves, which are empty where the file is damaged."""
    try:
        curves, skipped = _read(file, names)
    except DamagedError as error:
        return Log({name: _columns([], [name])[name] for name in names}, [str(error)])
    return Log({name: curve.thinned(points) for name, curve in curves.items()}, LogState(skipped).damage(file))


def _read(file: Path, names: Sequence[str]) -> tuple[dict[str, Curve], int]:
    """The curves, and how many of the lines that were looked at could not be read."""
    if not os.path.lexists(file):
        return _columns([], names), 0
    with open_regular(file, limit=LARGEST_LOG) as opened:
        if os.fstat(opened.fileno()).st_size <= LARGE:
            whole, _, _ = opened.read().rpartition(b"\n")
            rows, skipped = _decoded(rename_logged(whole), _decoder(names))
            return _columns(rows, names), skipped
        sampled = {name: _decoded(text, _decoder([name])) for name, text in _sampled(opened, names).items()}
    return {name: _columns(rows, [name])[name] for name, (rows, _) in sampled.items()}, sum(
        skipped for _, skipped in sampled.values()
    )


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


def read_many(files: Sequence[Path], names: Sequence[str], *, points: int = DRAWN) -> list[Log]:
    """The thinned curves of several files; several processes read them where they are large."""
    read = partial(read_log, names=list(names), points=points)
    total = sum(map(_size, files))
    processes = min(available_cores(), len(files))
    if total < WORTH_PROCESSES or processes < 2:
        return [read(file) for file in files]
    with ProcessPoolExecutor(processes, mp_context=get_context(PROCESS_START)) as pool:
        return list(pool.map(read, files))


def metric_names(file: Path) -> list[str]:
    """Metrics in the first and the last of the logged points, which is where nearly all of them show."""
    import msgspec

    if not os.path.lexists(file):
        return []
    with open_regular(file, limit=LARGEST_LOG) as opened:
        head = opened.read(CHUNK)
        opened.seek(max(os.fstat(opened.fileno()).st_size - CHUNK, 0))
        tail = opened.read()
    names: dict[str, None] = {}
    for line in [*head.split(b"\n"), *tail.split(b"\n")]:
        try:
            names |= dict.fromkeys(msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # Cut in the middle, or damaged.
            continue
    return list(dict.fromkeys(METRICS.get(name, name) for name in names if "/" in name))


def _size(file: Path) -> int:
    """Bytes of a regular file; none where it is something else, which nobody reads."""
    try:
        status = os.lstat(file)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _decoder(names: Sequence[str]) -> Any:
    """Decodes a logged line into a row with `agent_steps`, `seconds` and `metric_<number>`, and skips the rest."""
    import msgspec

    if any(map(_NOT_A_FIELD.search, names)):
        return _PlainDecoder(names)
    fields = [(f"metric_{number}", float | None, None) for number in range(len(names))]
    renames = {f"metric_{number}": name for number, name in enumerate(names)}
    columns: list[Any] = [("agent_steps", float), ("seconds", float), *fields]
    return msgspec.json.Decoder(msgspec.defstruct("Row", columns, rename=renames, gc=False))


class _PlainDecoder:
    """The same, slower, for names that msgspec does not take for a field: somebody's metric has a quote in it."""

    def __init__(self, names: Sequence[str]) -> None:
        import msgspec

        self._names = names
        self._decode = msgspec.json.Decoder(dict[str, float | str | None]).decode
        row: Any = msgspec.defstruct("Row", [("agent_steps", float), ("seconds", float)])
        self._row = msgspec.json.Decoder(row).decode

    def decode(self, line: bytes) -> SimpleNamespace:
        values, row = self._decode(line), self._row(line)
        metrics = {f"metric_{number}": _number(values.get(name)) for number, name in enumerate(self._names)}
        return SimpleNamespace(agent_steps=row.agent_steps, seconds=row.seconds, **metrics)

    def decode_lines(self, text: bytes) -> list[SimpleNamespace]:
        return [self.decode(line) for line in text.split(b"\n") if line]


def _number(value: Any) -> float | None:
    return value if isinstance(value, float) else None


def _sampled(opened: BinaryIO, names: Sequence[str]) -> dict[str, bytes]:
    """For each metric lines that name it: at most one in each of `SAMPLED` stretches of the file, and the last one."""
    quoted = {name: json.dumps(name, ensure_ascii=False).encode() + b":" for name in names}
    stride = os.fstat(opened.fileno()).st_size // SAMPLED
    lines: dict[str, list[bytes]] = {name: [] for name in names}
    last = dict.fromkeys(names, b"")
    next_wanted = dict.fromkeys(names, 0)
    begin, rest = 0, b""
    while chunk := opened.read(CHUNK):
        text, newline, rest = (rest + chunk).rpartition(b"\n")
        text = rename_logged(text)
        for name, key in quoted.items():
            place = text.find(key, max(next_wanted[name] - begin, 0))
            while place >= 0:
                lines[name].append(_line_at(text, place))
                next_wanted[name] = begin + place + max(stride, len(lines[name][-1]))
                place = text.find(key, next_wanted[name] - begin)
            if (final := text.rfind(key)) >= 0:
                last[name] = _line_at(text, final)
        begin += len(text) + len(newline)
        if len(rest) > LONGEST_LINE:  # Whatever this is, it is no logged point.
            begin, rest = begin + len(rest), b""
    return {
        name: b"\n".join(found if found[-1:] == [last[name]] else [*found, last[name]]) for name, found in lines.items()
    }


def _line_at(text: bytes, place: int) -> bytes:
    end = text.find(b"\n", place)
    return text[text.rfind(b"\n", 0, place) + 1 : end if end >= 0 else len(text)]


def _decoded(text: bytes, decoder: Any) -> tuple[list[Any], int]:
    """The rows of the lines that can be read, and how many cannot."""
    import msgspec

    try:
        return decoder.decode_lines(text), 0
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        rows, skipped = [], 0
        for line in text.split(b"\n"):
            try:
                rows.append(decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                skipped += 1
        return rows, skipped

"""Tracks from and to CSV: `x_m, y_m, w_tr_right_m, w_tr_left_m`, the format of the TUM racetrack database."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paddock.core.errors import InputError
from paddock.sim.track import Array, Track
from paddock.sim.track_builder import DEFAULT_SPACING, build_track
from paddock.sim.track_checks import check_closed

COLUMNS = ("x_m", "y_m", "w_tr_right_m", "w_tr_left_m")
BRIDGE_MARK = "bridge"


def read_track_csv(
    path: str | Path, *, name: str | None = None, spacing: float = DEFAULT_SPACING, bridge: bool = False
) -> Track:
    """The checked track in a CSV file. `bridge`, or a comment line `# bridge`, allows it to pass over itself."""
    path = Path(path)
    name = name or path.stem
    rows, lines, marked = _read_rows(path)
    points, widths = rows[:, :2], rows[:, 2:]
    if len(points) > 4 and np.hypot(*(points[-1] - points[0])) < 1e-3:
        points, widths, lines = points[:-1], widths[:-1], lines[:-1]
    if len(points) < 8:
        raise InputError(f"{path}: {len(points)} points are too few for a road; give one every few metres.")

    def label(index: int) -> str:
        return f"line {lines[index]}"

    if np.isfinite(points).all():
        check_closed(name, points, label)
    return build_track(
        name,
        points,
        left_width=widths[:, 1],
        right_width=widths[:, 0],
        spacing=spacing,
        bridge=bridge or marked,
        label=label,
    )


def _read_rows(path: Path) -> tuple[Array, list[int], bool]:
    """[P, 4] numbers, the line each came from, and whether the file is marked as passing over itself."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file. A track is a CSV of {', '.join(COLUMNS)}.") from error
    except OSError as error:
        raise InputError(f"the track file {path} cannot be read: {error.strerror}.") from error
    rows: list[list[float]] = []
    lines: list[int] = []
    marked = False
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if content.startswith("#"):
            marked |= content.lstrip("# ").lower() == BRIDGE_MARK
        elif content:
            rows.append(_parse_row(path, number, content))
            lines.append(number)
    if not rows:
        raise InputError(f"{path} holds no points. A track is a CSV of {', '.join(COLUMNS)}, one point a line.")
    return np.array(rows), lines, marked


def _parse_row(path: Path, number: int, content: str) -> list[float]:
    separator = ";" if ";" in content else ","
    cells = content.split(separator)
    if len(cells) != len(COLUMNS):
        raise InputError(
            f"{path}, line {number}: {len(cells)} columns, expected {len(COLUMNS)} ({', '.join(COLUMNS)}): '{content}'."
        )
    try:
        return [float(cell) for cell in cells]
    except ValueError as error:
        raise InputError(f"{path}, line {number}: not four numbers: '{content}'. A header starts with '#'.") from error


def write_track_csv(track: Track, path: str | Path) -> None:
    """The track as CSV, to the millimetre, one line a point; reads back as the same road."""
    header = f"# {','.join(COLUMNS)}\n" + (f"# {BRIDGE_MARK}\n" if track.bridge else "")
    values = np.stack([track.x, track.y, track.right_width, track.left_width], axis=1)
    body = "".join(",".join(f"{value:.3f}" for value in row) + "\n" for row in values)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + body, encoding="utf-8")

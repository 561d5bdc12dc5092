"""Tracks from and to CSV: `x_m, y_m, w_tr_right_m, w_tr_left_m`, the format of the TUM racetrack database."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from paddock.core.errors import InputError
from paddock.sim.track import Array, Track
from paddock.sim.track_builder import DEFAULT_SPACING, build_track
from paddock.sim.track_checks import check_closed

COLUMNS = ("x_m", "y_m", "w_tr_right_m", "w_tr_left_m")
OBSTACLE_COLUMNS = ("x_m", "y_m", "radius_m")
BRIDGE_MARK = "bridge"  # a comment line `# bridge`: the road may pass over itself
OBSTACLE_MARK = "obstacle:"  # a comment line `# obstacle: x, y, radius`


def read_track_csv(
    path: str | Path, *, name: str | None = None, spacing: float = DEFAULT_SPACING, bridge: bool = False
) -> Track:
    """The checked track in a CSV file. `bridge`, or a comment line `# bridge`, allows it to pass over itself."""
    path = Path(path)
    name = name or path.stem
    rows, lines, notes = _read_rows(path)
    points, widths = rows[:, :2], rows[:, 2:]
    if len(points) > 4 and np.hypot(*(points[-1] - points[0])) < 1e-3:
        points, widths, lines = points[:-1], widths[:-1], lines[:-1]
    if len(points) < 8:
        raise InputError(f"{path}: {len(points)} points are too few for a road; give one every few metres.")

    def label(index: int) -> str:
        return f"line {lines[index]}"

    if np.isfinite(points).all():
        check_closed(name, points, label)
    track = build_track(
        name,
        points,
        left_width=widths[:, 1],
        right_width=widths[:, 0],
        spacing=spacing,
        bridge=bridge or notes.bridge,
        label=label,
    )
    return replace(track, obstacles=np.array(notes.obstacles).reshape(-1, 3))


@dataclass
class _Notes:
    """What the comment lines of a file say beyond its points."""

    bridge: bool = False
    obstacles: list[list[float]] = field(default_factory=list)

    def read(self, path: Path, number: int, comment: str) -> None:
        if comment.lower() == BRIDGE_MARK:
            self.bridge = True
        elif comment.lower().startswith(OBSTACLE_MARK):
            self.obstacles.append(_parse_numbers(path, number, comment[len(OBSTACLE_MARK) :], OBSTACLE_COLUMNS))


def _read_rows(path: Path) -> tuple[Array, list[int], _Notes]:
    """[P, 4] numbers, the line each came from, and what the comments say."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file. A track is a CSV of {', '.join(COLUMNS)}.") from error
    except OSError as error:
        raise InputError(f"the track file {path} cannot be read: {error.strerror}.") from error
    rows: list[list[float]] = []
    lines: list[int] = []
    notes = _Notes()
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if content.startswith("#"):
            notes.read(path, number, content.lstrip("# "))
        elif content:
            rows.append(_parse_numbers(path, number, content, COLUMNS))
            lines.append(number)
    if not rows:
        raise InputError(f"{path} holds no points. A track is a CSV of {', '.join(COLUMNS)}, one point a line.")
    return np.array(rows), lines, notes


def _parse_numbers(path: Path, number: int, content: str, columns: tuple[str, ...]) -> list[float]:
    cells = content.split(";" if ";" in content else ",")
    if len(cells) != len(columns):
        raise InputError(
            f"{path}, line {number}: {len(cells)} columns, expected {len(columns)} ({', '.join(columns)}): '{content}'."
        )
    try:
        return [float(cell) for cell in cells]
    except ValueError as error:
        raise InputError(
            f"{path}, line {number}: expected numbers ({', '.join(columns)}), got '{content}'. Headers start with '#'."
        ) from error


def write_track_csv(track: Track, path: str | Path) -> None:
    """The track as CSV, to the micrometre, one line a point; reads back as the same road."""
    header = f"# {','.join(COLUMNS)}\n" + (f"# {BRIDGE_MARK}\n" if track.bridge else "")
    header += "".join(f"# {OBSTACLE_MARK} {x:.6f},{y:.6f},{radius:.6f}\n" for x, y, radius in track.obstacles)
    values = np.stack([track.x, track.y, track.right_width, track.left_width], axis=1)
    body = "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in values)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + body, encoding="utf-8")

"""Tracks from and to CSV: `x_m, y_m, w_tr_right_m, w_tr_left_m`, the format of the TUM racetrack database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from paddock.core.errors import InputError
from paddock.core.reading import DamagedError, read_bytes
from paddock.sim.tracks.builder import DEFAULT_SPACING, build_track
from paddock.sim.tracks.checks import MOST_POINTS, check_closed, check_obstacles, check_points
from paddock.sim.tracks.track import Array, Track

COLUMNS = ("x_m", "y_m", "w_tr_right_m", "w_tr_left_m")
OBSTACLE_COLUMNS = ("x_m", "y_m", "radius_m")
BRIDGE_MARK = "bridge"  # a comment line `# bridge`: the road may pass over itself
LARGEST_FILE = 16 * 2**20  # bytes; the longest lap allowed, a point every metre, takes a third of it
SHOWN = 120  # characters of a line that cannot be read
OBSTACLE_MARK = "obstacle:"  # a comment line `# obstacle: x, y, radius`


@dataclass(frozen=True)
class Survey:
    """A track file as a person gave it. Line numbers count from 1.

    text: all lines. points: [P, 2] m; left_width, right_width: [P] m; lines: [P] where each point stands.
    obstacles: [K, 3] as (x, y, radius). bridge: the file says that the road passes over itself.
    """

    path: Path
    text: tuple[str, ...]
    points: Array
    left_width: Array
    right_width: Array
    lines: tuple[int, ...]
    obstacles: Array
    bridge: bool

    def label(self, index: int) -> str:
        """How an error names the i-th point."""
        return f"line {self.lines[index]}"

    def edited(self, lines: dict[int, str], *more: str) -> Survey:
        """The same file with some lines replaced, and `more` lines at its end."""
        text = [lines.get(number, line) for number, line in enumerate(self.text, start=1)]
        return parse_survey(self.path, [*text, *more])


def read_survey(path: str | Path) -> Survey:
    """The points in a CSV file, not yet checked."""
    path = Path(path)
    try:
        # What a link leads to is the person's choice; what it leads to must be a regular file.
        content = read_bytes(path.resolve(), limit=LARGEST_FILE)
    except (DamagedError, OSError, RuntimeError) as error:
        reason = error.reason if isinstance(error, DamagedError) else "its link leads nowhere"
        raise InputError(f"the track file {path} cannot be read: {reason}.") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file. A track is a CSV of {', '.join(COLUMNS)}.") from error
    return parse_survey(path, text.splitlines())


def parse_survey(path: Path, text: Sequence[str]) -> Survey:
    """The points in the lines of a CSV file; a repeated closing point is dropped."""
    rows: list[list[float]] = []
    lines: list[int] = []
    obstacles: list[list[float]] = []
    bridge = False
    for number, line in enumerate(text, start=1):
        content = line.strip()
        comment = content.lstrip("# ").lower() if content.startswith("#") else ""
        if content and not content.startswith("#"):
            rows.append(_parse_numbers(path, number, content, COLUMNS))
            lines.append(number)
            if len(rows) > MOST_POINTS:
                raise InputError(f"{path} has more than {MOST_POINTS:,} points; give one every few metres.")
        elif comment == BRIDGE_MARK:
            bridge = True
        elif comment.startswith(OBSTACLE_MARK):
            obstacles.append(_parse_numbers(path, number, comment[len(OBSTACLE_MARK) :], OBSTACLE_COLUMNS))
    if not rows:
        raise InputError(f"{path} holds no points. A track is a CSV of {', '.join(COLUMNS)}, one point a line.")
    values = np.array(rows)
    ends = values[[0, -1], :2]
    if len(values) > 4 and np.isfinite(ends).all() and np.abs(ends[1] - ends[0]).max() < 1e-3:
        values, lines = values[:-1], lines[:-1]
    if len(values) < 8:
        raise InputError(f"{path}: {len(values)} points are too few for a road; give one every few metres.")
    return Survey(
        path=path,
        text=tuple(text),
        points=values[:, :2],
        left_width=values[:, 3],
        right_width=values[:, 2],
        lines=tuple(lines),
        obstacles=np.array(obstacles).reshape(-1, 3),
        bridge=bridge,
    )


def survey_track(
    survey: Survey, name: str | None = None, *, spacing: float = DEFAULT_SPACING, bridge: bool = False
) -> Track:
    """The checked track of a survey."""
    name = name or survey.path.stem
    widths = np.stack([survey.left_width, survey.right_width], axis=1)
    check_points(name, survey.points, widths, survey.label)
    check_closed(name, survey.points, survey.label)
    check_obstacles(name, survey.obstacles)
    track = build_track(
        name,
        survey.points,
        left_width=survey.left_width,
        right_width=survey.right_width,
        spacing=spacing,
        bridge=bridge or survey.bridge,
        label=survey.label,
    )
    return replace(track, obstacles=survey.obstacles)


def read_track_csv(
    path: str | Path, *, name: str | None = None, spacing: float = DEFAULT_SPACING, bridge: bool = False
) -> Track:
    """The checked track in a CSV file. `bridge`, or a comment line `# bridge`, allows it to pass over itself."""
    return survey_track(read_survey(path), name, spacing=spacing, bridge=bridge)


def _parse_numbers(path: Path, number: int, content: str, columns: tuple[str, ...]) -> list[float]:
    cells = content.split(";" if ";" in content else ",")
    if len(cells) != len(columns):
        raise InputError(
            f"{path}, line {number}: {len(cells)} columns, expected {len(columns)} ({', '.join(columns)}): "
            f"'{content[:SHOWN]}'."
        )
    try:
        return [float(cell) for cell in cells]
    except ValueError as error:
        raise InputError(
            f"{path}, line {number}: expected numbers ({', '.join(columns)}), got '{content[:SHOWN]}'. "
            "Headers start with '#'."
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

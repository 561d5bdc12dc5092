"""Surveys with the faults that real ones have: written as CSV, with known places and sizes of the faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HEADER = "# x_m,y_m,w_tr_right_m,w_tr_left_m\n"


def write(path: Path, points: np.ndarray, right: np.ndarray | float, left: np.ndarray | float) -> Path:
    """points: [P, 2] m; right, left: m."""
    count = len(points)
    table = np.column_stack([points, np.broadcast_to(right, count), np.broadcast_to(left, count)])
    path.write_text(HEADER + "".join(",".join(f"{cell:.3f}" for cell in row) + "\n" for row in table))
    return path


def rounded_box(radius: float, straight: float = 120.0, step: float = 5.0, *, clockwise: bool = False) -> np.ndarray:
    """[P, 2] m: a square with round corners; counter-clockwise its inside is on the left."""
    side, arc = int(straight / step), max(int(0.5 * np.pi * radius / step), 3)
    pieces = []
    for corner, start in enumerate(((0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0))):
        turn = 0.5 * np.pi * corner
        out = np.array(start) * (0.5 * straight + radius)
        direction = np.array([np.cos(turn), np.sin(turn)])
        along = (np.arange(side) / side - 0.5) * straight
        pieces.append(out + along[:, None] * direction)
        angles = turn - 0.5 * np.pi + 0.5 * np.pi * np.arange(arc) / arc
        centre = out + 0.5 * straight * direction + radius * np.array([-direction[1], direction[0]])
        pieces.append(centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    points = np.concatenate(pieces)
    points = np.roll(points, -side // 2, axis=0)  # the start line lies on a straight
    return points[::-1] if clockwise else points


def figure_of_eight(degrees: float, size: float = 200.0, count: int = 320) -> np.ndarray:
    """[P, 2] m: a road that crosses itself once, in the middle, at this angle."""
    angle = 2.0 * np.pi * (np.arange(count) + 0.25 * count) / count
    height = 0.5 * np.tan(np.radians(degrees) / 2.0)
    return size * np.stack([np.sin(angle), height * np.sin(2.0 * angle)], axis=1)

"""Curves in a terminal, drawn with the dots of Braille characters: two across and four down in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from paddock.experiments.display import number

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK = 0x2800
_BARS = "▁▂▃▄▅▆▇█"


def plot(x: Sequence[float], y: Sequence[float], *, width: int = 64, height: int = 8) -> list[str]:
    """Lines of text: the curve with its highest and lowest value at the left and the range of x below."""
    low, high = min(y), max(y)
    left, right = min(x), max(x)
    cells = [[_BLANK] * width for _ in range(height)]
    columns = [_position(value, left, right, 2 * width) for value in x]
    rows = [4 * height - 1 - _position(value, low, high, 4 * height) for value in y]
    for start in range(len(x)):
        for column, row in _between(columns, rows, start):
            cells[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
    label = max(len(number(high)), len(number(low)))
    lines = ["".join(map(chr, line)) for line in cells]
    marks = [number(high), *[""] * (height - 2), number(low)]
    drawn = [f"{mark:>{label}} ┤{line}" for mark, line in zip(marks, lines, strict=True)]
    first, last = number(left), number(right)
    return [*drawn, " " * (label + 2) + first + f"{last:>{max(width - len(first), 0)}}"]


def sparkline(values: Sequence[float], *, width: int = 24) -> str:
    """A row of bars, each the mean of its share of the values."""
    count = min(width, len(values))
    edges = [round(k * len(values) / count) for k in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    return "".join(_BARS[_position(mean, low, high, len(_BARS))] for mean in means)


def _position(value: float, low: float, high: float, count: int) -> int:
    """0 to count - 1; the middle where there is no range."""
    if high <= low:
        return (count - 1) // 2
    return round((value - low) / (high - low) * (count - 1))


def _between(columns: Sequence[int], rows: Sequence[int], start: int) -> list[tuple[int, int]]:
    """The dots of the line from one point to the next; the last point alone."""
    if start + 1 >= len(columns):
        return [(columns[start], rows[start])]
    across, down = columns[start + 1] - columns[start], rows[start + 1] - rows[start]
    steps = max(abs(across), abs(down), 1)
    return [(columns[start] + round(across * k / steps), rows[start] + round(down * k / steps)) for k in range(steps)]

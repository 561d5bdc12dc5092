"""A table that follows what goes on: redrawn on a terminal, a line for each change of status in a log."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from paddock.core.text import printable
from paddock.experiments.display import make_console, make_table

ROWS = 30  # that are drawn; those that are done make room first


class LiveTable:
    """columns as in `show_table`; one of them is the status, by its number, and the first ones name the row."""

    def __init__(self, columns: Sequence[str], *, status: int, quiet: bool = False, vanishes: bool = False) -> None:
        """`vanishes`: with its end, to make room for another table."""
        self._columns, self._status, self._is_quiet, self._vanishes = columns, status, quiet, vanishes
        self._told: dict[int, str] = {}
        self._live: Any = None

    def __enter__(self) -> LiveTable:
        if sys.stdout.isatty() and not self._is_quiet:
            from rich.live import Live

            self._live = Live(console=make_console(), auto_refresh=False, transient=self._vanishes)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def show(self, rows: Sequence[Sequence[str]]) -> None:
        counts = Counter(row[self._status] for row in rows)
        title = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        if self._live is not None:
            self._live.update(make_table(self._columns, self._chosen(rows), title=title), refresh=True)
        elif not self._is_quiet:
            for number, row in enumerate(rows):
                if self._told.get(number) != row[self._status] and row[self._status] != "waiting":
                    self._told[number] = row[self._status]
                    print("  ".join(printable(cell) for cell in row if cell), flush=True)

    def _chosen(self, rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """As many rows as fit: what runs, what failed, then the others, in their order."""
        rank = {"running": 0, "paused": 0, "failed": 1, "crashed": 1, "waiting": 3}
        order = sorted(range(len(rows)), key=lambda k: (rank.get(rows[k][self._status], 2), k))
        return [rows[k] for k in sorted(order[:ROWS])]

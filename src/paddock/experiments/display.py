"""Tables, ages and numbers for people: ruled tables on a terminal, tab-separated lines in a pipe."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from paddock.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 140  # characters, where no terminal says how wide it is
STYLES = {
    "running": "bold cyan", "paused": "yellow", "finished": "green", "stopped": "yellow", "failed": "bold red",
    "crashed": "bold red", "damaged": "bold red", "pruned": "dim", "waiting": "dim",
}  # fmt: skip


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", droppable: Sequence[str] = ()
) -> None:
    """Print rows of text. A first letter `>` in a column's name aligns it right; where the terminal is too narrow,
    the `droppable` columns are left out, the first ones first. Nothing in a cell can act on the terminal."""
    columns, rows = list(map(printable, columns)), [list(map(printable, row)) for row in rows]
    names = [column.removeprefix(">") for column in columns]
    if not sys.stdout.isatty():
        print("\t".join(names))
        for row in rows:
            print("\t".join(row))
        return
    console = make_console()
    kept = _fitting(names, rows, console.width, droppable)
    console.print(make_table([columns[k] for k in kept], [[row[k] for k in kept] for row in rows], title=title))
    if len(kept) < len(names):
        left_out = ", ".join(name for number, name in enumerate(names) if number not in kept)
        console.print(f"[dim]Hidden columns (terminal too narrow): {markup(left_out)}.[/]")


def say(text: object = "") -> None:
    """Print a line in which names from files cannot act on the terminal."""
    print(printable(text))


def markup(value: object) -> str:
    """Text for a rich console: nothing in it is a tag or acts on the terminal."""
    from rich.markup import escape

    return escape(printable(value))


def _fitting(names: Sequence[str], rows: Sequence[Sequence[str]], width: int, droppable: Sequence[str]) -> list[int]:
    """The columns that fit side by side."""
    widths = [max(len(name), *(len(row[k]) for row in rows), 0) + 3 for k, name in enumerate(names)]
    kept = list(range(len(names)))
    for name in droppable:
        if sum(widths[k] for k in kept) <= width:
            break
        kept = [k for k in kept if names[k] != name]
    return kept


def make_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> Any:
    """The same as something for rich to draw; statuses are coloured."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(printable(title)) if title else None,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
        show_edge=False,
        title_style="bold",
    )
    for column in columns:
        heading = Text(printable(column.removeprefix(">")))
        table.add_column(heading, justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell), style=STYLES.get(cell, "")) for cell in row))
    return table


def make_console(*, stderr: bool = False) -> Console:
    """A console that does not colour numbers at random."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    is_plain = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, stderr=stderr, width=PIPED_WIDTH if is_plain else None)


def number(value: Any) -> str:
    """A few significant digits; nothing for what is not there; what is no number as text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or (abs(value) >= 1e4 and float(value).is_integer()):
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """`47 s`, `3:20`, `2:03:20`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def age(created: str) -> str:
    """How long ago an ISO time was: `40 s`, `5 min`, `3 h`, `12 d`."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(created)).total_seconds()
    except (TypeError, ValueError):
        return ""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def size(bytes_: float) -> str:
    """`512 B`, `1.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 1000:
            return f"{bytes_:.0f} {unit}" if unit == "B" else f"{bytes_:.1f} {unit}"
        bytes_ /= 1000
    return f"{bytes_:.1f} TB"

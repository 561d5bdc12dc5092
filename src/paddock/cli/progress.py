"""Progress of work that takes a while, on standard error: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paddock.experiments.display import make_console

LINE_EVERY = 5.0  # s, between two lines of a log
Advance = Callable[[int, int | None], None]  # (done, of how many; None where nobody knows)


def ignored(done: int, total: int | None) -> None:
    """Where nothing is to be shown."""


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Say what is being done while the block lasts; the block calls what it is given with every new sentence."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield lambda text: console.print(f"{text} ...", soft_wrap=True)
        return
    with console.status("loading ...") as status:
        yield lambda text: status.update(f"{text} ...")


@contextmanager
def showing(work: str, unit: str) -> Iterator[Advance]:
    """Show how far `work` is while the block lasts; the block calls what it is given."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        last, count = time.monotonic(), 0
        console.print(f"{work} ...", soft_wrap=True)

        def tell(done: int, total: int | None) -> None:
            nonlocal last, count
            count = done
            if time.monotonic() - last >= LINE_EVERY:
                last = time.monotonic()
                console.print(f"{work}: {done:,}{f' of {total:,}' if total else ''} {unit}", soft_wrap=True)

        yield tell
        console.print(f"{work}: {count:,} {unit}, done", soft_wrap=True)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(work, total=None, count="")

        def draw(done: int, total: int | None) -> None:
            count = f"{done:,}{f'/{total:,}' if total else ''} {unit}"
            bar.update(task, completed=done, total=total, count=count)

        yield draw

"""`paddock dashboard`: the page in the browser that shows runs, steers them and starts new ones."""

from __future__ import annotations

import os
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_runs
from paddock.cli.run_options import RUNS, RunsDirOption

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def dashboard(
    run: Annotated[
        str | None,
        typer.Argument(help="A run to open at once: its name, or the start of it.", autocompletion=complete_runs),
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="By default 8321, or the next free one.")] = None,
    host: Annotated[str, typer.Option(help="Another address than this machine's own.")] = ("127.0.0.1"),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open nothing.")] = False,
    runs_dir: RunsDirOption = RUNS,
    laps: Annotated[Path, typer.Option(metavar="DIR", help="Folder of recorded human laps.")] = Path("laps"),
    mine: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of your own experiments (*.yaml) and reward functions (*.py), to start with."
        ),
    ] = None,
    demonstrations: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of sets of demonstrations that the page can play.")
    ] = Path("demonstrations"),
) -> None:
    """Open the page; it attaches to running experiments and starts new ones."""
    import webbrowser

    from paddock.dashboard.access import open_access, published
    from paddock.dashboard.guard import is_local
    from paddock.dashboard.mine import Mine
    from paddock.dashboard.server import Dashboard, listen, make_app, serve

    access = open_access()
    board = Dashboard(
        runs_dir, laps, access, Mine(mine) if mine is not None else None, demonstrations_dir=demonstrations
    )
    place = _place(board, run) if run else ""
    listener = listen(host, port)
    taken = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{taken}/?token={access.token}{place}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # However it is ended, the token's file goes with it.
    with suppress(KeyboardInterrupt), published(access, address, taken) as page:
        # A log that others can read is no place for the token; the page that leads there is for the owner only.
        print(f"Dashboard running at: {page.as_uri() if _is_read_by_others(sys.stdout) else address}", flush=True)
        if not is_local(host):
            print("This address lets its holder start and stop runs on this machine. Keep it secret.", flush=True)
        print("Ctrl-C stops the dashboard; runs continue.", flush=True)
        if not no_browser:
            webbrowser.open(page.as_uri())
        serve(make_app(board, host=host, port=taken), listener)


def _place(board: Any, given: str) -> str:
    """Where on the page a run is: the part of the address that the page reads."""
    from urllib.parse import quote

    run = board.runs.resolve(given)
    return f"#/{board.runs.section(run)}/{quote(run, safe='')}"


def _is_read_by_others(stream: Any) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o044)

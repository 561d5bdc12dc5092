"""`paddock dashboard`: the page in the browser that shows runs, steers them and starts new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    host: Annotated[str, typer.Option(help="Another address than this machine's own; needs the token then.")] = (
        "127.0.0.1"
    ),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open nothing.")] = False,
    runs_dir: RunsDirOption = RUNS,
    laps: Annotated[Path, typer.Option(metavar="DIR", help="Folder of recorded human laps.")] = Path("laps"),
) -> None:
    """Open the page; it attaches to running experiments and starts new ones."""
    import webbrowser

    from paddock.dashboard.server import Dashboard, is_local, listen, make_app, new_token, serve

    token = None if is_local(host) else new_token()
    board = Dashboard(runs_dir, laps, token)
    chosen = board.book.resolve(run) if run else None
    listener = listen(host, port)
    taken = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    query = "&".join(part for part in (f"token={token}" if token else "", f"run={chosen}" if chosen else "") if part)
    address = f"http://{shown}:{taken}/" + (f"?{query}" if query else "")
    print(f"The pit wall is open: {address}", flush=True)
    if token:
        print("Whoever has this address can start and stop runs on this machine. Keep it to yourself.", flush=True)
    print("Ctrl-C closes it; runs go on.", flush=True)
    if not no_browser:
        webbrowser.open(address)
    serve(make_app(board, host=host, port=taken), listener)

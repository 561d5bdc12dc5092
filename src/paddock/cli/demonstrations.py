"""`paddock demonstrations`: list, show, play, merge, export and import demonstrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_from
from paddock.cli.run_options import RUNS, JsonOption, RunsDirOption

app = typer.Typer(help="List, inspect, play, merge, import and export demonstrations.", no_args_is_help=True)

HEADINGS = {"mean_return": "return", "is_intervention": "taken over"}
OF_EACH = ("episode", "steps", "return", "end", "is_intervention", "corrected")
WIDE = ("drivers", "driver", "tracks", "track", "student")

SetArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of demonstrations, or of a recording.")]


@app.command("list")
def list_sets(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to look, also further down.")] = Path("."),
    as_json: JsonOption = False,
) -> None:
    """The sets of demonstrations in a folder, one line each."""
    from paddock.buffers.demonstration_files import find_sets
    from paddock.core.errors import InputError
    from paddock.orchestration.demonstration_sets import summary

    if not folder.is_dir():
        raise InputError(f"'{folder}' is no folder.")
    rows: list[dict[str, Any]] = []
    for found in find_sets(folder):
        try:
            rows.append(summary(found))
        except InputError as error:
            typer.echo(f"{found}: {error}", err=True)
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print(f"There are no demonstrations in '{folder}'. Record some: paddock record episodes FOLDER --laps 10")
    else:
        columns = ("folder", "episodes", "steps", "drivers", "tracks", "mean_return")
        has_any = any(row["is_intervention"] for row in rows)
        _print_table(rows, (*columns, "is_intervention") if has_any else columns)


@app.command("show")
def show_set(folder: SetArgument, as_json: JsonOption = False) -> None:
    """One set: where it comes from, what it holds, each of its episodes."""
    from paddock.orchestration.demonstration_sets import details

    values = details(folder)
    if as_json:
        print(json.dumps(values, indent=2))
        return
    for name, value in values.items():
        if name not in ("spec", "list", "actions"):
            print(f"{name:16} {_text(value)}")
    for name, part in values["spec"]["observation"].items():
        print(f"observation      {name}: {part['dtype']} {part['shape']}")
    print(f"action           {values['spec']['action']['dtype']} {values['spec']['action']['shape']}")
    for name, value in values["actions"].items():
        print(f"action {name:9} {', '.join(f'{one:.3f}' for one in value)}")
    rows = values["list"]
    columns = dict.fromkeys(key for row in rows for key in row if key not in ("driver", "track"))  # said above
    for name in [name for name in columns if name not in OF_EACH]:
        if len({str(row.get(name)) for row in rows}) == 1:
            print(f"{name:16} {_text(rows[0].get(name))}")
            del columns[name]
    if len(values["drivers"]) > 1:
        columns["driver"] = None
    if len(values["tracks"]) > 1:
        columns["track"] = None
    _print_table(rows, tuple(columns))


@app.command("play")
def play_set(
    folder: SetArgument,
    episode: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="The first episode to play.")] = 0,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the page; by default a free one.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open nothing.")] = False,
    session: Annotated[
        bool, typer.Option("--session", help="Start only the playback; attach from a running dashboard.")
    ] = False,
    runs_dir: RunsDirOption = RUNS,
) -> None:
    """Play the episodes of a set on the page: what was seen, and what was done."""
    from contextlib import nullcontext

    from paddock.cli.page import page_beside
    from paddock.racing.playback import Playback, PlaybackSession, playback_folder

    playback = Playback(folder, episode)
    run = playback_folder(folder, runs_dir)
    options = ["--port", str(port)] if port is not None else []
    options += ["--no-browser"] if no_browser else []
    page = nullcontext() if session else page_beside(run.name, runs_dir, *options)
    with run.lock():
        playing = PlaybackSession(playback, run, str(folder))
        with page, playing.control.listening():
            playing.run()


@app.command("merge")
def merge_sets(
    sources: Annotated[list[Path], typer.Argument(metavar="FOLDER ...", help="Sets of the same environment.")],
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="A new folder for all of their episodes.")],
    as_json: JsonOption = False,
) -> None:
    """Put the episodes of several sets together."""
    from paddock.orchestration.demonstration_sets import merge

    _tell(merge(sources, into), as_json)


@app.command("export")
def export_set(
    folder: SetArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Minari's name for it, or a new folder for LeRobot.")],
    format: Annotated[
        str,
        typer.Option("--format", help="minari or lerobot.", autocompletion=complete_from("minari", "lerobot")),
    ] = "minari",
    author: Annotated[str | None, typer.Option(help="Who made it, for Minari.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a set as a dataset of another program, without loss."""
    from paddock.orchestration import demonstration_sets

    values = demonstration_sets.export_set(folder, format, target, author=author)
    if as_json:
        print(json.dumps(values, indent=2))
    else:
        print(f"{values['to']}: {values['episodes']} episodes with {values['steps']:,} steps")


@app.command("import")
def import_set(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="minari:DATASET, or the folder of a LeRobot dataset (v3.0).")
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder for the demonstrations.")],
    as_json: JsonOption = False,
) -> None:
    """Read a dataset of another program."""
    from paddock.orchestration import demonstration_sets

    _tell(demonstration_sets.import_set(source, folder), as_json)


def _tell(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(values, indent=2))
    else:
        print(f"{values['folder']}: {values['episodes']} episodes with {values['steps']:,} steps")


def _print_table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in columns:
        # Names of drivers and tracks give way first: a number or a folder in two lines is hard to read.
        table.add_column(HEADINGS.get(name, name), overflow="fold", no_wrap=name not in WIDE)
    for row in rows:
        table.add_row(*(_text(row.get(name)) for name in columns))
    Console().print(table)


def _text(value: Any) -> str:
    from rich.markup import escape

    from paddock.core.text import printable

    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, list):
        return escape(printable(", ".join(map(str, value))))
    return escape(printable(str(value)))

"""`paddock export`: runs as files for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.completion import complete_from
from paddock.cli.run_options import RUNS, JsonOption, RunsArgument, RunsDirOption

FORMATS = ("csv", "json", "latex", "markdown", "parquet")
app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def export(
    runs: RunsArgument,
    format: Annotated[
        str,
        typer.Option("--format", help="csv, json, latex, markdown or parquet.", autocompletion=complete_from(*FORMATS)),
    ] = "csv",
    table: Annotated[
        str | None,
        typer.Option(
            help="points (as logged), runs (final values) or groups (with intervals).",
            autocompletion=complete_from("points", "runs", "groups"),
        ),
    ] = None,
    metrics: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these metrics; repeat.")] = None,
    group_by: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="What makes a group, as in compare.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A file; standard output by default.")
    ] = None,
    runs_dir: RunsDirOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    """Export runs: logged points as csv, json or parquet, or a table of groups for a paper as latex or markdown."""
    from paddock.core.text import printable
    from paddock.experiments.export import export_rows, write_rows

    format = "json" if as_json else format
    table = table or ("groups" if format in ("latex", "markdown") else "points")
    rows = export_rows(runs_dir, runs, table, metrics or [], group_by or [])
    text = write_rows(rows, format, output)
    if text is None:
        print(f"{output}: {len(rows)} rows")
    else:
        print(printable(text, keep="\n\t") if sys.stdout.isatty() else text, end="")

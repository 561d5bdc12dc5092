"""`paddock compare`: runs side by side, in the terminal and as a page."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.completion import complete_from
from paddock.cli.run_options import RUNS, JsonOption, RunsArgument, RunsDirOption
from paddock.core.errors import InputError

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def compare(
    runs: RunsArgument,
    metrics: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Metrics; the first one is the score. Repeat or use commas."),
    ] = None,
    group_by: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Group by an option or field: algorithm, config.workflow.clip_ratio."),
    ] = None,
    score: Annotated[
        str,
        typer.Option(help="The evaluation that counts: last or best.", autocompletion=complete_from("last", "best")),
    ] = "last",
    score_range: Annotated[
        list[str] | None, typer.Option(metavar="TASK=LOW:HIGH", help="Scores that count as 0 and 1 on a task; repeat.")
    ] = None,
    html: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the report.")] = Path(
        "reports/comparison.html"
    ),
    no_html: Annotated[bool, typer.Option("--no-html", help="Only the terminal.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
    runs_dir: RunsDirOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    """Compare runs: intervals, probability of improvement, configuration, and a report with curves."""
    from paddock.experiments.compare.compare import compare as put_side_by_side
    from paddock.experiments.compare.table import comparison_values, parse_range, show_comparison

    if score not in ("last", "best"):
        raise InputError(f"--score '{score}' is neither last nor best.")
    comparison = put_side_by_side(
        runs_dir,
        runs,
        metrics=_split(metrics),
        group_by=_split(group_by),
        which=score,
        ranges=dict(parse_range(text) for text in score_range or []),
    )
    values = comparison_values(comparison)
    if not no_html:
        from paddock.experiments.report.report import write_report

        values["report"] = str(write_report(html, comparison))
    if as_json:
        print(json.dumps(values, indent=2))
    else:
        show_comparison(values)
    if open_page and not no_html:
        webbrowser.open(html.resolve().as_uri())


def _split(given: list[str] | None) -> list[str]:
    return [name for text in given or [] for name in text.split(",") if name]

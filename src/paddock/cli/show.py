"""`paddock show`: everything about one run."""

from __future__ import annotations

import json

import typer

from paddock.cli.run_options import RUNS, JsonOption, RunArgument, RunsDirOption

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def show(run: RunArgument, runs_dir: RunsDirOption = RUNS, as_json: JsonOption = False) -> None:
    """Show a run: its configuration against its experiment, curves, phases, events."""
    from paddock.experiments.run import RunFolder
    from paddock.experiments.store.show import describe_run, show_run

    values = describe_run(RunFolder.find(runs_dir, run))
    if as_json:
        print(json.dumps(values, indent=2, default=str))
    else:
        show_run(values)

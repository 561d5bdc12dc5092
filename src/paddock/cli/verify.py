"""`paddock verify`: run a run again and say whether it comes out the same."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli.run_options import RUNS, JsonOption, PluginOption, RunArgument, RunsDirOption, TrustOption

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def verify(
    run: RunArgument,
    checkpoint: Annotated[
        str | None,
        typer.Option("--from", metavar="CHECKPOINT", help="latest, best, or its steps; the seed by default."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Agent steps to compare; all by default.")] = None,
    trust: TrustOption = False,
    runs_dir: RunsDirOption = RUNS,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a run again from its configuration and seed, and compare every logged quantity bit by bit."""
    from paddock.experiments.display import make_console
    from paddock.experiments.run import RunFolder
    from paddock.experiments.verify import show_verdict
    from paddock.experiments.verify import verify as replay_and_compare

    found, console = RunFolder.find(runs_dir, run), make_console(stderr=True)
    with console.status("running it again ...") as status:
        verdict = replay_and_compare(
            found,
            checkpoint=checkpoint,
            steps=steps,
            trusts=trust,
            progress=lambda done, total: status.update(f"running it again: step {done:,} of {total:,}"),
        )
    if as_json:
        print(json.dumps(verdict.to_dict(), indent=2))
    else:
        show_verdict(verdict)
    raise typer.Exit(0 if verdict.is_identical else 1)

"""`paddock verify`: run a run again and say whether it comes out the same."""

from __future__ import annotations

import json
from dataclasses import asdict
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
    steps: Annotated[int | None, typer.Option(min=1, help="Only so many agent steps.")] = None,
    trust: TrustOption = False,
    runs_dir: RunsDirOption = RUNS,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a run again from its configuration and seed, and compare every logged quantity bit by bit."""
    from paddock.experiments.display import make_console, markup, number
    from paddock.experiments.run import RunFolder
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
        print(json.dumps({**asdict(verdict), "is_identical": verdict.is_identical}, indent=2))
        raise typer.Exit(0 if verdict.is_identical else 1)
    console = make_console()
    reached = f"{verdict.points} logged points"
    divergence = verdict.divergence
    if divergence is not None:
        console.print(
            f"[bold red]diverges at step {divergence.agent_steps:,}[/]: {markup(divergence.quantity)} was "
            f"{markup(repr(divergence.original))}, is now {markup(repr(divergence.replayed))}. "
            f"Identical up to step {verdict.agent_steps:,}.",
            soft_wrap=True,
        )
    elif verdict.is_policy_equal is False:
        console.print(f"[bold red]the final policies differ[/], though {reached} are identical.")
    else:
        policy = ", and the final policies bit by bit" if verdict.is_policy_equal else ""
        console.print(
            f"[bold green]identical to step {verdict.agent_steps:,}[/]: {reached} from {verdict.start}{policy}.",
            soft_wrap=True,
        )
    for name, then, now in verdict.differences:
        was, is_now = (markup(number(value) or "unknown") for value in (then, now))
        console.print(f"  differs: {markup(name)} was {was}, is now {is_now}")
    if not verdict.differences:
        console.print("  same code, versions and machine as the run.")
    for note in verdict.notes:
        console.print(f"  note: {note}.")
    raise typer.Exit(0 if verdict.is_identical else 1)

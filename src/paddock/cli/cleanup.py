"""`paddock cleanup`: free disk space."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from paddock.cli.run_options import RUNS, JsonOption, RunsDirOption
from paddock.core.errors import InputError

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def cleanup(
    keep_best: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Runs to keep per environment, by best evaluation."),
    ] = None,
    keep_recent: Annotated[int | None, typer.Option(min=0, metavar="N", help="Number of newest runs to keep.")] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Only until all runs together take no more than this: 50G.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be freed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsDirOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    """Remove checkpoints, policies and videos of runs beyond the best and the newest; keep configs and metrics."""
    from paddock.experiments.display import show_table, size
    from paddock.experiments.store.cleanup import carry_out, parse_size, plan_cleanup
    from paddock.experiments.store.store import open_store

    store = open_store(runs_dir)
    limit = parse_size(max_size) if max_size is not None else None
    plan = plan_cleanup(store, keep_best=keep_best, keep_recent=keep_recent, max_size=limit)
    if as_json:
        values = {"freed": plan.freed, "thinned": plan.thinned, "kept": plan.kept, "dry_run": dry_run}
        print(json.dumps(values, indent=2))
    else:
        rows = [[name, f"frees {size(freed)}"] for name, freed in plan.thinned.items()]
        show_table(["run", "what"], rows + [[name, f"stays: {reason}"] for name, reason in plan.kept.items()])
        verb = "would free" if dry_run else "frees"
        print(f"{verb} {size(plan.freed)} in {len(plan.thinned)} runs; configurations and metrics stay.")
    if dry_run or not plan.thinned:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("not an interactive terminal; add --yes to remove, or --dry-run to only look.")
        typer.confirm("Remove?", abort=True)
    carry_out(store, plan)

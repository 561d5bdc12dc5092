"""`paddock tag`: words to find runs by, and pins that protect them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli.run_options import RUNS, JsonOption, RunsArgument, RunsDirOption
from paddock.core.errors import InputError

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def tag(
    runs: RunsArgument,
    add: Annotated[list[str] | None, typer.Option(metavar="WORD", help="Add a tag; repeat.")] = None,
    remove: Annotated[list[str] | None, typer.Option(metavar="WORD", help="Remove a tag; repeat.")] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", help="A pinned run is never touched by paddock cleanup.")
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="A note about the run; empty removes it.")] = None,
    rename: Annotated[
        str | None, typer.Option(metavar="NAME", help="Call one run otherwise; its folder stays as it is.")
    ] = None,
    runs_dir: RunsDirOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    """Add and remove tags, pins and notes; rename a run."""
    from paddock.core.reading import DamagedError
    from paddock.core.text import printable
    from paddock.experiments.run import RunFolder
    from paddock.experiments.store.editing import label_run

    if not add and not remove and pin is None and note is None and rename is None:
        raise InputError("say what to change: --add WORD, --remove WORD, --pin, --unpin, --note TEXT or --rename NAME.")
    found = {run.name: run for given in runs for run in RunFolder.find_all(runs_dir, given)}
    if rename is not None and len(found) != 1:
        raise InputError(f"--rename takes one run; {len(found)} were given: {', '.join(found)}.")
    changed, damage = {}, []
    for name, run in found.items():
        try:
            labels = run.read_labels()
        except DamagedError as error:
            damage.append(f"Run '{name}' stays as it is: {error}")
            continue
        tags = (set(labels["tags"]) | set(add or [])) - set(remove or [])
        changed[name] = label_run(run, tags=sorted(tags), is_pinned=pin, note=note, name=rename)
    if as_json:
        print(json.dumps(changed, indent=2))
    else:
        for name, labels in changed.items():
            cells = [name, "pinned" if labels["pinned"] else "", " ".join(labels["tags"])]
            cells += [labels["note"]] if labels["note"] else []
            print("\t".join(map(printable, cells)))
    if damage:
        raise InputError(" ".join(damage))

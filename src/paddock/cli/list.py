"""`paddock list`: find runs."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer

from paddock.cli.run_options import RUNS, FilterOption, JsonOption, RunsDirOption, TagOption

app = typer.Typer(pretty_exceptions_enable=False)


@app.command("list")
def list_runs(
    filters: FilterOption = None,
    tag: TagOption = None,
    sort: Annotated[str | None, typer.Option(metavar="KEY", help="By any key, the highest first.")] = None,
    ascending: Annotated[bool, typer.Option("--ascending", help="The lowest first.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of runs to show: the best, or the newest.")] = None,
    metric: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Columns to show; repeat.")] = None,
    reindex: Annotated[bool, typer.Option("--reindex", help="Rebuild the index from the folders.")] = False,
    runs_dir: RunsDirOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    """List runs, filtered and sorted by anything that is known of them."""
    from paddock.experiments.store.filters import find_runs, parse_key
    from paddock.experiments.store.listing import plain_summary, show_list, usual_metrics
    from paddock.experiments.store.store import open_store

    store = open_store(runs_dir)
    if reindex:
        store.rebuild()
    chosen = partial(find_runs, store, filters=filters or [], tags=tag or [], sort=sort)
    found = chosen(is_ascending=ascending, limit=limit)
    names = dict.fromkeys(metric or [])
    if not names:
        known = store.metric_names()
        ranked_by = [name for name in usual_metrics(found) if name in known]
        names = dict.fromkeys([*([sort] if sort else []), *ranked_by, *(f"{name}.max" for name in ranked_by)])
    keys = [key for text in names if (key := parse_key(text, store)).metric or key.option or metric]
    found = chosen(is_ascending=ascending, limit=limit, keys=keys)
    if as_json:
        print(json.dumps([plain_summary(summary) for summary in found], indent=2))
    elif found:
        show_list(found, keys)
    elif filters or tag:
        print("no run fulfils all of that.")
    else:
        print(f"there are no runs in '{runs_dir}' yet. Start one: paddock train ppo_cartpole")

"""`paddock train --seed 1,2,3`: several seeds side by side, and the table at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from paddock.core.errors import InputError

if TYPE_CHECKING:
    from paddock.orchestration.launch import Request
    from paddock.orchestration.schema import ExperimentConfig

NOT_PASSED_ON = ("seed", "jobs", "dashboard", "as_json")


def train_side_by_side(context: typer.Context, requests: Sequence[Request], jobs: int, *, as_json: bool) -> None:
    """One process per seed, `jobs` of them at a time; ends with exit code 1 where one of them failed."""
    from paddock.experiments.campaigns.executor import LocalExecutor
    from paddock.experiments.campaigns.live_table import LiveTable
    from paddock.experiments.campaigns.seeds import COLUMNS, FAILED, run_seeds, seed_rows, seed_values
    from paddock.experiments.campaigns.stopping import stop_requests
    from paddock.orchestration.launch import resolve

    if len(requests) < 2:
        raise InputError("--jobs runs several seeds at the same time; give them: --seed 1,2,3.")
    if context.params["dashboard"]:
        raise InputError("--dashboard opens one run; with --jobs type `paddock dashboard` in another terminal.")
    everything = [resolve(request)[0] for request in requests]  # Mistakes are told once, before anything starts.
    settings = everything[0]
    metric = settings.evaluation.metric
    columns = [*COLUMNS, f">{metric}", "run"]
    with LiveTable(columns, status=1, quiet=as_json, vanishes=True) as table, stop_requests() as is_asked_to_stop:
        progress = run_seeds(
            ["train", *_typed_again(context)],
            [request.seed for request in requests if request.seed is not None],
            LocalExecutor(jobs),
            runs_dir=Path(settings.runs_dir),
            name=settings.name,
            metric=metric,
            watch=lambda progress: table.show(seed_rows(progress, metric)),
            is_asked_to_stop=is_asked_to_stop,
        )
    endings = [seed_values(one, metric) for one in progress]
    if as_json:
        print(json.dumps(endings, indent=2))
    else:
        print_seeds(settings, endings)
        for one in progress:
            if one.status == FAILED:
                print(f"seed {one.seed} failed; see {one.log}")
    raise typer.Exit(1 if any(one.status == FAILED for one in progress) else 0)


def print_seeds(settings: ExperimentConfig, endings: Sequence[Mapping[str, Any]]) -> None:
    """The table over seeds, and what to type next."""
    from paddock.experiments.campaigns.seeds import show_seeds

    show_seeds(endings, settings.evaluation.metric)
    folder = f" --runs-dir {settings.runs_dir}" if settings.runs_dir != "runs" else ""
    print(f"Next: paddock compare {settings.name}{folder}")
    for values in endings:
        if values["status"] == "stopped":
            print(f"      paddock train --resume {Path(values['run']).name}{folder}")


def _typed_again(context: typer.Context) -> list[str]:
    """The arguments of this call, but for those that are about several seeds."""
    words = list(context.params["arguments"] or [])
    for param in context.command.params:
        name = str(param.name)
        value = context.params.get(name)
        if param.param_type_name != "option" or name in NOT_PASSED_ON or value in (None, False, [], ()):
            continue
        given = value if isinstance(value, list | tuple) else [value]
        words += [param.opts[0]] if value is True else [word for one in given for word in (param.opts[0], str(one))]
    return words

"""`paddock sweep`: every combination of some options, over seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.executors import (
    AddressOption,
    BringHomeOption,
    CpusOption,
    GpusOption,
    OnOption,
    OnRay,
    Place,
    make_executor,
)
from paddock.cli.run_options import JsonOption, PluginOption

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep, as YAML: see docs/sweeps.md.")],
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run again what failed before or is damaged.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that there would be.")] = False,
    on: OnOption = Place.LOCAL,
    address: AddressOption = None,
    cpus: CpusOption = None,
    gpus: GpusOption = None,
    bring_home: BringHomeOption = False,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a sweep, or continue one: what is finished is not repeated."""
    from paddock.experiments.campaigns.live_table import LiveTable
    from paddock.experiments.campaigns.stopping import stop_requests
    from paddock.experiments.campaigns.sweep import (
        COLUMNS,
        FAILURES,
        SweepConfig,
        run_sweep,
        show_ending,
        sweep_rows,
        sweep_values,
        trial_values,
    )
    from paddock.experiments.campaigns.trials import Campaign, checked_campaign, read_campaign

    given = read_campaign(file, SweepConfig)
    config = checked_campaign(given, given.parameters)
    campaign, metric = Campaign(config), config.metric or ""
    if dry_run:
        trials = trial_values(config)
        print(
            json.dumps(trials, indent=2)
            if as_json
            else "\n".join(f"{one['values']}  seed {one['seed']}" for one in trials)
        )
        return
    columns = [*COLUMNS, f">{metric}", "run"]
    with campaign.held(), LiveTable(columns, status=2, quiet=as_json) as table, stop_requests() as is_asked_to_stop:
        progress = run_sweep(
            config,
            campaign,
            make_executor(on, config.parallel_jobs, config.runs_dir, OnRay(address, cpus, gpus, bring_home)),
            retry_failed=retry_failed,
            watch=lambda progress: table.show(sweep_rows(progress, metric)),
            is_asked_to_stop=is_asked_to_stop,
        )
    if as_json:
        print(json.dumps(sweep_values(progress, metric), indent=2))
    else:
        show_ending(config, campaign, progress)
    raise typer.Exit(1 if any(one.status in FAILURES for one in progress) else 0)

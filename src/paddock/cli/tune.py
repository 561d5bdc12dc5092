"""`paddock tune`: search for good options."""

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
def tune(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The search, as YAML: see docs/sweeps.md.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the report; reports/NAME.html by default.")
    ] = None,
    on: OnOption = Place.LOCAL,
    address: AddressOption = None,
    cpus: CpusOption = None,
    gpus: GpusOption = None,
    bring_home: BringHomeOption = False,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search with Optuna, or continue a search; trials without promise are stopped early."""
    from paddock.experiments.campaigns.live_table import LiveTable
    from paddock.experiments.campaigns.stopping import stop_requests
    from paddock.experiments.campaigns.trials import Campaign, checked_campaign, read_campaign
    from paddock.experiments.campaigns.tune import COLUMNS, TuneConfig, open_study, run_search, search_rows
    from paddock.experiments.report.tune import search_values, show_best, write_tune_report

    given = read_campaign(file, TuneConfig)
    config = checked_campaign(given, given.parameters)
    campaign = Campaign(config)

    columns = [*COLUMNS, f">{config.metric}"]
    with campaign.held(), LiveTable(columns, status=2, quiet=as_json) as table, stop_requests() as is_asked_to_stop:
        study = open_study(config, campaign)
        found = run_search(
            config,
            campaign,
            make_executor(on, config.parallel_jobs, config.runs_dir, OnRay(address, cpus, gpus, bring_home)),
            study,
            watch=lambda attempts: table.show(search_rows(attempts)),
            is_asked_to_stop=is_asked_to_stop,
        )
        page = write_tune_report(html or Path("reports") / f"{config.name}.html", config, study, found)
        values = search_values(config, study, found)
    if as_json:
        print(json.dumps({**values, "report": str(page)}, indent=2))
        return
    show_best(values)
    print(f"report: {page}")

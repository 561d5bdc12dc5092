"""`paddock sweep`: every combination of some options, over seeds."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.run_options import JsonOption, PluginOption

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep, as YAML: see docs/sweeps.md.")],
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run again what failed the last time.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that there would be.")] = False,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a sweep, or continue one: what is finished is not repeated."""
    from paddock.experiments.campaigns.executor import LocalExecutor
    from paddock.experiments.campaigns.live_table import LiveTable
    from paddock.experiments.campaigns.sweep import SweepConfig, run_sweep, sweep_rows
    from paddock.experiments.campaigns.trials import Campaign, checked_campaign, read_campaign

    given = read_campaign(file, SweepConfig)
    config = checked_campaign(given, given.parameters)
    campaign, metric = Campaign(config), config.metric or ""
    if dry_run:
        trials = [{"values": dict(trial.values), "seed": trial.seed} for trial in config.trials()]
        print(
            json.dumps(trials, indent=2)
            if as_json
            else "\n".join(f"{one['values']}  seed {one['seed']}" for one in trials)
        )
        return
    columns = ["trial", ">seed", "status", ">steps", ">time", f">{metric}", "run"]
    with campaign.held(), LiveTable(columns, status=2, quiet=as_json) as table, stopping() as is_asked_to_stop:
        progress = run_sweep(
            config,
            campaign,
            LocalExecutor(config.parallel_jobs),
            retry_failed=retry_failed,
            watch=lambda progress: table.show(sweep_rows(progress, metric)),
            is_asked_to_stop=is_asked_to_stop,
        )
    failed = [one for one in progress if one.status in ("failed", "crashed")]
    if as_json:
        rows = [
            {"values": dict(one.trial.values), "seed": one.trial.seed, "status": one.status,
             "run": one.summary.folder if one.summary else None,
             metric: one.summary.metrics[metric].last if one.summary and metric in one.summary.metrics else None}
            for one in progress
        ]  # fmt: skip
        print(json.dumps(rows, indent=2))
    else:
        for one in failed:
            print(f"{one.status}: {one.trial.label}, seed {one.trial.seed}; see {campaign.job(one.trial, None).log}")
        groups = "".join(f" --group-by config.{name}" for name in config.parameters)
        print(f"Next: paddock compare {config.name}{groups} --runs-dir {config.runs_dir}")
    raise typer.Exit(1 if failed else 0)


class stopping:
    """While it lasts, the first SIGINT or SIGTERM is a request: what runs is asked to save and end."""

    def __enter__(self) -> Any:
        self._is_asked = False
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return lambda: self._is_asked

    def __exit__(self, *error: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._is_asked:
            raise KeyboardInterrupt
        self._is_asked = True

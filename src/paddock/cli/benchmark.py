"""`paddock benchmark`: tasks with published values, run over seeds, and their report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from paddock.cli.run_options import JsonOption

if TYPE_CHECKING:
    from paddock.experiments.campaigns.benchmark import Benchmark

app = typer.Typer(help="Run tasks with published values over seeds, and report them.", no_args_is_help=True)

NameArgument = Annotated[
    str, typer.Argument(metavar="BENCHMARK", help="One that ships, or a YAML file: see docs/benchmarks.md.")
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="WORDS", help="Only tasks whose name has all these words; may be given again."),
]


@app.command("list")
def list_benchmarks(as_json: JsonOption = False) -> None:
    """The benchmarks that ship."""
    from paddock.experiments.campaigns.benchmark import read_benchmark, shipped_benchmarks
    from paddock.experiments.display import show_table

    found = [read_benchmark(name) for name in shipped_benchmarks()]
    if as_json:
        print(json.dumps([one.model_dump(mode="json") for one in found], indent=2))
        return
    rows = [[one.name, str(len(one.tasks)), str(len(one.seeds)), one.description] for one in found]
    show_table(["benchmark", ">tasks", ">seeds", "what it is"], rows)


@app.command()
def run(
    benchmark: NameArgument,
    only: OnlyOption = None,
    runs_dir: Annotated[Path | None, typer.Option(help="Where runs go, in place of the file's.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time, in place of the file's.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run again what failed before or is damaged.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the commands.")] = False,
    on: OnOption = Place.LOCAL,
    address: AddressOption = None,
    cpus: CpusOption = None,
    gpus: GpusOption = None,
    bring_home: BringHomeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a benchmark, or continue one: what is finished is not repeated, what was cut off is resumed."""
    from paddock.experiments.campaigns.benchmark import progress_rows, results
    from paddock.experiments.campaigns.live_table import LiveTable
    from paddock.experiments.campaigns.stopping import stop_requests
    from paddock.experiments.campaigns.sweep import FAILURES, run_trials
    from paddock.experiments.report.benchmark import result_values

    chosen = _chosen(benchmark, only, runs_dir, jobs)
    chosen.check()
    if dry_run:
        print("\n".join(chosen.command(name) for name in chosen.tasks))
        return
    columns = ["task", ">seed", "status", ">steps", ">time", ">score", "run"]
    with chosen.held(), LiveTable(columns, status=2, quiet=as_json) as table, stop_requests() as is_asked_to_stop:
        progress = run_trials(
            chosen.trials(),
            chosen,
            make_executor(
                on, chosen.config.parallel_jobs, chosen.config.runs_dir, OnRay(address, cpus, gpus, bring_home)
            ),
            parallel_jobs=chosen.config.parallel_jobs,
            retry_failed=retry_failed,
            watch=lambda progress: table.show(progress_rows(progress, chosen)),
            is_asked_to_stop=is_asked_to_stop,
        )
        found = results(chosen, chosen.runs())
    failed = [one for one in progress if one.status in FAILURES]
    if as_json:
        print(json.dumps(result_values(chosen, found), indent=2))
    else:
        for one in failed:
            name, log = one.trial.values["task"], chosen.job(one.trial, None).log
            print(f"{one.status}: {name}, seed {one.trial.seed}; see {log}")
        print(f"Next: paddock benchmark report {benchmark}" + (f" --runs-dir {runs_dir}" if runs_dir else ""))
    raise typer.Exit(1 if failed else 0)


@app.command()
def report(
    benchmark: NameArgument,
    only: OnlyOption = None,
    runs_dir: Annotated[Path | None, typer.Option(help="Where the runs are, in place of the file's.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page; reports/NAME.html by default.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the report as Markdown.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Our scores beside the published ones, from the runs that there are."""
    from paddock.experiments.campaigns.benchmark import results
    from paddock.experiments.display import show_table
    from paddock.experiments.report import benchmark as reporting

    chosen = _chosen(benchmark, only, runs_dir, None)
    chosen.check()
    with chosen.opened():
        found = results(chosen, chosen.runs())
    page = reporting.write_benchmark_page(html or Path("reports") / f"{chosen.config.name}.html", chosen, found)
    if markdown is not None:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        markdown.write_text(reporting.markdown(chosen, found), encoding="utf-8")
    if as_json:
        print(json.dumps({**reporting.result_values(chosen, found), "report": str(page)}, indent=2))
        return
    heads = [f">{name}" if k >= reporting.NUMBERS else name for k, name in enumerate(reporting.HEADINGS)]
    show_table(heads, [reporting.result_cells(one, len(chosen.config.seeds)) for one in found])
    print(f"report: {page}" + (f", {markdown}" if markdown else ""))


def _chosen(given: str, only: list[str] | None, runs_dir: Path | None, jobs: int | None) -> Benchmark:
    from paddock.core.errors import InputError
    from paddock.experiments.campaigns.benchmark import Benchmark, read_benchmark

    config = read_benchmark(given)
    changes = {"runs_dir": str(runs_dir) if runs_dir else None, "parallel_jobs": jobs}
    config = config.model_copy(update={name: value for name, value in changes.items() if value is not None})
    words = [one.lower().split() for one in only or []]
    tasks = [
        task for task in config.tasks if not words or any(all(w in task.name.lower() for w in one) for one in words)
    ]
    if not tasks:
        names = ", ".join(task.name for task in config.tasks)
        raise InputError(f"no task of '{config.name}' has the words {' or '.join(only or [])}. There are: {names}.")
    return Benchmark(config, tasks)

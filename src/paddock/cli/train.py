"""`paddock train`: start runs, resume them, and show what would be run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.core.errors import InputError

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def train(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EXPERIMENT] [KEY=VALUE ...]", help="What to run and change."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Your own YAML: an experiment's file, or a directory.")] = None,
    preset: Annotated[str | None, typer.Option(help="A variation on the experiment, for example smoke.")] = None,
    name: Annotated[str | None, typer.Option(help="The run's name; the experiment's by default.")] = None,
    seed: Annotated[str | None, typer.Option(help="One seed or several, 1,2,3: one run a seed.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with a run: its path, or the start of its name.")] = None,
    plugin: Annotated[list[str] | None, typer.Option(help="A package of yours that _target_ may name.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Anomaly detection, statistics, a profile.")] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Open the page beside the run.")] = False,
    print_config: Annotated[bool, typer.Option("--print-config", help="Show the resolved whole, do not run.")] = False,
    list_experiments: Annotated[bool, typer.Option("--list", help="The experiments that ship.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Train an agent, or resume a run."""
    from rich.console import Console

    from paddock.config.compose import choices, describe
    from paddock.experiments.run import RunFolder
    from paddock.orchestration import summary
    from paddock.orchestration.launch import RESUME_RULE, Request, new_run, resolve, resumed_run

    _register(plugin or [])
    experiment, overrides = _split(arguments or [])
    if debug:
        overrides.append("debug=true")
    console = Console(stderr=as_json)

    if list_experiments:
        known = {name: describe(file) for name, file in choices("experiment", config).items()}
        width = max(len(name) for name in known)
        lines = [f"{name:<{width}}  {text}" for name, text in known.items()]
        print(json.dumps(known, indent=2) if as_json else "\n".join(lines))
        return
    if resume is not None:
        if experiment or config or preset or seed or name:
            raise InputError("--resume goes on with a run as it was; beside it there is only key=value. " + RESUME_RULE)
        run = RunFolder.find(_runs_dir(overrides), resume)
        overrides = [text for text in overrides if not text.startswith("runs_dir=")]
        console.print(RESUME_RULE, highlight=False)
        with resumed_run(run, overrides, console) as orchestrator, _page(run, is_wanted=dashboard):
            _report(orchestrator, orchestrator.run(), console, as_json=as_json)
        return
    if experiment is None and config is None:
        listed = ", ".join(choices("experiment"))
        raise InputError(f"say what to train: paddock train EXPERIMENT. There are: {listed}.")
    for one_seed in _seeds(seed):
        request = Request(experiment, config, preset, name, one_seed, overrides)
        settings, composed = resolve(request)
        if print_config:
            values = settings.model_dump(mode="json", by_alias=True)
            whole = {"config": values, "origins": composed.origins}
            print(json.dumps(whole, indent=2) if as_json else summary.config_with_origins(values, composed.origins))
            continue
        with new_run(settings, console, request) as orchestrator:
            with _page(orchestrator.run_folder, is_wanted=dashboard):
                outcome = orchestrator.run()
            _report(orchestrator, outcome, console, as_json=as_json)
        if outcome.status == "stopped":
            return


def _page(run: Any, *, is_wanted: bool) -> AbstractContextManager[None]:
    from paddock.cli.page import page_beside

    return page_beside(run.name, run.path.parent) if is_wanted else nullcontext()


def _report(orchestrator: Any, outcome: Any, console: Any, *, as_json: bool) -> None:
    from paddock.orchestration import summary

    run = orchestrator.run_folder
    if as_json:
        print(json.dumps(summary.outcome_values(run, outcome), indent=2))
    else:
        summary.print_outcome(console, run, outcome, metric=orchestrator.config.evaluation.metric)


def _runs_dir(overrides: Sequence[str]) -> Path:
    given = [text.partition("=")[2] for text in overrides if text.startswith("runs_dir=")]
    return Path(given[-1] if given else "runs")


def _split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise InputError(f"one experiment at a time: {', '.join(names)}. Changes are written key=value.")
    return (names[0] if names else None), [argument for argument in arguments if "=" in argument]


def _seeds(text: str | None) -> list[int | None]:
    if text is None:
        return [None]
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--seed '{text}' is not a number or a list like 1,2,3.") from error


def _register(plugins: Sequence[str]) -> None:
    from paddock.config.schema import PLUGINS_VARIABLE

    known = [name for name in os.environ.get(PLUGINS_VARIABLE, "").split(",") if name]
    os.environ[PLUGINS_VARIABLE] = ",".join([*known, *plugins])

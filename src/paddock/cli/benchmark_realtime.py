"""`paddock benchmark-realtime`: where a time-step's milliseconds go, and how late actions and sensors are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_training
from paddock.cli.progress import telling
from paddock.cli.run_options import JsonOption, PluginOption
from paddock.core.errors import InputError

EXAMPLES = """
Examples:
  paddock benchmark-realtime racing_realtime                        six figures over 200 time-steps
  paddock benchmark-realtime sac_realtime environment.interface=my_robot:Interface --plugin my_robot
  paddock benchmark-realtime racing_realtime --probe --write delays.yaml    then: paddock train --config delays.yaml
"""
app = typer.Typer(pretty_exceptions_enable=False)


@app.command("benchmark-realtime", epilog=EXAMPLES)
def benchmark_realtime(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT [KEY=VALUE ...]",
            help="An experiment in real time, with changes to its options.",
            autocompletion=complete_training,
        ),
    ],
    steps: Annotated[int, typer.Option(min=2, help="Time-steps to measure.")] = 200,
    probe: Annotated[
        bool, typer.Option("--probe", help="Measure the delays of actions and observations instead.")
    ] = False,
    trials: Annotated[int, typer.Option(min=3, help="Actions that --probe sends.")] = 20,
    action: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="The action that --probe sends, such as 1,0.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the delays as YAML that training reads.")
    ] = None,
    base: Annotated[str, typer.Option("--for", metavar="EXPERIMENT", help="The experiment of that YAML.")] = "racing",
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure an experiment in real time: its time-steps with the policy acting, or with --probe its delays."""
    from paddock.cli.train import split
    from paddock.orchestration.launch import Request, resolve
    from paddock.orchestration.realtime_benchmark import delays_yaml, measure_delays, measure_steps

    if write is not None and not probe:
        raise InputError("--write is for what --probe measures.")
    experiment, overrides = split(arguments)
    if experiment is None:
        raise InputError("say what to measure: paddock benchmark-realtime EXPERIMENT, such as racing_realtime.")
    config, _ = resolve(Request(experiment, None, None, None, None, overrides))
    if probe:
        with telling() as tell:
            tell(f"probing {experiment}: {trials} actions")
            measured, time_step = measure_delays(config, trials, _numbers(action))
        text = delays_yaml(measured, time_step, experiment=experiment, base=base)
        if write is not None:
            write.write_text(text, encoding="utf-8")
        print(json.dumps(measured.to_dict(), indent=2) if as_json else text.rstrip())
        if write is not None:
            typer.echo(f"written to {write}; train with these delays: paddock train --config {write}", err=True)
        return
    with telling() as tell:
        tell(f"measuring {experiment}: {steps} time-steps")
        figures = measure_steps(config, steps)
    if as_json:
        print(json.dumps(figures.to_dict(), indent=2))
    else:
        _show(figures)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--action '{text}' is no list of numbers, such as 1,0.") from None


def _show(figures: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    from paddock.environments.realtime.benchmark import FIGURES

    table = Table("ms", "median", "p99", "worst", "", box=None)
    for name, found in figures.figures.items():
        numbers = (f"{1000 * found[column]:.2f}" for column in ("median", "p99", "worst"))
        table.add_row(name, *numbers, FIGURES[name])
    Console().print(table)
    print(figures.sentence())

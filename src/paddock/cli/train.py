"""`paddock train`: start runs, resume them, and show what would be run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_presets, complete_runs, complete_training
from paddock.cli.run_options import JsonOption, TrustOption
from paddock.cli.train_seeds import print_seeds, train_side_by_side
from paddock.core.errors import InputError
from paddock.core.files import SHARE_VARIABLE

EXAMPLES = """
Examples:
  paddock train racing --name demo training.max_seconds=60
  paddock train ppo_cartpole --seed 1,2,3 --jobs 2 optimizers.main.learning_rate=1e-3
  paddock train --resume demo training.total_steps=8_000_000
"""
app = typer.Typer(pretty_exceptions_enable=False)


@app.command(epilog=EXAMPLES)
def train(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT] [KEY=VALUE ...]",
            help="What to train, and options to change. See --list and --print-config.",
            autocompletion=complete_training,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Your own YAML: an experiment's file, or a directory.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="A variation of the experiment, smoke, or several: A,B.", autocompletion=complete_presets),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The run's name; the experiment's by default.")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N[,N...]", help="One seed or several, 1,2,3: one run per seed.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Seeds to run at the same time, each in its own process.")
    ] = 1,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Continue a run: its path, or the start of its name.", autocompletion=complete_runs
        ),
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="PACKAGE", help="A package of yours that _target_ may name; repeat.")
    ] = None,
    trust: TrustOption = False,
    share: Annotated[bool, typer.Option("--share", help="Let your group read the run's files.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Anomaly detection, statistics, a profile.")] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Open the dashboard with the run.")] = False,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the resolved configuration and exit.")
    ] = False,
    cfg: Annotated[
        str | None, typer.Option("--cfg", metavar="job", help="The same as --print-config, as in Hydra.", hidden=True)
    ] = None,
    list_experiments: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    runs_dir: Annotated[
        Path | None, typer.Option(help="The folder of runs, the same as runs_dir=DIR; runs by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train an agent, or resume a run."""
    from rich.console import Console

    from paddock.config.compose import choices, describe
    from paddock.experiments.campaigns.trials import override_value
    from paddock.orchestration import summary
    from paddock.orchestration.budget import budget_of
    from paddock.orchestration.launch import RESUME_RULE, Request, new_run, resolve
    from paddock.orchestration.learners.follower import serve
    from paddock.orchestration.learners.meeting import torchrun_count, torchrun_rank

    if torchrun_rank():
        raise typer.Exit(serve())  # Another rank than the first follows it; the first one does what was asked for.
    register_packages(plugin or [])
    if share:
        os.environ[SHARE_VARIABLE] = "1"  # Also for processes that this one starts.
    experiment, overrides = split(arguments or [])
    overrides += ["debug=true"] if debug else []
    overrides += [f"runs_dir={override_value(str(runs_dir))}"] if runs_dir is not None else []
    overrides += [f"learners={count}"] if (count := torchrun_count()) is not None else []
    console = Console(stderr=as_json)

    if list_experiments:
        known = {name: describe(file) for name, file in choices("experiment", config).items()}
        width = max(len(name) for name in known)
        lines = [f"{name:<{width}}  {text}" for name, text in known.items()]
        print(json.dumps(known, indent=2) if as_json else "\n".join(lines))
        return
    if resume is not None:
        if experiment or config or preset or seed or name or jobs > 1:
            raise InputError("--resume continues a run as it was; beside it there is only key=value. " + RESUME_RULE)
        _resume(resume, runs_dir, overrides, console, dashboard=dashboard, trusts=trust, as_json=as_json)
        return
    if experiment is None and config is None:
        listed = ", ".join(choices("experiment"))
        raise InputError(f"say what to train: paddock train EXPERIMENT. There are: {listed}.")
    seeds = _seeds(seed)
    requests = [Request(experiment, config, preset, name, one_seed, overrides) for one_seed in seeds]
    if cfg not in (None, "job"):
        raise InputError(f"--cfg '{cfg}' is not known; --cfg job prints the configuration, as --print-config does.")
    if print_config or cfg:
        for request in requests:
            settings, composed = resolve(request)
            values = settings.model_dump(mode="json", by_alias=True)
            budget = budget_of(settings)
            whole = {"config": values, "origins": composed.origins, "left_out": composed.left_out}
            whole["memory"] = budget.to_dict() if budget else {}
            shown = summary.config_with_origins(values, composed.origins, composed.left_out)
            shown += "".join(f"\n# memory: {line}" for line in (budget.lines() if budget else []))
            print(json.dumps(whole, indent=2) if as_json else shown)
        return
    if jobs > 1:
        train_side_by_side(context, requests, jobs, as_json=as_json)
        return
    endings = []
    for request in requests:
        settings, _ = resolve(request)
        with new_run(settings, console, request) as orchestrator:
            with _page(orchestrator.run_folder, is_wanted=dashboard):
                outcome = orchestrator.run()
            run = orchestrator.run_folder
            endings.append(summary.outcome_values(run, outcome))
            if not as_json:
                _print_outcome(console, run, outcome, orchestrator.config)
        if outcome.status == "stopped":
            break
    if as_json:
        print(json.dumps(endings if len(requests) > 1 else endings[0], indent=2))
    elif len(requests) > 1:
        print_seeds(settings, endings)


def _resume(
    given: str,
    runs_dir: Path | None,
    overrides: Sequence[str],
    console: Any,
    *,
    dashboard: bool,
    trusts: bool,
    as_json: bool,
) -> None:
    from paddock.experiments.run import RunFolder
    from paddock.orchestration import summary
    from paddock.orchestration.launch import RESUME_RULE, resumed_run

    run = RunFolder.find(runs_dir or _runs_dir(overrides), given)
    overrides = [text for text in overrides if not text.startswith("runs_dir=")]
    console.print(RESUME_RULE, highlight=False)
    with resumed_run(run, overrides, console, trusts=trusts) as orchestrator:
        with _page(run, is_wanted=dashboard):
            outcome = orchestrator.run()
        if as_json:
            print(json.dumps(summary.outcome_values(run, outcome), indent=2))
        else:
            _print_outcome(console, run, outcome, orchestrator.config)


def _print_outcome(console: Any, run: Any, outcome: Any, config: Any) -> None:
    from paddock.orchestration.summary import print_outcome
    from paddock.racing.env.config import RacingConfig

    findings: Any = None
    if isinstance(config.environment, RacingConfig):
        from paddock.racing import summary as findings  # Only here: it loads the simulator, a second of start-up.
    print_outcome(console, run, outcome, config, findings)


def _page(run: Any, *, is_wanted: bool) -> AbstractContextManager[None]:
    from paddock.cli.page import page_beside

    return page_beside(run.name, run.path.parent) if is_wanted else nullcontext()


def _runs_dir(overrides: Sequence[str]) -> Path:
    given = [text.partition("=")[2] for text in overrides if text.startswith("runs_dir=")]
    return Path(given[-1] if given else "runs")


def split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The experiment, and what is changed in it."""
    # Hydra's habit: `experiment=NAME` or `+experiment=NAME` is the same as NAME.
    arguments = [re.sub(r"^\+?experiment=", "", argument) for argument in arguments]
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise InputError(f"one experiment at a time: {', '.join(names)}. Changes are written key=value.")
    return (names[0] if names else None), [argument for argument in arguments if "=" in argument]


def _seeds(text: str | None) -> list[int | None]:
    if text is None:
        return [None]
    try:
        seeds: list[int | None] = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--seed '{text}' is not a number or a list like 1,2,3.") from error
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seed '{text}' names a seed twice; the two runs would be identical.")
    return seeds


def register_packages(plugins: Sequence[str]) -> None:
    """Make packages of the person's own known."""
    from paddock.config.plugins import register_plugins

    register_plugins(plugins)

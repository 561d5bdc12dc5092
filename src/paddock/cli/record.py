"""`paddock record`: keep what is driven, to learn from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.completion import complete_runs
from paddock.cli.progress import showing
from paddock.cli.record_trajectory import EXAMPLES, record_trajectory
from paddock.cli.run_options import RUNS, JsonOption, PluginOption, RunsDirOption, TrustOption

app = typer.Typer(help="Keep what is driven, to learn from it.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep what is driven, to learn from it."""


@app.command("episodes")
def record_episodes(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the demonstrations go; new ones are added.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE ...]", help="Options of the environment: environment.track=serpent."),
    ] = None,
    driver: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="classical (racing's own driver), random, a run, or a policy's folder.",
            autocompletion=complete_runs,
        ),
    ] = "classical",
    experiment: Annotated[
        str, typer.Option(help="Whose environment, for the drivers classical and random; a policy has its own.")
    ] = "racing",
    episodes: Annotated[int | None, typer.Option(min=1, help="How many episodes.")] = None,
    laps: Annotated[int | None, typer.Option(min=1, help="How many whole laps of racing, each an episode.")] = None,
    noise: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Std of what is added to actions, as a share of half their range; kept beside them."
        ),
    ] = 0.0,
    pace: Annotated[
        float,
        typer.Option(
            min=0.1, max=1.0, help="Share of its cornering speed that the classical driver takes; 0.8 to clone it."
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of starts and noise.")] = 1,
    num_envs: Annotated[int, typer.Option(min=1, help="Environments that are driven at the same time.")] = 8,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample a policy's actions instead of taking the most likely one.")
    ] = False,
    keep_idle: Annotated[
        bool, typer.Option("--keep-idle", help="Keep the steps at the start in which nothing moves.")
    ] = False,
    keep_failures: Annotated[
        bool, typer.Option("--keep-failures", help="Keep laps that were not completed, too.")
    ] = False,
    min_return: Annotated[float | None, typer.Option(help="Drop episodes with a lower return.")] = None,
    student: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|POLICY",
            help="A policy that drives, while the classical driver labels each step with what it would have done.",
            autocompletion=complete_runs,
        ),
    ] = None,
    teacher_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Of a student's steps, how many the classical driver takes.")
    ] = 0.0,
    trust: TrustOption = False,
    runs_dir: RunsDirOption = RUNS,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record episodes as demonstrations: what was seen, done and rewarded in each step."""
    from paddock.racing.record import RecordRequest, record

    request = RecordRequest(
        folder, driver, experiment, overrides or [], episodes, laps, noise, seed, num_envs, stochastic, keep_idle,
        keep_failures, min_return, student, teacher_share, pace, runs_dir, trust,
    )  # fmt: skip
    with showing(f"recording {folder}", "episodes") as advance:
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            advance(done, laps or episodes or 0)

        values = record(request, count)
    if as_json:
        print(json.dumps(values, indent=2))
        return
    print(
        f"{values['folder']}: {values['episodes']} episodes with {values['steps']:,} steps by {values['driver']}, "
        f"mean return {values['mean_return']:.2f}, {values['dropped']} dropped."
    )


app.command("trajectory", epilog=EXAMPLES)(record_trajectory)

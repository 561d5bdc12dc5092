"""`paddock evaluate`: judge a run or an exported policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paddock.core.errors import InputError

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def evaluate(
    subject: Annotated[str, typer.Argument(metavar="RUN|POLICY", help="A run's path or name, or a policy's folder.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE ...]", help="controller=NAME, environment.KEY=VALUE.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Whole episodes to judge.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the first start; the others follow.")] = 1000,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions instead of the likeliest.")] = False,
    which: Annotated[str, typer.Option(help="best (by evaluation) or latest.")] = "best",
    video: Annotated[bool, typer.Option("--video", help="Write an mp4 of one episode.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Where runs are.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Judge a trained policy: whole episodes, fixed seeds, frozen parameters."""
    from rich.console import Console
    from rich.table import Table

    from paddock.orchestration.judge import find_subject
    from paddock.rollout.evaluation import evaluate as judge
    from paddock.rollout.evaluation import record_video

    if which not in ("best", "latest"):
        raise InputError(f"--which '{which}' is neither best nor latest.")
    overrides = [text for text in arguments or [] if not text.startswith("controller=")]
    chosen = [text.partition("=")[2] for text in arguments or [] if text.startswith("controller=")]
    found = find_subject(subject, runs_dir, which=which, controller=chosen[-1] if chosen else None, overrides=overrides)
    result = judge(found.actor, found.make_env, episodes=episodes, seed=seed, deterministic=not stochastic)
    protocol = {"episodes": episodes, "seed": seed, "deterministic": not stochastic}
    values = {"subject": found.name, "protocol": protocol, **result.metrics(), "returns": result.returns.tolist()}
    if video:
        file = found.folder / "videos" / f"evaluation-{seed}.mp4"
        record_video(found.actor, found.make_env, file, seed=seed, deterministic=not stochastic)
        values["video"] = str(file)
    if as_json:
        print(json.dumps(values, indent=2))
        return
    kind = "sampled" if stochastic else "deterministic"
    table = Table()
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in result.metrics().items():
        table.add_row(name, f"{value:.2f}")
    console = Console()
    console.print(f"{found.name}: {episodes} {kind} episodes from seed {seed}", highlight=False)
    console.print(table)
    if video:
        console.print(f"video: {values['video']}", soft_wrap=True, highlight=False)

"""`paddock evaluate`: evaluate a run or an exported policy."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_evaluation, complete_from, complete_runs, complete_tracks
from paddock.cli.progress import showing, telling
from paddock.cli.run_options import RUNS, JsonOption, PluginOption, RunsDirOption, TrustOption
from paddock.core.errors import InputError

CONTEXT = 5  # steps that a world model sees before it imagines
app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def evaluate(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="RUN|POLICY", help="A run's path or name, or a policy's folder.", autocompletion=complete_runs
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE ...]",
            help="controller=NAME, environment.KEY=VALUE, controllers.KEY=VALUE.",
            autocompletion=complete_evaluation,
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Race track to evaluate on instead of training's; repeat.", autocompletion=complete_tracks),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Number of whole episodes, or of starts.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first start; the others follow.")] = 1000,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions instead of taking the most likely one.")
    ] = False,
    which: Annotated[
        str,
        typer.Option(help="best (by evaluation) or latest.", autocompletion=complete_from("best", "latest")),
    ] = "best",
    video: Annotated[bool, typer.Option("--video", help="Write an mp4 of one episode.")] = False,
    world_model: Annotated[
        bool,
        typer.Option(
            "--world-model",
            help="Evaluate the world model: its prediction errors, and the score with the model disabled.",
        ),
    ] = False,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Steps that a world model has to predict; 15 by default.")
    ] = None,
    trust: TrustOption = False,
    runs_dir: RunsDirOption = RUNS,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a trained policy: whole episodes, fixed seeds, frozen parameters."""
    from paddock.evaluation.evaluator import record_video
    from paddock.orchestration.evaluation_report import show_evaluation
    from paddock.orchestration.subject import find_subject
    from paddock.racing.unseen import unseen_sentences
    from paddock.render.video import watched

    if which not in ("best", "latest"):
        raise InputError(f"--which '{which}' is neither best nor latest.")
    overrides = [text for text in arguments or [] if not text.startswith("controller=")]
    chosen = [text.partition("=")[2] for text in arguments or [] if text.startswith("controller=")]
    if track:
        overrides += [f"environment.track=[{','.join(track)}]", "environment.procedural=0"]
    if horizon is not None and not world_model:
        raise InputError("--horizon is how far a world model imagines; it goes with --world-model.")
    found = find_subject(
        subject, runs_dir, which=which, controller=chosen[-1] if chosen else None, overrides=overrides, trusts=trust
    )
    if world_model:
        _evaluate_model(found, horizon or 15, episodes, seed, not stochastic, video, as_json)
        return
    with telling() as tell:
        tell(f"evaluating {found.name}: {episodes} episodes")
        result, values = found.evaluate(episodes=episodes, seed=seed, deterministic=not stochastic)
    if video:
        file = found.folder / "videos" / f"evaluation-{seed}.mp4"
        record = getattr(found.evaluator, "record_video", record_video)
        with showing(f"filming {file.name}", "frames") as advance, watched(advance):
            record(found.actor, found.make_env, file, seed=seed, deterministic=not stochastic)
        values["video"] = str(file)
    if any(text.startswith("environment.track") for text in overrides):
        for sentence in unseen_sentences(found, result):
            typer.echo(sentence, err=True)
    if as_json:
        print(json.dumps(values, indent=2))
    else:
        show_evaluation(found, result, values)


def _evaluate_model(
    found: Any, horizon: int, episodes: int, seed: int, deterministic: bool, video: bool, as_json: bool
) -> None:
    """Print what the world model of a subject knows, beside one that knows nothing."""
    from paddock.evaluation.world_model.report import evaluate_world_model, illustrate
    from paddock.orchestration.evaluation_report import show_model_report

    report = evaluate_world_model(
        found, context=CONTEXT, horizon=horizon, episodes=episodes, seed=seed, deterministic=deterministic
    )
    values = report.to_dict()
    if video:
        files = illustrate(found, report, context=CONTEXT, horizon=horizon, seed=seed)
        values["video"], values["picture"] = map(str, files)
    if as_json:
        print(json.dumps(values, indent=2))
    else:
        show_model_report(report, values)

"""`paddock race`: a leaderboard of agents, the classical driver and recorded human laps, with a picture."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.completion import complete_runs, complete_tracks
from paddock.cli.progress import ignored, showing, telling
from paddock.cli.run_options import RUNS, JsonOption, PluginOption, RunsDirOption, TrustOption

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def race(
    drivers: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|POLICY", help="Runs (the newest of a name) or policies.", autocompletion=complete_runs
        ),
    ],
    track: Annotated[
        str | None,
        typer.Option(
            help="Track; by default the one that the first policy trained on.", autocompletion=complete_tracks
        ),
    ] = None,
    starts: Annotated[int, typer.Option(min=1, help="Standing starts, spread over the lap; the best lap counts.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starts.")] = 1000,
    people: Annotated[
        Path, typer.Option("--human-laps", "--people", metavar="DIR", help="Folder of recorded human laps.")
    ] = Path("laps"),
    video: Annotated[bool, typer.Option("--video", help="Film the best lap against the classical driver.")] = False,
    share: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the laps as one page that plays them, to send to others."),
    ] = None,
    gif: Annotated[
        Path | None,
        typer.Option(metavar="FILE.gif", help="Write the best lap as a small moving picture of the whole circuit."),
    ] = None,
    save_laps: Annotated[
        bool, typer.Option("--save-laps", help="Write every driver's best lap as a lap file.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write to; races/TRACK by default.")] = None,
    trust: TrustOption = False,
    runs_dir: RunsDirOption = RUNS,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Race policies on one track, against the classical driver and recorded human laps."""
    from rich.console import Console

    from paddock.racing.laps.film import check_gif
    from paddock.racing.race.race import run_race
    from paddock.racing.race.report import best_agent_lap, print_race, write_race
    from paddock.racing.race.share import check_share
    from paddock.render.video import watched

    check_share(share)
    check_gif(gif)
    with telling() as say:
        result = run_race(
            drivers, runs_dir, track=track, starts=starts, seed=seed, people=people, trusts=trust, say=say
        )
    folder = out or Path("races") / result.track.name.replace(":", "-")
    is_filmed = (video or gif is not None) and best_agent_lap(result) is not None
    with showing("filming the best lap", "frames") if is_filmed else nullcontext(ignored) as advance, watched(advance):
        files = write_race(folder, result, video=video, save_laps=save_laps, share=share, gif=gif)
    if (video or gif is not None) and not is_filmed:
        print("No film: no agent completed a lap.", file=sys.stderr)
    if as_json:
        values: dict[str, Any] = {**result.values(), "files": {name: str(file) for name, file in files.items()}}
        print(json.dumps(values, indent=2))
        for sentence in result.unseen.values():
            print(sentence, file=sys.stderr)
    else:
        print_race(Console(), result, files)

"""`paddock record trajectory`: the path that TrackMania's rewards are measured along."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.completion import CARS, complete_from, complete_tracks
from paddock.core.errors import unknown_choice

EXAMPLES = """
Examples:
  paddock record trajectory map.safetensors                          drive a race in the game
  paddock record trajectory map.safetensors --game twin              drive one in a twin that runs on this machine
  paddock record trajectory meadow.safetensors --game simulator --track meadow
"""
GAMES = ("trackmania", "twin", "simulator")


def record_trajectory(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it ends with .safetensors.")],
    game: Annotated[
        str,
        typer.Option(
            help="trackmania, twin, or simulator, where the classical driver drives.",
            autocompletion=complete_from(*GAMES),
        ),
    ] = "trackmania",
    port: Annotated[int, typer.Option(min=1, max=65_000, help="Of the telemetry.")] = 9000,
    seconds: Annotated[float, typer.Option(help="Give up after so many seconds.")] = 600.0,
    track: Annotated[str, typer.Option(help="Of the simulator.", autocompletion=complete_tracks)] = "default",
    car: Annotated[
        str, typer.Option(help="Of the simulator: arcade, f1tenth, gt or road.", autocompletion=complete_from(*CARS))
    ] = "arcade",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Record the path that rewards are measured along: a race from its start to its finish, points 0.1 m apart.

    The recording waits for a car that stands, begins when it moves, and begins anew after a restart.
    """
    from paddock.environments.trackmania.recording import drive_and_record, record_race
    from paddock.environments.trackmania.telemetry import TcpTelemetry
    from paddock.environments.trackmania.trajectory import save_trajectory
    from paddock.environments.trackmania.twin.game import TwinSettings

    if game not in GAMES:
        raise unknown_choice("game", game, GAMES)
    if game == "simulator":
        trajectory, _ = drive_and_record(TwinSettings(track=track, car=car))
    else:
        telemetry = TcpTelemetry(port)
        try:
            trajectory = record_race(telemetry, file.stem, seconds, _show)
        finally:
            telemetry.close()
    save_trajectory(trajectory, file)
    if as_json:
        typer.echo(json.dumps({"file": str(file), "points": len(trajectory), "metres": trajectory.length}))
    else:
        typer.echo(f"{len(trajectory):,} points, {trajectory.length:,.1f} m, written to {file}")


def _show(metres: float, problem: str) -> None:
    if sys.stderr.isatty():
        sentence = problem or (f"{metres:,.0f} m" if metres else "waiting for the start")
        typer.echo(f"\r{sentence:<78}", nl=False, err=True)

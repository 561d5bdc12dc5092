"""`paddock twin`: the stand-in for TrackMania."""

from __future__ import annotations

import json
import signal
from typing import Annotated, Any

import typer

from paddock.cli.completion import CARS, complete_from, complete_tracks
from paddock.core.errors import InputError

EXAMPLES = """
Examples:
  paddock twin --track meadow                          on the game's own port
  paddock train trackmania_lidar_sac environment.game=twin environment.port=9000
  paddock twin --fault stall@10+3 --fault refuse_once  makes two faults
"""
app = typer.Typer(pretty_exceptions_enable=False)


@app.command(epilog=EXAMPLES)
def twin(
    track: Annotated[
        str, typer.Option(help="A track's name, procedural:SEED, or a CSV file.", autocompletion=complete_tracks)
    ] = "default",
    car: Annotated[
        str, typer.Option(help="arcade, f1tenth, gt or road.", autocompletion=complete_from(*CARS))
    ] = "arcade",
    port: Annotated[
        int, typer.Option(min=0, max=65_000, help="Of the telemetry; control and pad are one and two above. 0: any.")
    ] = 9000,
    width: Annotated[int, typer.Option(help="Of the picture, pixels.")] = 256,
    height: Annotated[int, typer.Option(help="Of the picture, pixels.")] = 128,
    frame_rate: Annotated[int, typer.Option(help="Frames per second, 30 to 120.")] = 60,
    display_delay: Annotated[int, typer.Option(help="Frames by which the picture is late, 0 to 2.")] = 0,
    countdown: Annotated[float, typer.Option(help="Seconds from a restart until the car can move.")] = 1.5,
    protocol: Annotated[int, typer.Option(help="Floats of a telemetry packet: 11, 14 or 33.")] = 11,
    steering: Annotated[
        str, typer.Option(help="How the stick acts: linear, or measured, with the dead zone of a real game.")
    ] = "linear",
    edge: Annotated[str, typer.Option(help="Beyond the road: wall or grass.")] = "wall",
    seed: Annotated[int, typer.Option(help="Of the simulator.")] = 0,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND[@BEGINS][+SECONDS]",
            help="stall, drop, slow, menu, dialog, refuse, refuse_once, pad or protocol; repeat.",
        ),
    ] = None,
    lock_step: Annotated[
        bool, typer.Option("--lock-step", help="Frames only come when the control port asks for them.")
    ] = False,
    window: Annotated[
        str | None, typer.Option(metavar="X,Y", help="Show the picture in a window there, and read its keys.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> None:
    """A stand-in for TrackMania on this machine: the plugin's telemetry, a screen, a pad; until it is interrupted.

    A track is driven from a standing start to the end of one lap. Only programs on this machine can connect.
    """
    from paddock.environments.trackmania.twin.faults import parse_fault
    from paddock.environments.trackmania.twin.game import TwinSettings
    from paddock.environments.trackmania.twin.server import TwinServer
    from paddock.environments.trackmania.twin.window import TwinWindow

    settings = TwinSettings(
        track=track, car=car, width=width, height=height, frame_rate=frame_rate, display_delay=display_delay,
        countdown=countdown, protocol=protocol, steering=steering, edge=edge, seed=seed,
        faults=tuple(parse_fault(text) for text in fault or []),
    )  # fmt: skip
    shown = TwinWindow(width, height, _place(window)) if window is not None else None
    server = TwinServer(settings, port=port, lock_step=lock_step, window=shown)

    def stop(number: int, frame: Any) -> None:
        server.is_closing = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    addresses = server.addresses()
    if as_json:
        typer.echo(json.dumps(addresses))
    else:
        typer.echo(
            f"twin of TrackMania on '{addresses['track']}': telemetry on port {addresses['telemetry']}, control on "
            f"{addresses['control']}, pad on {addresses['pad']}. Ctrl-C ends it."
        )
    server.run()


def _place(text: str) -> tuple[int, int]:
    try:
        left, top = (int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--window is '{text}'; write it as X,Y, such as 80,40.") from error
    return left, top

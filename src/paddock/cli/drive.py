"""`paddock drive`: the page, in the driver's seat."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.completion import CARS, complete_from, complete_opponents, complete_tracks
from paddock.cli.page import page_beside
from paddock.cli.run_options import RUNS, RunsDirOption, TrustOption
from paddock.core.errors import unknown_choice

app = typer.Typer(pretty_exceptions_enable=False)
FILM_STEPS = 200


@app.command()
def drive(
    track: Annotated[
        str | None,
        typer.Option(help="Track; by default the opponent's own, or meadow.", autocompletion=complete_tracks),
    ] = None,
    car: Annotated[
        str | None,
        typer.Option(
            help="arcade, f1tenth, gt or road; by default the opponent's.", autocompletion=complete_from(*CARS)
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|POLICY|agent|classical",
            help="The opponent: a run, a policy's folder, the agent that ships, or the classical driver.",
            autocompletion=complete_opponents,
        ),
    ] = None,
    dream: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|POLICY",
            help="Drive inside the dream of a run's world model; road, reconstruction and dream side by side.",
            autocompletion=complete_opponents,
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.01, help="Of the dream: above 1 it is less certain.")] = 1.0,
    film: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --dream: film 200 steps of the run's own driving; mp4, gif or png."),
    ] = None,
    driver: Annotated[str, typer.Option(help="Your name, for the laps you drive.")] = "you",
    mode: Annotated[
        str,
        typer.Option(
            help="Control of your car at the start: manual, ai or assisted.",
            autocompletion=complete_from("manual", "ai", "assisted"),
        ),
    ] = "manual",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the page; by default a free one.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open nothing.")] = False,
    session: Annotated[
        bool, typer.Option("--session", help="Start only the simulation; attach from a running dashboard.")
    ] = False,
    trust: TrustOption = False,
    runs_dir: RunsDirOption = RUNS,
    laps: Annotated[Path, typer.Option(metavar="DIR", help="Folder of recorded human laps.")] = Path("laps"),
) -> None:
    """Drive yourself: against an agent, the classical driver, the clock."""
    from paddock.control.messages import MODES
    from paddock.racing.drive.session import DrivingSession, session_folder
    from paddock.racing.drive.setup import DriveRequest, make_session, unseen_by_opponent

    options = ["--port", str(port)] if port is not None else []
    options += ["--no-browser"] if no_browser else []
    if dream is not None:
        _dream(dream, runs_dir, temperature, film, None if session else options, trusts=trust)
        return
    if mode not in MODES:
        raise unknown_choice("mode", mode, MODES)
    request = DriveRequest(track, car, against, driver, mode, runs_dir, laps, trust)
    grid = make_session(request)
    note = unseen_by_opponent(request, grid.env.world.tracks[0].name)
    if note is not None:
        typer.echo(note, err=True)
    run = session_folder(grid, request)
    page = nullcontext() if session else page_beside(run.name, runs_dir, "--laps", str(laps), *options)
    with run.lock():
        driving = DrivingSession(grid, run, request)
        with page, driving.control.listening():
            driving.run()


def _dream(
    name: str, runs_dir: Path, temperature: float, film: Path | None, options: list[str] | None, *, trusts: bool
) -> None:
    """Drive in a dream, or film it. options: of the page; None for no page."""
    from paddock.dream.film import film_dream
    from paddock.dream.session import DreamSession, dream_folder, open_dream

    panels, found = open_dream(name, runs_dir, temperature=temperature, trusts=trusts)
    if film is not None:
        frames = film_dream(panels, film, steps=FILM_STEPS)
        typer.echo(f"{frames} frames of road, reconstruction and dream: {film}")
        return
    run = dream_folder(found, runs_dir, temperature=temperature)
    page = nullcontext() if options is None else page_beside(run.name, runs_dir, *options)
    with run.lock():
        dreaming = DreamSession(panels, run, found)
        with page, dreaming.control.listening():
            dreaming.run()

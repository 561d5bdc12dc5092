"""`paddock tracks`: list, show, generate and import tracks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paddock.cli.completion import CARS, complete_from, complete_tracks

app = typer.Typer(help="List, draw, generate and import tracks.", no_args_is_help=True)

ROOM_FOR_DESCRIPTIONS = 130  # characters across, from which the list has a column for them

CarOption = Annotated[
    str,
    typer.Option(
        help="The car of the reference lap: arcade, f1tenth, gt or road.", autocompletion=complete_from(*CARS)
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command("list")
def list_tracks(car: CarOption = "gt", as_json: JsonOption = False) -> None:
    """The shipped circuits from easy to hard, then your imported tracks, with a car's reference time on each."""
    from paddock.sim.circuits import circuit_names
    from paddock.sim.track_picture import format_lap_time
    from paddock.sim.track_sources import user_track_names
    from paddock.sim.track_summary import summarise

    summaries = [summarise(name, car) for name in [*circuit_names(), *user_track_names()]]
    if as_json:
        typer.echo(json.dumps([asdict(summary) for summary in summaries], indent=2))
        return
    console = Console()
    is_wide = console.width >= ROOM_FOR_DESCRIPTIONS
    table = Table(title=f"Tracks, with the reference lap of the {car}")
    table.add_column("track")
    for heading in ("length", "width", "corners"):
        table.add_column(heading, justify="right")
    table.add_column("difficulty")
    table.add_column("reference", justify="right")
    if is_wide:
        table.add_column("")
    for summary in summaries:
        cells = [
            summary.name,
            f"{summary.length_m:,.0f} m",
            f"{summary.width_m:.1f} m",
            str(summary.corners),
            summary.difficulty,
            format_lap_time(summary.reference_s),
        ]
        table.add_row(*cells, *([summary.description] if is_wide else []))
    console.print(table)


@app.command("show")
def show_track(
    track: Annotated[
        str,
        typer.Argument(help="A track's name, procedural:SEED, or a CSV file.", autocompletion=complete_tracks),
    ],
    car: CarOption = "gt",
    output: Annotated[
        Path | None, typer.Option(help="The picture to write, a png or svg file; NAME.png by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a track with a car's reference line coloured by speed."""
    from paddock.sim.reference import reference_lap
    from paddock.sim.track_picture import track_picture
    from paddock.sim.track_summary import summarise, track_for_car

    summary = summarise(track, car)
    road = track_for_car(track, car)
    picture = output or Path(f"{road.name.replace(':', '-')}.png")
    track_picture(road, reference_lap(road, car), car=car, subtitle=summary.description).save(picture)
    if as_json:
        typer.echo(json.dumps(asdict(summary) | {"picture": str(picture)}, indent=2))
        return
    table = Table(show_header=False, title=f"{summary.name} with the {car}")
    for key, value in asdict(summary).items():
        if key not in ("name", "car"):
            table.add_row(key, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
    Console().print(table)
    typer.echo(f"picture: {picture}")


@app.command("generate")
def generate_track(
    seed: Annotated[int, typer.Option(help="The same seed and options give the same track on every machine.")],
    style: Annotated[str, typer.Option(help="loop: flowing; circuit: straights and tight corners.")] = "loop",
    points: Annotated[int, typer.Option(help="Bumps and dents around a loop; at most this many corners.")] = 14,
    radius: Annotated[float, typer.Option(help="Radius of the circle that the track is bent from, m.")] = 190.0,
    amplitude: Annotated[float, typer.Option(help="Amplitude of the noise, as a share of the radius.")] = 0.8,
    width: Annotated[float, typer.Option(help="Width of the road, m.")] = 11.0,
    obstacles: Annotated[int, typer.Option(help="Obstacles on the road; a passage always stays free.")] = 0,
    output: Annotated[Path | None, typer.Option(help="The CSV file to write; procedural-SEED.csv by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a seeded track and write it as CSV."""
    from paddock.sim.procedural import ProceduralSettings, procedural_track
    from paddock.sim.track_import import write_track_csv

    track = procedural_track(seed, ProceduralSettings(points, radius, amplitude, width, obstacles, style))
    output = output or Path(f"procedural-{seed}.csv")
    write_track_csv(track, output)
    if as_json:
        facts = {"name": track.name, "length_m": round(track.length, 1), "file": str(output)}
        typer.echo(json.dumps(facts, indent=2))
    else:
        typer.echo(f"{track.name}: {track.length:,.0f} m, written to {output}")


@app.command("import")
def import_track(
    file: Annotated[Path, typer.Argument(help="A CSV of x_m, y_m, w_tr_right_m, w_tr_left_m.")],
    name: Annotated[str | None, typer.Option(help="What to call the track; the file's name by default.")] = None,
    car: Annotated[
        str,
        typer.Option(help="The car that has to fit: arcade, f1tenth, gt or road.", autocompletion=complete_from(*CARS)),
    ] = "gt",
    bridge: Annotated[bool, typer.Option("--bridge", help="The road passes over itself, on purpose.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an imported track of that name.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a track file and keep a copy, so that its name can be used wherever a track is named."""
    from paddock.sim.track_sources import keep_track

    track, path = keep_track(file, name=name, car=car, bridge=bridge, replace=replace)
    if as_json:
        facts = {"name": track.name, "length_m": round(track.length, 1), "file": str(path)}
        typer.echo(json.dumps(facts, indent=2))
    else:
        typer.echo(f"{track.name}: {track.length:,.0f} m, kept in {path}")
        typer.echo(f"try: paddock tracks show {track.name}")

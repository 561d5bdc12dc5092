"""`paddock tracks`: list, show, generate, import and remove tracks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paddock.cli.completion import CARS, complete_from, complete_tracks
from paddock.core.text import printable

app = typer.Typer(help="List, draw, generate, import and remove tracks.", no_args_is_help=True)

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
    from paddock.racing.track_list import list_table, listed_values
    from paddock.sim.summaries import BadTrack, summarise_all
    from paddock.sim.tracks.circuits import circuit_names
    from paddock.sim.tracks.sources import user_track_names

    entries = list(summarise_all([*circuit_names(), *user_track_names()], car))
    if as_json:
        typer.echo(json.dumps([listed_values(entry) for entry in entries], indent=2))
        return
    console = Console()
    console.print(list_table(entries, car, width=console.width))
    for entry in entries:
        if isinstance(entry, BadTrack):
            typer.echo(f"{entry.name}: {entry.error}", err=True)


@app.command("show")
def show_track(
    track: Annotated[
        str,
        typer.Argument(help="A track's name, procedural:SEED, or a CSV file.", autocompletion=complete_tracks),
    ],
    car: CarOption = "gt",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The picture to write, a png or svg file; NAME.png by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a track with a car's reference line coloured by speed."""
    from paddock.racing.track_list import facts_table
    from paddock.render.track_picture import track_picture
    from paddock.sim.reference.lap import reference_lap
    from paddock.sim.summaries import summarise, track_for_car

    summary = summarise(track, car)
    road = track_for_car(track, car)
    picture = output or Path(f"{road.name.replace(':', '-')}.png")
    track_picture(road, reference_lap(road, car), car=car, subtitle=summary.description).save(picture)
    if as_json:
        typer.echo(json.dumps(asdict(summary) | {"picture": str(picture)}, indent=2))
        return
    Console().print(facts_table(summary))
    typer.echo(f"picture: {picture}")


@app.command("laps")
def track_laps(
    track: Annotated[str, typer.Argument(help="A track's name or procedural:SEED.", autocompletion=complete_tracks)],
    car: CarOption = "gt",
    people: Annotated[Path, typer.Option("--human-laps", metavar="DIR", help="Folder of recorded human laps.")] = Path(
        "laps"
    ),
    as_json: JsonOption = False,
) -> None:
    """Known lap times on a track: reference lap, classical driver, shipped agents, recorded human laps."""
    from paddock.racing.board import lap_board
    from paddock.render.lap_time import format_lap_time

    rows = lap_board(track, car, people)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    reference = next(row["lap_time"] for row in rows if row["kind"] == "reference")
    for row in rows:
        over = 100 * (row["lap_time"] / reference - 1)
        typer.echo(f"{format_lap_time(row['lap_time']):>10}  {over:+5.1f} %  {printable(row['name'])}")


@app.command("generate")
def generate_track(
    seed: Annotated[int, typer.Option(help="The same seed and options give the same track on every machine.")],
    style: Annotated[str, typer.Option(help="loop: flowing; circuit: straights and tight corners.")] = "loop",
    points: Annotated[int, typer.Option(help="Bumps and dents around a loop; at most this many corners.")] = 14,
    radius: Annotated[float, typer.Option(help="Radius of the circle that the track is bent from, m.")] = 190.0,
    amplitude: Annotated[float, typer.Option(help="Amplitude of the noise, as a share of the radius.")] = 0.8,
    width: Annotated[float, typer.Option(help="Width of the road, m.")] = 11.0,
    obstacles: Annotated[int, typer.Option(help="Obstacles on the road; a passage always stays free.")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The CSV file to write; procedural-SEED.csv by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a seeded track and write it as CSV."""
    from paddock.racing.track_list import file_values
    from paddock.sim.tracks.csv import write_track_csv
    from paddock.sim.tracks.procedural import ProceduralSettings, procedural_track

    track = procedural_track(seed, ProceduralSettings(points, radius, amplitude, width, obstacles, style))
    output = output or Path(f"procedural-{seed}.csv")
    write_track_csv(track, output)
    if as_json:
        typer.echo(json.dumps(file_values(track, output), indent=2))
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
    bridge: Annotated[
        bool, typer.Option("--bridge", help="The road passes over itself; a clear crossing is seen without this.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse what would be repaired.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an imported track of that name.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a track file and keep a copy, so that its name can be used wherever a track is named.

    What a survey cannot mean is repaired, with a sentence for each change: an inside edge that folds over itself is
    narrowed by the least amount, a crossing is taken for a bridge, points given twice are left out.
    """
    from paddock.racing.track_list import file_values
    from paddock.sim.tracks.sources import keep_track

    kept = keep_track(file, name=name, car=car, bridge=bridge, replace=replace, strict=strict)
    track = kept.track
    if as_json:
        typer.echo(json.dumps({**file_values(track, kept.path), "repairs": list(kept.repairs)}, indent=2))
        return
    for sentence in kept.repairs:
        typer.echo(f"repaired: {sentence}")
    typer.echo(f"{track.name}: {track.length:,.0f} m, kept in {kept.path}")
    typer.echo(f"try: paddock tracks show {track.name}")


@app.command("remove")
def remove_imported_track(
    name: Annotated[str, typer.Argument(help="The name of an imported track.", autocompletion=complete_tracks)],
    as_json: JsonOption = False,
) -> None:
    """Delete an imported track. Shipped circuits stay."""
    from paddock.sim.tracks.sources import remove_track

    path = remove_track(name)
    if as_json:
        typer.echo(json.dumps({"name": name, "removed": str(path)}, indent=2))
    else:
        typer.echo(f"{name}: removed {path}")

"""`paddock tracks`: list, show, generate, import and remove tracks."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from paddock.cli.completion import CARS, complete_from, complete_tracks

if TYPE_CHECKING:
    from paddock.sim.summaries import BadTrack, TrackSummary

app = typer.Typer(help="List, draw, generate, import and remove tracks.", no_args_is_help=True)

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
    from paddock.sim.summaries import BadTrack, summarise_all
    from paddock.sim.tracks.circuits import circuit_names
    from paddock.sim.tracks.sources import user_track_names

    entries = list(summarise_all([*circuit_names(), *user_track_names()], car))
    good = [entry for entry in entries if not isinstance(entry, BadTrack)]
    bad = [entry for entry in entries if isinstance(entry, BadTrack)]
    if as_json:
        typer.echo(json.dumps([_as_values(entry) for entry in entries], indent=2))
        return
    Console().print(_table(good, bad, car))
    for entry in bad:
        typer.echo(f"{entry.name}: {entry.error}", err=True)


def _as_values(entry: TrackSummary | BadTrack) -> dict[str, Any]:
    """One form for both: the facts of a track that cannot be used are null, and `error` says why."""
    from paddock.sim.summaries import TrackSummary

    facts = dict.fromkeys(field.name for field in fields(TrackSummary))
    return {**facts, "error": None, **asdict(entry)}


def _table(good: list[TrackSummary], bad: list[BadTrack], car: str) -> Table:
    from paddock.render.track_picture import format_lap_time

    is_wide = Console().width >= ROOM_FOR_DESCRIPTIONS
    table = Table(title=f"Tracks, with the reference lap of the {car}")
    table.add_column("track")
    for heading in ("length", "width", "corners"):
        table.add_column(heading, justify="right")
    table.add_column("difficulty")
    table.add_column("reference", justify="right")
    if is_wide:
        table.add_column("")
    for summary in good:
        cells = [
            summary.name,
            f"{summary.length_m:,.0f} m",
            f"{summary.width_m:.1f} m",
            str(summary.corners),
            summary.difficulty,
            format_lap_time(summary.reference_s),
        ]
        table.add_row(*cells, *([summary.description] if is_wide else []))
    for entry in bad:
        table.add_row(entry.name, "-", "-", "-", "cannot be used", "-", *(["See below"] if is_wide else []))
    return table


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
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The CSV file to write; procedural-SEED.csv by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a seeded track and write it as CSV."""
    from paddock.sim.tracks.csv import write_track_csv
    from paddock.sim.tracks.procedural import ProceduralSettings, procedural_track

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
    from paddock.sim.tracks.sources import keep_track

    kept = keep_track(file, name=name, car=car, bridge=bridge, replace=replace, strict=strict)
    track = kept.track
    if as_json:
        facts = {"name": track.name, "length_m": round(track.length, 1), "file": str(kept.path)}
        typer.echo(json.dumps({**facts, "repairs": list(kept.repairs)}, indent=2))
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

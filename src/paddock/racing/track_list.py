"""Tracks as tables and plain values for people and programs: `paddock tracks`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from rich.table import Table

from paddock.render.lap_time import format_lap_time
from paddock.sim.summaries import BadTrack, TrackSummary
from paddock.sim.tracks.track import Track

ROOM_FOR_DESCRIPTIONS = 130  # characters across, from which the list has a column for them


def listed_values(entry: TrackSummary | BadTrack) -> dict[str, Any]:
    """One form for both: the facts of a track that cannot be used are null, and `error` says why."""
    facts = dict.fromkeys(field.name for field in fields(TrackSummary))
    return {**facts, "error": None, **asdict(entry)}


def list_table(entries: Sequence[TrackSummary | BadTrack], car: str, *, width: int) -> Table:
    """A row for each track, those that cannot be used last; width: characters across."""
    is_wide = width >= ROOM_FOR_DESCRIPTIONS
    table = Table(title=f"Tracks, with the reference lap of the {car}")
    table.add_column("track")
    for heading in ("length", "width", "corners"):
        table.add_column(heading, justify="right")
    table.add_column("difficulty")
    table.add_column("reference", justify="right")
    if is_wide:
        table.add_column("")
    for entry in entries:
        if isinstance(entry, TrackSummary):
            cells = [
                entry.name,
                f"{entry.length_m:,.0f} m",
                f"{entry.width_m:.1f} m",
                str(entry.corners),
                entry.difficulty,
                format_lap_time(entry.reference_s),
            ]
            table.add_row(*cells, *([entry.description] if is_wide else []))
    for entry in entries:
        if isinstance(entry, BadTrack):
            table.add_row(entry.name, "-", "-", "-", "cannot be used", "-", *(["See below"] if is_wide else []))
    return table


def facts_table(summary: TrackSummary) -> Table:
    """Everything about one track and a car's reference lap on it."""
    table = Table(show_header=False, title=f"{summary.name} with the {summary.car}")
    for key, value in asdict(summary).items():
        if key not in ("name", "car"):
            table.add_row(key, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return table


def file_values(track: Track, file: object) -> dict[str, Any]:
    """A track that was written to a file."""
    return {"name": track.name, "length_m": round(track.length, 1), "file": str(file)}

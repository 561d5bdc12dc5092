"""The picture of a race: every driver's line on the track, coloured by speed, and where along the lap time was won."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from paddock.racing.laps.records import RecordedLap
from paddock.racing.race.race import Standing
from paddock.render.canvas import Canvas, Colour, Disc, Points, Polygon, Polyline, Text, blend
from paddock.render.lap_time import format_lap_time
from paddock.render.track_picture import SPEED_COLOURS, SPEED_LEVELS
from paddock.sim.reference.lap import SECTORS, ReferenceLap
from paddock.sim.tracks.track import Track

Floats = NDArray[np.float64]
WIDTH, MARGIN, GAP = 1500, 48, 28  # px
HEADER, ROW = 96, 34  # px
CHART = 210  # px
TICKS = 14  # px, of the numbers below a chart
MAPS_PER_ROW = 3
BACKGROUND: Colour = (250, 250, 247)
CARD: Colour = (255, 255, 255)
FRAME: Colour = (222, 224, 220)
INK: Colour = (28, 34, 40)
GREY: Colour = (112, 118, 124)
ROAD: Colour = (66, 70, 77)
DRIVERS: tuple[Colour, ...] = (
    (214, 48, 49), (9, 132, 227), (0, 148, 116), (225, 132, 20), (108, 80, 200), (196, 66, 140), (90, 110, 60),
)  # fmt: skip


def race_picture(track: Track, reference: ReferenceLap, standings: Sequence[Standing], *, car: str) -> Canvas:
    """Leaderboard, a map a driver, and the time lost to the reference lap and the speed along the lap."""
    drivers = [standing for standing in standings if standing.lap is not None]
    maps = -(-len(drivers) // MAPS_PER_ROW)
    columns = min(max(len(drivers), 1), MAPS_PER_ROW)
    map_width = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns
    map_height = _map_height(track, map_width)
    table = 44 + ROW * len(standings)
    height = HEADER + table + GAP + maps * (map_height + GAP) + 2 * (CHART + TICKS + GAP) + 32
    canvas = Canvas(WIDTH, int(height), BACKGROUND)
    canvas.add(Text(MARGIN, 42, f"Race on {track.name}", 36, INK, is_bold=True))
    facts = f"{track.length:,.0f} m   {car}   reference lap {format_lap_time(reference.lap_time)}"
    canvas.add(Text(MARGIN, 76, facts, 18, GREY))
    _draw_table(canvas, HEADER, reference, standings)

    top = float(HEADER + table + GAP)
    fastest = max([float(reference.speed.max()), *(float(_lap(one).samples["speed"].max()) for one in drivers)])
    slowest = min([float(reference.speed.min()), *(float(_lap(one).samples["speed"].min()) for one in drivers)])
    _draw_speed_bar(canvas, slowest, fastest)
    for number, standing in enumerate(drivers):
        left = MARGIN + (number % MAPS_PER_ROW) * (map_width + GAP)
        box = (left, top + number // MAPS_PER_ROW * (map_height + GAP), map_width, map_height)
        _draw_map(canvas, box, track, standing, _colour(standings, standing), (slowest, fastest))
    top += maps * (map_height + GAP)
    places = np.linspace(0.0, track.length, 600)
    reference_time = np.interp(places, [*track.s, track.length], [*reference.time_at, reference.lap_time])
    deltas = [(_colour(standings, one), _lap(one).along("time", places, track.length) - reference_time)
              for one in drivers]  # fmt: skip
    title = "Time lost to the reference lap, s (up is slower)"
    _draw_chart(canvas, top, title, places, [(GREY, 0.0 * places), *deltas], track)
    reference_speed = np.interp(places, track.s, reference.speed, period=track.length)
    speeds = [(_colour(standings, one), 3.6 * _lap(one).along("speed", places, track.length)) for one in drivers]
    lines = [((190, 192, 190), 3.6 * reference_speed), *speeds]
    _draw_chart(canvas, top + CHART + TICKS + GAP, "Speed, km/h (grey: reference lap)", places, lines, track)
    canvas.add(Text(WIDTH / 2, height - 24, "metres along the lap", 15, GREY, "middle"))
    return canvas


def _lap(standing: Standing) -> RecordedLap:
    assert standing.lap is not None
    return standing.lap


def _colour(standings: Sequence[Standing], standing: Standing) -> Colour:
    return DRIVERS[standings.index(standing) % len(DRIVERS)]


def _draw_table(canvas: Canvas, top: float, reference: ReferenceLap, standings: Sequence[Standing]) -> None:
    edges = {"driver": MARGIN + 60, "kind": 620, "best lap": 850, "to reference": 1000, "ratio": 1110, "mean": 1230,
             "finished": 1340, "off track": WIDTH - MARGIN}  # fmt: skip
    for name, x in edges.items():
        align = "left" if name in ("driver", "kind") else "right"
        canvas.add(Text(x, top + 16, name, 15, GREY, align))
    canvas.add(Polyline(np.array([[MARGIN, top + 32.0], [WIDTH - MARGIN, top + 32.0]]), FRAME, 1.5))
    for place, standing in enumerate(standings, start=1):
        y = top + 44 + ROW * (place - 0.5)
        canvas.add(Disc(MARGIN + 38, y, 8, _colour(standings, standing)))
        canvas.add(Text(MARGIN, y, f"{place}", 19, INK, is_bold=True))
        cells = {"driver": standing.name[:46], "kind": standing.kind, **_numbers(standing, reference.lap_time)}
        for name, text in cells.items():
            align = "left" if name in ("driver", "kind") else "right"
            is_bold = name in ("driver", "best lap")
            canvas.add(Text(edges[name], y, text, 19, INK if is_bold else GREY, align, is_bold))


def _numbers(standing: Standing, reference: float) -> dict[str, str]:
    lap = standing.lap
    return {
        "best lap": format_lap_time(lap.lap_time) if lap else "no lap",
        "to reference": f"{lap.lap_time - reference:+.3f}" if lap else "",
        "ratio": f"{lap.lap_time / reference:.4f}" if lap else "",
        "mean": format_lap_time(standing.mean_lap) if np.isfinite(standing.mean_lap) else "",
        "finished": f"{standing.finished}/{standing.starts}",
        "off track": f"{standing.off_track:.1f} s",
    }


def _map_height(track: Track, width: float) -> float:
    edges = np.vstack([track.left_edge, track.right_edge])
    span = np.ptp(edges, axis=0)
    return float(np.clip(width * span[1] / span[0] + 80.0, 260.0, 620.0))


def _draw_map(
    canvas: Canvas,
    box: tuple[float, float, float, float],
    track: Track,
    standing: Standing,
    colour: Colour,
    speeds: tuple[float, float],
) -> None:
    left, top, width, height = box
    canvas.add(Polygon(_rectangle(left, top, width, height), CARD))
    canvas.add(Polyline(_rectangle(left, top, width, height), FRAME, 1.5, is_closed=True))
    edges = np.vstack([track.left_edge, track.right_edge])
    low, span = edges.min(axis=0), np.ptp(edges, axis=0)
    zoom = min((width - 40) / span[0], (height - 84) / span[1])
    shift = np.array([left + (width - span[0] * zoom) / 2, top + 52 + (height - 72 - span[1] * zoom) / 2])

    def view(points: Floats) -> Points:
        x = shift[0] + (points[:, 0] - low[0]) * zoom
        return np.stack([x, shift[1] + (low[1] + span[1] - points[:, 1]) * zoom], axis=1)

    for first, last in pairwise(np.linspace(0, len(track), 60).astype(int)):
        around = np.arange(first, last + 2) % len(track)
        strip = np.vstack([view(track.left_edge[around]), view(track.right_edge[around])[::-1]])
        canvas.add(Polygon(strip, ROAD))
    lap = _lap(standing)
    line = view(np.stack([lap.samples["x"], lap.samples["y"]], axis=1))
    line = np.vstack([line, line[:1]])
    speed = np.append(lap.samples["speed"], lap.samples["speed"][0])
    level = np.round((speed - speeds[0]) / max(speeds[1] - speeds[0], 1e-6) * SPEED_LEVELS)
    breaks = np.concatenate([[0], np.flatnonzero(np.diff(level)) + 1, [len(line) - 1]])
    thickness = float(np.clip(0.3 * track.mean_width * zoom, 2.2, 6.0))
    for first, last in pairwise(breaks):
        shade = blend(SPEED_COLOURS, float(level[first]) / SPEED_LEVELS)
        canvas.add(Polyline(line[first : last + 1], shade, thickness))
    start = view(np.stack([track.left_edge[0], track.right_edge[0]]))
    canvas.add(Polyline(start, (255, 255, 255), 3.0))
    canvas.add(Disc(left + 24, top + 28, 8, colour))
    canvas.add(Text(left + 42, top + 28, standing.name[:34], 18, INK, is_bold=True))
    canvas.add(Text(left + width - 16, top + 28, format_lap_time(lap.lap_time), 18, INK, "right", is_bold=True))


def _draw_speed_bar(canvas: Canvas, slowest: float, fastest: float) -> None:
    width, left, top = 300.0, WIDTH - MARGIN - 300.0, 34.0
    for k in range(60):
        shade = blend(SPEED_COLOURS, k / 59)
        canvas.add(Polygon(_rectangle(left + width * k / 60, top, width / 60 + 0.6, 14), shade))
    for share, align in ((0.0, "left"), (0.5, "middle"), (1.0, "right")):
        text = f"{3.6 * (slowest + share * (fastest - slowest)):.0f}" + (" km/h" if share == 1.0 else "")
        canvas.add(Text(left + share * width, top + 32, text, 15, GREY, align))


def _draw_chart(
    canvas: Canvas,
    top: float,
    title: str,
    places: Floats,
    lines: Sequence[tuple[Colour, Floats]],
    track: Track,
) -> None:
    """Quantities along the lap; sectors are marked."""
    left, right, bottom = MARGIN + 44.0, WIDTH - MARGIN, top + CHART
    low = min(float(values.min()) for _, values in lines)
    high = max(float(values.max()) for _, values in lines)
    step = _round_step((high - low) / 4.0)
    low, high = np.floor(low / step) * step, np.ceil(high / step + 1e-9) * step
    canvas.add(Text(MARGIN, top + 6, title, 17, INK, is_bold=True))
    ceiling = top + 30

    def y(value: Floats | float) -> Floats:
        return bottom - (np.asarray(value) - low) / max(high - low, 1e-9) * (bottom - ceiling)

    for tick in np.arange(low, high + 0.5 * step, step):
        canvas.add(Polyline(np.array([[left, y(tick)], [right, y(tick)]]), FRAME, 1.0))
        canvas.add(Text(left - 10, float(y(tick)), f"{tick:g}" if step >= 0.1 else f"{tick:.2f}", 14, GREY, "right"))
    for sector in range(1, SECTORS):
        x = left + (right - left) * sector / SECTORS
        canvas.add(Polyline(np.array([[x, ceiling], [x, bottom]]), (232, 196, 92), 1.5))
        canvas.add(Text(x + 8, ceiling + 2, f"S{sector + 1}", 14, (190, 150, 40)))
    for metres in np.arange(0.0, track.length, _round_step(track.length / 8.0)):
        x = left + metres / track.length * (right - left)
        canvas.add(Text(x, bottom + 12, f"{metres:g}", 13, GREY, "middle"))
    across = left + places / track.length * (right - left)
    for colour, values in lines:
        canvas.add(Polyline(np.stack([across, y(values)], axis=1), colour, 2.4))


def _round_step(about: float) -> float:
    """The number of the form 1, 2 or 5 times a power of ten next above `about`."""
    unit = 10.0 ** np.floor(np.log10(max(about, 1e-6)))
    return float(next(step * unit for step in (1.0, 2.0, 5.0, 10.0) if step * unit >= about))


def _rectangle(left: float, top: float, width: float, height: float) -> Points:
    return np.array([[left, top], [left + width, top], [left + width, top + height], [left, top + height]])

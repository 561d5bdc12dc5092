"""A track as a picture for people: grass, road, kerbs, start line, sectors, and the reference line by speed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paddock.render.canvas import Canvas, Colour, Disc, Points, Polygon, Polyline, Text, blend, simplified
from paddock.render.lap_time import format_lap_time
from paddock.sim.reference.lap import SECTORS, ReferenceLap
from paddock.sim.tracks.corners import Corner, find_corners
from paddock.sim.tracks.track import Array, Track

WIDTH = 1400  # px
MARGIN = 56  # px around the road
HEADER, FOOTER = 104, 76  # px for the title and for the colour bar
LOWEST, HIGHEST = 420, 900  # px, of the road's part of the picture
ROOM_BESIDE = 0.7  # road widths of grass or sand that are always shown
TALL = 1.15  # times higher than wide: such a track is drawn lying
TOLERANCE = 0.12  # px by which a simplified line may miss

GRASS: Colour = (88, 124, 78)
GRASS_LIGHT: Colour = (94, 131, 83)
VERGE: Colour = (116, 143, 92)
SAND: Colour = (203, 186, 143)
ROAD: Colour = (58, 61, 67)
DECK: Colour = (70, 73, 80)
SHADOW: Colour = (34, 44, 34)
WHITE: Colour = (245, 245, 240)
RED: Colour = (205, 52, 48)
INK: Colour = (28, 36, 30)
PANEL: Colour = (247, 247, 242)
GREY: Colour = (104, 112, 106)
SPEED_COLOURS: tuple[Colour, ...] = (
    (214, 40, 57), (244, 108, 57), (252, 186, 72), (236, 226, 104), (150, 207, 104), (64, 184, 146), (52, 160, 220),
)  # fmt: skip
SPEED_LEVELS = 28


@dataclass(frozen=True)
class View:
    """From metres to pixels, a quarter turn to the right where that makes a tall track a wide one."""

    left: float
    top: float
    zoom: float  # px per m
    x_offset: float
    y_offset: float
    is_turned: bool

    def __call__(self, points: Array) -> Points:
        """[P, 2] m to px, y down."""
        x, y = _turned(points, self.is_turned).T
        return np.stack(
            [self.x_offset + (x - self.left) * self.zoom, self.y_offset + (self.top - y) * self.zoom], axis=1
        )

    def direction(self, vector: Array) -> Array:
        """[2] a direction in the world as one in the picture."""
        x, y = _turned(vector[None], self.is_turned)[0]
        return np.array([x, -y])


def _turned(points: Array, is_turned: bool) -> Array:
    return np.stack([points[:, 1], -points[:, 0]], axis=1) if is_turned else points


def track_picture(track: Track, lap: ReferenceLap | None = None, *, car: str = "", subtitle: str = "") -> Canvas:
    """The picture of a track; with a lap, its line is coloured by speed and the title tells its time."""
    canvas, view = _fit(track)
    corners = find_corners(track)
    _draw_grass(canvas)
    _draw_surroundings(canvas, view, track, corners)
    _draw_road(canvas, view, track, corners)
    if lap is not None:
        _draw_line(canvas, view, track, lap)
    if track.bridge:
        _draw_bridge(canvas, view, track, lap)
    _draw_obstacles(canvas, view, track)
    _draw_sectors(canvas, view, track)
    _draw_start(canvas, view, track)
    _draw_corner_numbers(canvas, view, track, corners)
    _draw_header(canvas, track, lap, len(corners), car, subtitle)
    _draw_footer(canvas, view, lap)
    return canvas


def _fit(track: Track) -> tuple[Canvas, View]:
    points = np.vstack([track.left_edge, track.right_edge])
    is_turned = bool(np.ptp(points[:, 1]) > TALL * np.ptp(points[:, 0]))
    points = _turned(points, is_turned)
    beside = ROOM_BESIDE * track.mean_width
    low, high = points.min(axis=0) - beside, points.max(axis=0) + beside
    span = high - low
    zoom = min((WIDTH - 2 * MARGIN) / span[0], (HIGHEST - 2 * MARGIN) / span[1])
    height = int(max(span[1] * zoom + 2 * MARGIN, LOWEST))
    canvas = Canvas(WIDTH, HEADER + height + FOOTER, GRASS)
    x_offset = 0.5 * (WIDTH - span[0] * zoom)
    y_offset = HEADER + 0.5 * (height - span[1] * zoom)
    return canvas, View(low[0], high[1], zoom, x_offset, y_offset, is_turned)


def _draw_grass(canvas: Canvas) -> None:
    """Mown stripes, slanted."""
    stripe, slant = 70, 0.35
    height = canvas.height
    for x in range(-int(slant * height), canvas.width, 2 * stripe):
        corners = [(x, height), (x + stripe, height), (x + stripe + slant * height, 0), (x + slant * height, 0)]
        canvas.add(Polygon(np.array(corners, dtype=np.float64), GRASS_LIGHT))


def _span(track: Track, first: float, last: float) -> np.ndarray:
    """Indices of the track's points from `first` to `last` metres along the lap, across the start line too."""
    return np.arange(int(first / track.spacing), int(last / track.spacing) + 1) % len(track)


def _strip(view: View, track: Track, points: np.ndarray, inner: Array | float, outer: Array | float) -> Points:
    """The outline of the ground between two lateral offsets (m, left positive) along some track points."""
    one = view(track.offset_points(inner)[points])
    other = view(track.offset_points(outer)[points])
    return np.vstack([simplified(one, TOLERANCE), simplified(other, TOLERANCE)[::-1]])


def _draw_surroundings(canvas: Canvas, view: View, track: Track, corners: list[Corner]) -> None:
    """A paler verge along the road, and sand outside the corners that are braked for."""
    width = track.mean_width
    for corner in corners:
        if corner.radius > 6.0 * width:
            continue
        first, last = corner.first * track.spacing, corner.last * track.spacing
        points = _span(track, first - 0.2 * (last - first), last + 0.2 * (last - first))
        swell = np.sin(np.linspace(0.0, np.pi, len(points))) ** 0.7 * 1.3 * width
        offset = np.zeros(len(track))
        side = -np.sign(corner.turn)
        edge = track.left_width if side > 0 else track.right_width
        offset[points] = side * (edge[points] + swell)
        canvas.add(Polygon(_strip(view, track, points, 0.0, offset), SAND))
    for points in _pieces(track):
        outline = _strip(view, track, points, track.left_width + 0.22 * width, -track.right_width - 0.22 * width)
        canvas.add(Polygon(outline, VERGE))


def _pieces(track: Track) -> list[np.ndarray]:
    """The lap in overlapping pieces, short enough that none folds over itself."""
    count = max(int(track.length / (8.0 * track.mean_width)), 8)
    marks = np.linspace(0, len(track), count + 1).astype(int)
    return [np.arange(a, b + 2) % len(track) for a, b in pairwise(marks)]


def _draw_road(canvas: Canvas, view: View, track: Track, corners: list[Corner]) -> None:
    _draw_kerbs(canvas, view, track, corners)
    for points in _pieces(track):
        canvas.add(Polygon(_strip(view, track, points, track.left_width, -track.right_width), ROAD))
    width = 0.02 * track.mean_width * view.zoom
    for edge in (track.left_edge, track.right_edge):
        line = simplified(view(edge), TOLERANCE, is_closed=True)
        canvas.add(Polyline(line, WHITE, max(width, 1.2), is_closed=True))


def _draw_kerbs(canvas: Canvas, view: View, track: Track, corners: list[Corner]) -> None:
    """Inside each corner around its apex, outside where cars turn in and run out."""
    for corner in corners:
        first, last = corner.first * track.spacing, corner.last * track.spacing
        inside, length = np.sign(corner.turn), last - first
        road = track.mean_width
        reach = min(0.25 * length, 1.8 * road)
        _draw_kerb(canvas, view, track, first + 0.2 * length, last - 0.1 * length, inside)
        _draw_kerb(canvas, view, track, first - 1.2 * reach, first + 0.4 * reach, -inside)
        _draw_kerb(canvas, view, track, last - 0.5 * reach, last + 1.5 * reach, -inside)


def _draw_kerb(canvas: Canvas, view: View, track: Track, first: float, last: float, side: float) -> None:
    road = track.mean_width
    width = max(0.1 * road, 3.2 / view.zoom)
    block = max(0.25 * road, 6.0 / view.zoom)
    edge = side * (track.left_width if side > 0 else track.right_width)
    points = _span(track, first, last)
    canvas.add(Polygon(_strip(view, track, points, 0.9 * edge, edge + side * width), WHITE))
    for k in range(0, max(int((last - first) / block), 1), 2):
        points = _span(track, first + k * block, min(first + (k + 1) * block, last))
        if len(points) > 1:
            canvas.add(Polygon(_strip(view, track, points, 0.9 * edge, edge + side * width), RED))


def _draw_line(canvas: Canvas, view: View, track: Track, lap: ReferenceLap, points: np.ndarray | None = None) -> None:
    """The reference line in stretches of one colour each."""
    line = view(np.stack([lap.x, lap.y], axis=1))
    width = max(0.16 * track.mean_width * view.zoom, 2.6)
    slowest, fastest = float(lap.speed.min()), float(lap.speed.max())
    points = np.arange(len(line) + 1) % len(line) if points is None else points
    level = np.round((lap.speed[points] - slowest) / max(fastest - slowest, 1e-6) * SPEED_LEVELS)
    breaks = np.concatenate([[0], np.flatnonzero(np.diff(level)) + 1, [len(points) - 1]])
    for first, last in pairwise(breaks):
        if last > first:
            stretch = simplified(line[points[first : last + 1]], TOLERANCE)
            colour = blend(SPEED_COLOURS, float(level[first]) / SPEED_LEVELS)
            canvas.add(Polyline(stretch, colour, width))


def _crossings(track: Track) -> list[int]:
    """The track points at the middle of each bridge: where a later piece of the centreline crosses an earlier one."""
    stride = max(int(2.0 / track.spacing), 1)
    points = np.stack([track.x, track.y], axis=1)[::stride]
    step = np.roll(points, -1, axis=0) - points
    found = []
    for i in range(len(points)):
        away = points[i] - points
        cross = step[i, 0] * step[:, 1] - step[i, 1] * step[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            here = (away[:, 1] * step[:, 0] - away[:, 0] * step[:, 1]) / cross
            there = (away[:, 1] * step[i, 0] - away[:, 0] * step[i, 1]) / cross
        hits = np.flatnonzero((here >= 0) & (here < 1) & (there >= 0) & (there < 1))
        if any(1 < (i - j) % len(points) < len(points) - 1 and j < i for j in hits):
            found.append(i * stride)
    return found


def _draw_bridge(canvas: Canvas, view: View, track: Track, lap: ReferenceLap | None) -> None:
    """The piece that passes over, drawn again on top, with parapets and a shadow."""
    road = track.mean_width
    for middle in _crossings(track):
        s = middle * track.spacing
        points = _span(track, s - 1.8 * road, s + 1.8 * road)
        shadow = _strip(view, track, points, track.left_width + 0.2 * road, -track.right_width - 0.2 * road)
        canvas.add(Polygon(shadow + 0.25 * road * view.zoom, SHADOW, 0.35))
        canvas.add(Polygon(_strip(view, track, points, track.left_width, -track.right_width), DECK))
        for edge in (track.left_edge, track.right_edge):
            canvas.add(Polyline(view(edge[points]), WHITE, max(0.14 * road * view.zoom, 2.4)))
        if lap is not None:
            _draw_line(canvas, view, track, lap, _span(track, s - 2.2 * road, s + 2.2 * road))


def _draw_obstacles(canvas: Canvas, view: View, track: Track) -> None:
    for (x, y), radius in zip(view(track.obstacles[:, :2]), track.obstacles[:, 2], strict=True):
        size = max(radius * view.zoom, 3.0)
        canvas.add(Disc(x, y, size, WHITE), Disc(x, y, 0.8 * size, RED))


def _across(view: View, track: Track, point: int, overhang: float) -> Points:
    """The two ends, px, of a line across the road that reaches `overhang` m past its edges."""
    ends = [track.left_edge[point] + overhang * track.normal[point], track.right_edge[point]]
    return view(np.array([ends[0], ends[1] - overhang * track.normal[point]]))


def _draw_sectors(canvas: Canvas, view: View, track: Track) -> None:
    road = track.mean_width
    for sector in range(1, SECTORS):
        point = round(len(track) * sector / SECTORS) % len(track)
        ends = _across(view, track, point, 0.25 * road)
        canvas.add(Polyline(ends, (255, 213, 79), max(0.1 * road * view.zoom, 2.5)))
        _tag(canvas, view, track, point, f"S{sector + 1}", (255, 213, 79), INK)


def _tag(canvas: Canvas, view: View, track: Track, point: int, text: str, colour: Colour, ink: Colour) -> None:
    """A small label beside the road, on the side where the road bends away."""
    side = -1.0 if track.curvature[point] > 0 else 1.0
    edge = track.left_edge if side > 0 else track.right_edge
    place = view(edge[point : point + 1])[0]
    direction = view.direction(track.normal[point]) * side
    x, y = place + direction * 24.0
    canvas.add(Disc(x, y, 13.0, colour), Text(x, y, text, 14, ink, "middle", is_bold=True))


def _draw_start(canvas: Canvas, view: View, track: Track) -> None:
    """A chequered band across the road and an arrow that shows the way."""
    road = track.left_width[0] + track.right_width[0]
    square = max(road / 8.0, 2.2 / view.zoom)
    along = np.array([np.cos(track.heading[0]), np.sin(track.heading[0])])
    start = track.right_edge[0] - along * square
    for row in range(2):
        for column in range(8):
            corner = start + along * square * row + track.normal[0] * (road / 8.0) * column
            far = along * square, track.normal[0] * road / 8.0
            outline = np.array([corner, corner + far[0], corner + far[0] + far[1], corner + far[1]])
            canvas.add(Polygon(view(outline), WHITE if (row + column) % 2 else INK))
    side = track.normal[0] if track.curvature.mean() <= 0 else -track.normal[0]
    base = np.array([track.x[0], track.y[0]]) + side * (0.5 * road + 22.0 / view.zoom)
    length, half = 46.0 / view.zoom, 8.0 / view.zoom
    tip, neck = base + along * length, base + along * (length - 2.0 * half)
    canvas.add(Polyline(view(np.array([base, neck])), WHITE, 5.0))
    head = np.array([tip, neck + track.normal[0] * half, neck - track.normal[0] * half])
    canvas.add(Polygon(view(head), WHITE))


def _draw_corner_numbers(canvas: Canvas, view: View, track: Track, corners: list[Corner]) -> None:
    for number, corner in enumerate(corners, start=1):
        side = np.sign(corner.turn)
        edge = (track.left_edge if side > 0 else track.right_edge)[corner.apex]
        direction = view.direction(track.normal[corner.apex]) * side
        x, y = view(edge[None])[0] + direction * 22.0
        canvas.add(Text(x, y, str(number), 17, WHITE, "middle", is_bold=True))


def _draw_header(
    canvas: Canvas, track: Track, lap: ReferenceLap | None, corner_count: int, car: str, subtitle: str
) -> None:
    canvas.add(Polygon(_box(0, 0, canvas.width, HEADER - 16), PANEL))
    canvas.add(Text(MARGIN, 34, track.name, 34, INK, is_bold=True))
    width = track.left_width + track.right_width
    facts = [f"{track.length:,.0f} m" if track.length >= 400 else f"{track.length:.1f} m"]
    narrow, wide = float(width.min()), float(width.max())
    digits = 1 if wide < 20 else 0
    same = wide - narrow < 0.05 * wide
    facts.append(f"{wide:.{digits}f} m wide" if same else f"{narrow:.{digits}f} to {wide:.{digits}f} m wide")
    facts.append(f"{corner_count} corners" if corner_count != 1 else "1 corner")
    canvas.add(Text(MARGIN, 68, "   ".join(facts) + (f"   {subtitle}" if subtitle else ""), 18, GREY))
    if lap is not None:
        right = canvas.width - MARGIN
        label = f"reference lap, {car}" if car else "reference lap"
        canvas.add(Text(right, 34, format_lap_time(lap.lap_time), 34, INK, "right", is_bold=True))
        canvas.add(Text(right, 68, label, 18, GREY, "right"))


def _draw_footer(canvas: Canvas, view: View, lap: ReferenceLap | None) -> None:
    top = canvas.height - FOOTER + 16
    canvas.add(Polygon(_box(0, top, canvas.width, canvas.height), PANEL))
    middle = 0.5 * (top + canvas.height)
    _draw_scale(canvas, view, middle)
    if lap is None:
        return
    slowest, fastest = float(lap.speed.min()) * 3.6, float(lap.speed.max()) * 3.6
    width, height = 360.0, 14.0
    left = canvas.width - MARGIN - width
    for k in range(60):
        x = left + width * k / 60
        canvas.add(
            Polygon(_box(x, middle - 16, x + width / 60 + 0.5, middle - 16 + height), blend(SPEED_COLOURS, k / 59))
        )
    for share in (0.0, 0.5, 1.0):
        align = ("left", "middle", "right")[int(2 * share)]
        text = f"{slowest + share * (fastest - slowest):.0f}" + (" km/h" if share == 1.0 else "")
        canvas.add(Text(left + share * width, middle + 14, text, 15, GREY, align))


def _draw_scale(canvas: Canvas, view: View, middle: float) -> None:
    reach = 220.0 / view.zoom
    unit = 10.0 ** np.floor(np.log10(reach))
    length = max(step * unit for step in (1.0, 2.0, 5.0) if step * unit <= reach)
    end = MARGIN + length * view.zoom
    ends = np.array([[MARGIN, middle - 4], [MARGIN, middle + 4], [end, middle + 4], [end, middle - 4]])
    canvas.add(Polyline(ends, INK, 2.0), Text(end + 14, middle, f"{length:g} m", 15, GREY))


def _box(left: float, top: float, right: float, bottom: float) -> Points:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], dtype=np.float64)

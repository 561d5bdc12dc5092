"""A list of shapes that becomes a PNG or an SVG: the same picture either way. Pixels, y down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from paddock.core.errors import InputError

Colour = tuple[int, int, int]
Points = np.ndarray  # [P, 2] px

SUPERSAMPLING = 3
SVG_FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
ANCHORS = {"left": ("lm", "start"), "middle": ("mm", "middle"), "right": ("rm", "end")}


@dataclass(frozen=True)
class Polygon:
    """A filled outline."""

    points: Points
    colour: Colour
    opacity: float = 1.0


@dataclass(frozen=True)
class Polyline:
    """A stroked path with round joints. width: px."""

    points: Points
    colour: Colour
    width: float
    is_closed: bool = False


@dataclass(frozen=True)
class Disc:
    """A filled circle. radius: px."""

    x: float
    y: float
    radius: float
    colour: Colour


@dataclass(frozen=True)
class Text:
    """A line of text, centred in height on y. size: px. align: left, middle or right of x."""

    x: float
    y: float
    content: str
    size: float
    colour: Colour
    align: str = "left"
    is_bold: bool = False


Shape = Polygon | Polyline | Disc | Text


@dataclass
class Canvas:
    """Shapes in drawing order, over a background. width, height: px."""

    width: int
    height: int
    background: Colour
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        """Draw these over what is there."""
        self.shapes.extend(shapes)

    def save(self, path: str | Path) -> None:
        """Write the picture; the file's ending says in which format."""
        path = Path(path)
        writers = {".png": self._save_png, ".svg": self._save_svg}
        if path.suffix.lower() not in writers:
            raise InputError(f"a picture ends in {' or '.join(writers)}, got '{path}'.")
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[path.suffix.lower()](path)

    def to_image(self, zoom: int = SUPERSAMPLING) -> Image.Image:
        """The picture in RGB, drawn `zoom` times as large and scaled down so that edges are smooth."""
        image = Image.new("RGB", (self.width * zoom, self.height * zoom), self.background)
        draw = ImageDraw.Draw(image, "RGBA")
        for shape in self.shapes:
            _draw_shape(draw, shape, zoom)
        return image.resize((self.width, self.height), Image.Resampling.LANCZOS)

    def _save_png(self, path: Path) -> None:
        self.to_image().save(path, optimize=True)

    def _save_svg(self, path: Path) -> None:
        path.write_text(self.to_svg(), encoding="utf-8")

    def to_svg(self) -> str:
        """The picture as an SVG document."""
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'font-family="{SVG_FONT}" stroke-linejoin="round" stroke-linecap="round" fill="none">',
            f'<rect width="{self.width}" height="{self.height}" fill="{_hex(self.background)}"/>',
            *(_svg_shape(shape) for shape in self.shapes),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def _draw_shape(draw: ImageDraw.ImageDraw, shape: Shape, zoom: int) -> None:
    if isinstance(shape, Polygon):
        draw.polygon(_flat(shape.points * zoom), fill=(*shape.colour, round(255 * shape.opacity)))
    elif isinstance(shape, Polyline):
        points = np.vstack([shape.points, shape.points[:2]]) if shape.is_closed else shape.points
        width = shape.width * zoom
        draw.line(_flat(points * zoom), fill=shape.colour, width=max(round(width), 1), joint="curve")
        if not shape.is_closed and width > 3:
            for x, y in (points[0] * zoom, points[-1] * zoom):
                draw.circle((x, y), 0.5 * width - 0.5, fill=shape.colour)
    elif isinstance(shape, Disc):
        draw.circle((shape.x * zoom, shape.y * zoom), shape.radius * zoom, fill=shape.colour)
    else:
        font = ImageFont.load_default(shape.size * zoom)
        anchor = ANCHORS[shape.align][0]
        place = (shape.x * zoom, shape.y * zoom)
        stroke = 0.025 * shape.size * zoom if shape.is_bold else 0
        draw.text(place, shape.content, fill=shape.colour, font=font, anchor=anchor, stroke_width=stroke)


def _flat(points: Points) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in points]


def _svg_shape(shape: Shape) -> str:
    if isinstance(shape, Polygon):
        opacity = f' fill-opacity="{shape.opacity:g}"' if shape.opacity < 1.0 else ""
        return f'<path d="{_svg_path(shape.points)}Z" fill="{_hex(shape.colour)}"{opacity}/>'
    if isinstance(shape, Polyline):
        end = "Z" if shape.is_closed else ""
        return (
            f'<path d="{_svg_path(shape.points)}{end}" stroke="{_hex(shape.colour)}" stroke-width="{shape.width:.3g}"/>'
        )
    if isinstance(shape, Disc):
        return f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:.1f}" fill="{_hex(shape.colour)}"/>'
    weight = ' font-weight="bold"' if shape.is_bold else ""
    # A third of the size below the middle is where the baseline lies, whatever the viewer knows of baselines.
    return (
        f'<text x="{shape.x:.1f}" y="{shape.y + 0.34 * shape.size:.1f}" font-size="{shape.size:g}"{weight} '
        f'text-anchor="{ANCHORS[shape.align][1]}" fill="{_hex(shape.colour)}">{escape(shape.content)}</text>'
    )


def _svg_path(points: Points) -> str:
    """Absolute start, then relative steps of whole tenths of a pixel: short, and rounding does not add up."""
    tenths = np.round(points * 10.0).astype(int)
    steps = np.diff(tenths, axis=0)
    moves = "".join(f"l{_tenth(x)} {_tenth(y)}" for x, y in steps if x or y)
    return f"M{_tenth(tenths[0, 0])} {_tenth(tenths[0, 1])}{moves}"


def _tenth(value: int) -> str:
    return f"{value / 10:g}"


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{channel:02x}" for channel in colour)


def simplified(points: Points, tolerance: float, is_closed: bool = False) -> Points:
    """Fewer points [Q, 2] that stay within `tolerance` px of the path (Douglas and Peucker)."""
    path = np.vstack([points, points[:1]]) if is_closed else points
    keep = np.zeros(len(path), dtype=bool)
    keep[[0, -1]] = True
    middle = len(path) // 2
    spans: list[tuple[int, int]] = [(0, len(path) - 1)]
    if is_closed and len(path) > 3:
        keep[middle] = True
        spans = [(0, middle), (middle, len(path) - 1)]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        chord = path[last] - path[first]
        length = max(float(np.hypot(*chord)), 1e-9)
        away = path[first + 1 : last] - path[first]
        distance = np.abs(away[:, 0] * chord[1] - away[:, 1] * chord[0]) / length
        worst = int(np.argmax(distance))
        if distance[worst] > tolerance:
            split = first + 1 + worst
            keep[split] = True
            spans += [(first, split), (split, last)]
    kept = path[keep]
    return kept[:-1] if is_closed else kept


def blend(colours: Sequence[Colour], share: float) -> Colour:
    """The colour `share` (0 to 1) of the way along a row of colours."""
    place = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    index = min(int(place), len(colours) - 2)
    mixed = np.array(colours[index]) * (index + 1 - place) + np.array(colours[index + 1]) * (place - index)
    return int(mixed[0]), int(mixed[1]), int(mixed[2])

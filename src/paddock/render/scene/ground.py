"""The still part of the picture: grass, gravel, asphalt, kerbs and lines, drawn once per tile and then only sampled.

World coordinates are metres with y up, pixels have y down. A tile is drawn the first time the camera sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paddock.render.scene.pygame import pygame
from paddock.sim.tracks.scenery import KERB_WIDTH, LEAST_GRAVEL, LINE_WIDTH, VERGE_WIDTH, lay_scenery, start_patches
from paddock.sim.tracks.track import Track

Floats = NDArray[np.floating]
Colour = tuple[int, int, int]

TILE = 256  # pixels on a side
OVERSAMPLE = 2
NARROWEST_ROAD = 9.0  # pixels
MARGIN_UNITS = 45.0  # how far the drawn map reaches beyond the road

GRASS: Colour = (74, 124, 62)
GRASS_STRIPE: Colour = (80, 132, 66)
GRAVEL: Colour = (196, 178, 138)
VERGE: Colour = (62, 106, 54)
ASPHALT: Colour = (66, 68, 74)
WHITE: Colour = (236, 236, 232)
KERB_RED: Colour = (204, 44, 40)
BLACK: Colour = (24, 24, 28)


@dataclass(frozen=True)
class SpeedLine:
    """A line on the road and the speed along it, drawn from red (slow) to green (fast)."""

    x: Floats  # [M] m
    y: Floats  # [M] m
    speed: Floats  # [M] m/s


def speed_colours(speed: Floats) -> list[Colour]:
    """Red, amber, green over the range of `speed` [M]."""
    low, high = float(np.min(speed)), float(np.max(speed))
    share = (np.asarray(speed) - low) / max(high - low, 1e-9)
    stops = np.array([[226, 48, 44], [242, 196, 60], [70, 206, 96]], dtype=float)
    channels = [np.interp(share, [0.0, 0.5, 1.0], stops[:, c]) for c in range(3)]
    return [(int(r), int(g), int(b)) for r, g, b in zip(*channels, strict=True)]


def _periodic_noise(size: int, cells: int, seed: int) -> Floats:
    """Smooth noise in [-1, 1], `size` x `size`, that tiles without a seam."""
    coarse = np.random.default_rng(seed).uniform(-1.0, 1.0, (cells, cells))
    position = np.arange(size) * cells / size
    low = position.astype(int)
    part = position - low
    part = part * part * (3.0 - 2.0 * part)
    high = (low + 1) % cells
    rows = coarse[low] * (1 - part)[:, None] + coarse[high] * part[:, None]
    return rows[:, low] * (1 - part) + rows[:, high] * part


def _grass_tile(seed: int = 7) -> NDArray[np.uint8]:
    """One tile of mown grass at the drawing resolution, [size, size, 3], periodic in both directions."""
    size = TILE * OVERSAMPLE
    ramp = np.arange(size)
    diagonal = (ramp[:, None] + ramp[None, :]) % (size // 2) / (size // 2)
    stripe = np.clip(0.5 + 12.0 * (0.25 - np.abs(diagonal - 0.5)), 0.0, 1.0)[..., None]
    colour = np.array(GRASS) * (1 - stripe) + np.array(GRASS_STRIPE) * stripe
    shade = 0.030 * _periodic_noise(size, 16, seed) + 0.030 * _periodic_noise(size, 128, seed + 1)
    return np.clip(colour * (1 + shade[..., None]), 0, 255).astype(np.uint8)


def _grain() -> NDArray[np.float32]:
    """A periodic film of grain that multiplies the finished tile, [TILE + 1, TILE + 1, 1]."""
    fine = np.random.default_rng(11).normal(0.0, 1.0, (TILE, TILE))
    grain = 1.0 + 0.016 * fine + 0.018 * _periodic_noise(TILE, 32, 12)
    return np.pad(grain, ((0, 1), (0, 1)), mode="wrap")[..., None].astype(np.float32)


class TrackArt:
    """Tiles of the still picture at `detail` pixels per metre; `tiles` and `lookup` feed the sampling kernel.

    tiles: uint32 [slots, TILE + 1, TILE + 1], bytes R G B X; slot 0 is plain grass. lookup: int32 [rows, columns],
    slot of each tile or -1 while it is not drawn. (left, top): world position of the map's upper left corner, m.
    """

    def __init__(self, track: Track, detail: float, line: SpeedLine | None = None, max_tiles: int = 400) -> None:
        self.track, self.detail, self.line = track, detail, line
        self.tile_metres = TILE / detail
        self._stride = max(1, int(1.2 / (track.spacing * detail)))
        self._index = np.arange(0, len(track.x), self._stride)
        self._scenery = lay_scenery(track, self._index)
        self.unit = self._scenery.unit
        self._prepare_outlines()
        self._line_colours = speed_colours(line.speed) if line is not None else []
        margin = MARGIN_UNITS * self.unit
        self.left, self.top = float(self._box[:, 0].min()) - margin, float(self._box[:, 3].max()) + margin
        columns = int(np.ceil((float(self._box[:, 2].max()) + margin - self.left) / self.tile_metres))
        rows = int(np.ceil((self.top - float(self._box[:, 1].min()) + margin) / self.tile_metres))
        self.lookup = np.full((rows, columns), -1, dtype=np.int32)
        # Untouched pages of a zeroed array cost no memory, so all slots can be there from the start.
        self.tiles = np.zeros((max_tiles, TILE + 1, TILE + 1), dtype=np.uint32)
        self._used = 1
        self._grass = _grass_tile()
        self._grain = _grain()
        self.tiles[0] = self._finish(self._canvas())

    def require(self, corners: Floats) -> None:
        """Draw the tiles under the view with these world `corners` [4, 2] that are not drawn yet."""
        columns = (corners[:, 0] - self.left) / self.tile_metres
        rows = (self.top - corners[:, 1]) / self.tile_metres
        first_row, last_row = max(int(rows.min()), 0), int(rows.max()) + 1
        first_column, last_column = max(int(columns.min()), 0), int(columns.max()) + 1
        seen = self.lookup[first_row:last_row, first_column:last_column]
        missing = np.argwhere(seen < 0)
        if self._used + len(missing) > len(self.tiles):
            self.lookup[...] = -1
            self._used = 1
            missing = np.argwhere(seen < 0)
        for row, column in missing:
            self._draw_tile(first_row + int(row), first_column + int(column))

    def _prepare_outlines(self) -> None:
        track, unit = self.track, self.unit
        normal = np.stack([-np.sin(track.heading), np.cos(track.heading)], axis=-1)[self._index]
        centre = np.stack([track.x, track.y], axis=-1)[self._index]
        # Seen from afar a road would be a hair: it is drawn at least this wide.
        widen = max(1.0, NARROWEST_ROAD / (10.0 * unit * self.detail))
        left, right = widen * track.left_width[self._index], widen * track.right_width[self._index]

        def offset(distance: Floats) -> Floats:
            return centre + normal * distance[:, None]

        line, kerb, verge = (widen * share * unit for share in (LINE_WIDTH, KERB_WIDTH, VERGE_WIDTH))
        self._outline = {
            "left": offset(left),
            "right": offset(-right),
            "left_line": offset(left - line),
            "right_line": offset(-right + line),
            "left_verge": offset(left + verge),
            "right_verge": offset(-right - verge),
            "left_kerb": offset(left + kerb),
            "right_kerb": offset(-right - kerb),
            "left_gravel": offset(left + widen * self._scenery.gravel_left),
            "right_gravel": offset(-right - widen * self._scenery.gravel_right),
        }
        reach = np.maximum(left, right) + 9.0 * kerb
        following = np.roll(centre, -1, axis=0)
        low = np.minimum(centre, following) - reach[:, None]
        high = np.maximum(centre, following) + reach[:, None]
        self._box = np.concatenate([low, high], axis=1)  # [S, 4] left bottom right top of each segment, m

    def _canvas(self) -> pygame.Surface:
        size = (TILE + 1) * OVERSAMPLE
        surface = pygame.Surface((size, size), 0, 32)
        grass = pygame.image.frombuffer(self._grass.tobytes(), self._grass.shape[:2], "RGB")
        for left in (0, TILE * OVERSAMPLE):
            for top in (0, TILE * OVERSAMPLE):
                surface.blit(grass, (left, top))
        return surface

    def _finish(self, canvas: pygame.Surface) -> NDArray[np.uint32]:
        small = pygame.transform.smoothscale(canvas, (TILE + 1, TILE + 1))
        flat = np.frombuffer(pygame.image.tobytes(small, "RGBA"), dtype=np.uint8).reshape(TILE + 1, TILE + 1, 4)
        shaded = flat * self._grain
        shaded[..., 3] = 255
        return np.clip(shaded, 0, 255).astype(np.uint8).view(np.uint32)[..., 0]

    def _draw_tile(self, row: int, column: int) -> None:
        left, top = self.left + column * self.tile_metres, self.top - row * self.tile_metres
        right, bottom = left + self.tile_metres * (1 + 1 / TILE), top - self.tile_metres * (1 + 1 / TILE)
        box = self._box
        near = np.flatnonzero((box[:, 0] < right) & (box[:, 2] > left) & (box[:, 1] < top) & (box[:, 3] > bottom))
        trees = [tree for tree in self._scenery.trees if _touches(tree, 2.0, left, right, bottom, top)]
        obstacles = [o for o in self.track.obstacles if _touches(o, 2.0, left, right, bottom, top)]
        if len(near) == 0 and not trees and not obstacles:
            self.lookup[row, column] = 0
            return
        pen = _Pen(self._canvas(), left, top, self.detail * OVERSAMPLE)
        self._draw_ground(pen, near)
        breaks = np.flatnonzero(np.diff(near) > 1) + 1
        for run in np.split(near, breaks) if len(near) else []:
            self._draw_road(pen, run)
        if self.line is not None:
            self._draw_line(pen, near)
        for obstacle in obstacles:
            _draw_tyre_stack(pen, obstacle)
        for tree in trees:
            _draw_tree(pen, tree)
        self._store(row, column, self._finish(pen.surface))

    def _store(self, row: int, column: int, picture: NDArray[np.uint32]) -> None:
        self.tiles[self._used] = picture
        self.lookup[row, column] = self._used
        self._used += 1

    def _draw_ground(self, pen: _Pen, near: NDArray[np.intp]) -> None:
        outline, scenery = self._outline, self._scenery
        for side, depth in (("left", scenery.gravel_left), ("right", scenery.gravel_right)):
            pen.strips(GRAVEL, outline[side], outline[f"{side}_gravel"], near[depth[near] > LEAST_GRAVEL * self.unit])
        pen.strips(VERGE, outline["left_verge"], outline["right_verge"], near)

    def _draw_road(self, pen: _Pen, run: NDArray[np.intp]) -> None:
        outline, scenery = self._outline, self._scenery
        pen.strips(ASPHALT, outline["left"], outline["right"], run)
        for side in ("left", "right"):
            pen.strips(WHITE, outline[side], outline[f"{side}_line"], run)
        for side, mask in (("left", scenery.kerb_left), ("right", scenery.kerb_right)):
            for colour, is_red in ((WHITE, False), (KERB_RED, True)):
                blocks = run[mask[run] & (scenery.red[run] == is_red)]
                pen.strips(colour, outline[side], outline[f"{side}_kerb"], blocks)
        if 0 in run or len(self._index) - 1 in run:
            for is_white, corners in start_patches(self.track):
                pen.polygon(WHITE if is_white else BLACK, corners)

    def _draw_line(self, pen: _Pen, near: NDArray[np.intp]) -> None:
        assert self.line is not None
        count = len(self.line.x)
        points = np.stack([self.line.x, self.line.y], axis=-1)
        for i in near:
            start = int(self._index[i]) * count // len(self.track.x)
            stop = (int(self._index[i]) + self._stride) * count // len(self.track.x)
            pen.line(self._line_colours[start % count], points[[start % count, stop % count]], 0.6 * self.unit)


def _touches(circle: Floats, grow: float, left: float, right: float, bottom: float, top: float) -> bool:
    x, y, radius = circle
    reach = radius * grow
    return bool(left - reach < x < right + reach and bottom - reach < y < top + reach)


class _Pen:
    """Draws in metres on one tile."""

    def __init__(self, surface: pygame.Surface, left: float, top: float, scale: float) -> None:
        self.surface, self.left, self.top, self.scale = surface, left, top, scale

    def pixels(self, points: Floats) -> Floats:
        return (points - (self.left, self.top)) * (self.scale, -self.scale)

    def strips(self, colour: Colour, inner: Floats, outer: Floats, run: NDArray[np.intp]) -> None:
        """Fill between two outlines [S, 2] over the segments in `run`, each from its point to the next."""
        after = (run + 1) % len(inner)
        quads = np.stack([inner[run], inner[after], outer[after], outer[run]], axis=1)
        for quad in self.pixels(quads).tolist():
            pygame.draw.polygon(self.surface, colour, quad)

    def line(self, colour: Colour, points: Floats, width: float) -> None:
        """A thick segment between two points [2, 2]."""
        pixels = self.pixels(points)
        thick = max(2.5 * OVERSAMPLE, width * self.scale)
        pygame.draw.line(self.surface, colour, pixels[0], pixels[1], round(thick))
        for end in pixels:
            pygame.draw.circle(self.surface, colour, end, thick / 2)

    def polygon(self, colour: Colour, corners: Floats) -> None:
        pygame.draw.polygon(self.surface, colour, self.pixels(corners))

    def circle(self, colour: Colour, x: float, y: float, radius: float) -> None:
        centre = self.pixels(np.array([[x, y]]))[0]
        pygame.draw.circle(self.surface, colour, centre, max(1.0, radius * self.scale))


def _draw_tree(pen: _Pen, tree: Floats) -> None:
    x, y, radius = (float(value) for value in tree)
    pen.circle((50, 88, 46), x + 0.35 * radius, y - 0.4 * radius, radius)
    for share, colour in ((1.0, (44, 92, 46)), (0.72, (56, 110, 54)), (0.4, (72, 130, 64))):
        shift = 0.28 * radius * (1.0 - share)
        pen.circle(colour, x - shift, y + shift, radius * share)


def _draw_tyre_stack(pen: _Pen, obstacle: Floats) -> None:
    x, y, radius = (float(value) for value in obstacle)
    pen.circle((44, 45, 50), x + 0.22 * radius, y - 0.25 * radius, 1.05 * radius)
    for share, colour in ((1.0, KERB_RED), (0.8, WHITE), (0.6, (32, 32, 36)), (0.3, (84, 84, 90))):
        pen.circle(colour, x, y, radius * share)

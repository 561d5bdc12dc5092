"""Cockpit pictures of a road with black borders, without the car, drawn pixel by pixel from the ground's grid."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from paddock.environments.trackmania.screen import Picture
from paddock.environments.trackmania.twin.ground import FAR, Ground
from paddock.sim.kernels.compile import kernel

EYE_HEIGHT = 8.0  # m; beams to the side are then shorter than those along the road
HORIZON = 0.33  # of the picture's height, from above
ORIGIN = 44 / 49  # of the picture's height: where beams begin
ORIGIN_AHEAD = 1.5  # m from the car to the ground that is seen there
FIELD_OF_VIEW = math.radians(100)  # horizontal
FARTHEST = 250.0  # m; what lies beyond is haze
BORDER = 0.35  # m of black paint on either side of the road
TILE = 4.0  # m of the pattern that shows motion

# Blue, green, red. Only the border is dark: the pixel lidar takes everything below 55 for a border.
SKY, HAZE, GRASS, DARK_GRASS, ROAD, LIGHT_ROAD, BLACK = range(7)
COLOURS = np.array(
    [(235, 200, 150), (225, 215, 205), (70, 150, 90), (66, 140, 84), (128, 124, 122), (140, 136, 134), (12, 12, 12)],
    np.uint8,
)
PANEL, PANEL_LINE = (210, 160, 120), (250, 250, 250)


class Cockpit:
    """Draws what is seen from a place on the ground, uint8 [height, width, 3], blue first."""

    def __init__(self, ground: Ground, width: int, height: int) -> None:
        self._ground, self._shape = ground, (height, width, 3)
        self._focal = 0.5 * width / math.tan(0.5 * FIELD_OF_VIEW)
        self._horizon = round(HORIZON * height)
        self._behind = EYE_HEIGHT * self._focal / (ORIGIN * height - self._horizon) - ORIGIN_AHEAD
        self._depths = np.zeros((height, width), np.float32)

    def draw(self, x: float, y: float, heading: float) -> Picture:
        """The picture of a car at (x, y) m that looks along `heading` rad.

        The eye is above and behind the car, so that beams begin at the car and not in the next bend.
        """
        ground, picture = self._ground, np.empty(self._shape, np.uint8)
        x, y = x - self._behind * math.cos(heading), y - self._behind * math.sin(heading)
        look(
            self._depths, ground.inside, ground.left, ground.bottom, ground.cell,
            x, y, math.cos(heading), math.sin(heading), self._horizon, self._focal, COLOURS, picture,
        )  # fmt: skip
        return picture

    def panel(self, lines: int, picture: Picture | None = None) -> Picture:
        """A bright panel with so many bright lines: a dialog over a picture, or a menu without one."""
        drawn = np.empty(self._shape, np.uint8) if picture is None else picture.copy()
        height, width, _ = self._shape
        if picture is None:
            drawn[:] = COLOURS[SKY]
        top, bottom, left, right = height // 5, height - height // 5, width // 4, width - width // 4
        drawn[top:bottom, left:right] = PANEL
        gap = max(2, (bottom - top) // (lines + 1))
        for line in range(1, lines + 1):
            drawn[top + line * gap : top + line * gap + max(1, gap // 3), left + gap : right - gap] = PANEL_LINE
        return drawn


@kernel()
def look(
    depths: NDArray, inside: NDArray, left: float, bottom: float, cell: float, x: float, y: float, cos: float,
    sin: float, horizon: int, focal: float, colours: NDArray, picture: NDArray,
) -> None:  # pragma: no cover  # fmt: skip
    """Sky above the horizon; below it each pixel's place on the ground, then its colour.

    A pixel beside one on the other side of the road's edge is black, however far away: no beam slips through a border.
    """
    height, width = depths.shape
    middle = 0.5 * (width - 1)
    for row in range(height):
        if row <= horizon:
            for column in range(width):
                for channel in range(3):
                    picture[row, column, channel] = colours[SKY, channel]
            continue
        ahead = EYE_HEIGHT * focal / (row - horizon)
        for column in range(width):
            aside = (middle - column) * ahead / focal
            place_x = (x + ahead * cos - aside * sin - left) / cell
            place_y = (y + ahead * sin + aside * cos - bottom) / cell
            i, j = math.floor(place_y), math.floor(place_x)
            if ahead > FARTHEST or i < 0 or j < 0 or i + 1 >= inside.shape[0] or j + 1 >= inside.shape[1]:
                depths[row, column] = FAR
            else:
                v, u = place_y - i, place_x - j
                upper = inside[i, j] + u * (inside[i, j + 1] - inside[i, j])
                lower = inside[i + 1, j] + u * (inside[i + 1, j + 1] - inside[i + 1, j])
                depths[row, column] = upper + v * (lower - upper)
    for row in range(horizon + 1, height):
        ahead = EYE_HEIGHT * focal / (row - horizon)
        for column in range(width):
            depth = depths[row, column]
            is_road = depth > 0.0
            is_border = abs(depth) < BORDER
            if row + 1 < height:
                is_border |= (depths[row + 1, column] > 0.0) != is_road
            if row > horizon + 1:
                is_border |= (depths[row - 1, column] > 0.0) != is_road and ahead <= FARTHEST
            if column + 1 < width:
                is_border |= (depths[row, column + 1] > 0.0) != is_road
            if column > 0:
                is_border |= (depths[row, column - 1] > 0.0) != is_road
            if ahead > FARTHEST:
                colour = HAZE
            elif is_border:
                colour = BLACK
            else:
                aside = (middle - column) * ahead / focal
                tile = math.floor((x + ahead * cos - aside * sin) / TILE) + math.floor(
                    (y + ahead * sin + aside * cos) / TILE
                )
                is_light = int(tile) % 2 == 0
                colour = (LIGHT_ROAD if is_light else ROAD) if is_road else (GRASS if is_light else DARK_GRASS)
            for channel in range(3):
                picture[row, column, channel] = colours[colour, channel]

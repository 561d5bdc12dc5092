"""Car bodies seen from above: sprites drawn once per colour, heading and steering step, then blitted."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from paddock.render.scene.ground import Colour, Floats
from paddock.render.scene.pygame import pygame
from paddock.sim.cars.outline import BODY, CABIN, LAMPS, ROOF, STRIPE, WHEEL_SIZE, WHEELS, WING

PALETTE: tuple[Colour, ...] = (
    (222, 48, 44),
    (44, 120, 226),
    (246, 190, 42),
    (52, 178, 96),
    (238, 238, 240),
    (154, 84, 214),
    (244, 124, 36),
    (42, 196, 206),
)
GLASS: Colour = (30, 36, 46)
TYRE: Colour = (22, 22, 24)

HEADING_STEPS = 180
STEER_STEP = 0.08  # rad
OVERSAMPLE = 4
SPRITE_LIMIT = 3000


class CarSprites:
    """Draws cars of one size at one zoom; `length` and `width` are in pixels."""

    def __init__(self, length: float, width: float) -> None:
        self.length, self.width = length, width
        self._sprites: OrderedDict[tuple[int, int, int, bool], pygame.Surface] = OrderedDict()

    def draw(
        self,
        surface: pygame.Surface,
        x: float,
        y: float,
        angle: float,
        steer: float = 0.0,
        colour: int = 0,
        ghost: bool = False,
    ) -> None:
        """One car with its centre at pixel (x, y); `angle` rad counter-clockwise on the screen, 0 points right."""
        heading = round(angle / (2 * math.pi) * HEADING_STEPS) % HEADING_STEPS
        turn = max(-8, min(8, round(steer / STEER_STEP)))
        key = (heading, turn, colour % len(PALETTE), ghost)
        sprite = self._sprites.get(key)
        if sprite is None:
            sprite = self._sprites[key] = self._make(*key)
            if len(self._sprites) > SPRITE_LIMIT:
                self._sprites.popitem(last=False)
        surface.blit(sprite, (round(x - sprite.get_width() / 2), round(y - sprite.get_height() / 2)))

    def _make(self, heading: int, turn: int, colour: int, ghost: bool) -> pygame.Surface:
        size = int(math.hypot(self.length, self.width) * 1.25) + 4
        big = pygame.Surface((size * OVERSAMPLE, size * OVERSAMPLE), pygame.SRCALPHA, 32)
        paint = PALETTE[colour]
        big.fill((*(channel // 3 for channel in paint), 0))
        angle = heading * 2 * math.pi / HEADING_STEPS
        brush = _Brush(big, self.length * OVERSAMPLE, self.width * OVERSAMPLE, angle)
        _draw_body(brush, paint, turn * STEER_STEP)
        small = pygame.transform.smoothscale(big, (size, size))
        if ghost:
            small.set_alpha(140)
        return small


class _Brush:
    """Fills outlines given in shares of the car, rotated about the middle of its surface."""

    def __init__(self, surface: pygame.Surface, length: float, width: float, angle: float) -> None:
        self.surface, self.length, self.width = surface, length, width
        cosine, sine = math.cos(angle), math.sin(angle)
        self.turn = np.array([[cosine, -sine], [-sine, -cosine]])  # forward, left -> right, down
        self.middle = np.array(surface.get_size()) / 2

    def fill(
        self,
        colour: tuple[int, ...],
        outline: Sequence[tuple[float, float]] | Floats,
        shift: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        points = np.asarray(outline) * (self.length, self.width)
        pygame.draw.polygon(self.surface, colour, points @ self.turn.T + self.middle + np.array(shift))

    def wheel(self, x: float, y: float, steer: float) -> None:
        half_length = WHEEL_SIZE[0] * self.length / 2
        half_width = WHEEL_SIZE[1] * self.width / 2
        corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * (half_length, half_width)
        cosine, sine = math.cos(steer), math.sin(steer)
        corners = corners @ np.array([[cosine, sine], [-sine, cosine]]) + (x * self.length, y * self.width)
        pygame.draw.polygon(self.surface, TYRE, corners @ self.turn.T + self.middle)


def _draw_body(brush: _Brush, paint: Colour, steer: float) -> None:
    light = tuple(min(255, int(channel * 0.55 + 115)) for channel in paint)
    dark = tuple(int(channel * 0.55) for channel in paint)
    shade = 0.07 * brush.width
    brush.fill((10, 14, 10, 90), np.asarray(BODY) * 1.04, (shade * 1.6, shade * 1.6))
    for x, y in WHEELS:
        brush.wheel(x, y, steer if x > 0 else 0.0)
    brush.fill(dark, BODY)
    brush.fill(paint, np.asarray(BODY) * (0.975, 0.93))
    brush.fill(light if min(paint) < 200 else (200, 44, 40), STRIPE)
    brush.fill(GLASS, CABIN)
    brush.fill(paint, ROOF)
    brush.fill(dark, WING)
    for lamp in LAMPS:
        brush.fill((255, 246, 208), np.asarray(lamp))

"""Instruments over the picture: speed, gear, revs, laps, and a small map of the circuit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from paddock.render.lap_time import format_lap_time
from paddock.render.scene.cars import PALETTE
from paddock.render.scene.ground import Colour, Floats
from paddock.render.scene.pygame import pygame
from paddock.sim.tracks.track import Track

PANEL = (16, 18, 24, 176)
INK: Colour = (244, 245, 248)
DIM: Colour = (162, 168, 180)
REVS: tuple[Colour, ...] = ((70, 206, 96), (242, 196, 60), (226, 48, 44))


@dataclass(frozen=True)
class Hud:
    """What the instruments show of one car. A time that does not exist yet is NaN."""

    speed: float  # m/s
    gear: int = 1
    rpm: float = 0.0
    rpm_limit: float = 12_000.0
    lap: int = 0
    lap_time: float = 0.0  # s, of the lap under way
    last_lap: float = math.nan  # s
    best_lap: float = math.nan  # s
    title: str = ""
    gap: float = math.nan  # s behind the ghost at this place; negative is ahead
    is_caption: bool = False  # title and gap only, where instruments would hide the circuit


@lru_cache(maxsize=8)
def _font(size: int) -> pygame.font.Font:
    pygame.font.init()
    return pygame.font.Font(None, size)


@lru_cache(maxsize=512)
def _text(words: str, size: int, colour: Colour) -> pygame.Surface:
    try:
        return _font(size).render(words, True, colour)
    except pygame.error:  # Somebody else in this process ended pygame, and every font with it.
        _font.cache_clear()
        return _font(size).render(words, True, colour)


@lru_cache(maxsize=16)
def _panel(width: int, height: int) -> pygame.Surface:
    big = pygame.Surface((width * 2, height * 2), pygame.SRCALPHA, 32)
    big.fill((*PANEL[:3], 0))
    pygame.draw.rect(big, PANEL, big.get_rect(), border_radius=20)
    return pygame.transform.smoothscale(big, (width, height))


def _write(
    surface: pygame.Surface, words: str, size: int, colour: Colour, x: float, y: float, anchor: str = "left"
) -> None:
    image = _text(words, size, colour)
    shift = {"left": 0, "centre": image.get_width() / 2, "right": image.get_width()}[anchor]
    surface.blit(image, (round(x - shift), round(y - image.get_height() / 2)))


def draw_hud(surface: pygame.Surface, hud: Hud) -> None:
    """Speed, gear and revs below left; laps above left; title and gap above. Sizes follow the frame's height."""
    width, height = surface.get_size()
    unit = height / 480
    if not hud.is_caption:
        _draw_speed(surface, hud, unit, 12 * unit, height - 92 * unit)
        _draw_laps(surface, hud, unit, 12 * unit, 12 * unit)
    if math.isfinite(hud.gap):
        _draw_gap(surface, hud.gap, unit, width / 2, 46 * unit if hud.title else 12 * unit)
    if hud.title:
        plate = _text(hud.title, round(20 * unit), INK)
        panel = _panel(plate.get_width() + round(24 * unit), round(28 * unit))
        left = (width - panel.get_width()) / 2
        surface.blit(panel, (round(left), round(12 * unit)))
        _write(surface, hud.title, round(20 * unit), INK, width / 2, 26 * unit, "centre")


def _draw_speed(surface: pygame.Surface, hud: Hud, unit: float, left: float, top: float) -> None:
    surface.blit(_panel(round(196 * unit), round(80 * unit)), (round(left), round(top)))
    gear = "R" if hud.gear < 0 else "N" if hud.gear == 0 else str(hud.gear)
    _write(
        surface, str(round(abs(hud.speed) * 3.6)), round(56 * unit), INK, left + 102 * unit, top + 32 * unit, "right"
    )
    _write(surface, "km/h", round(20 * unit), DIM, left + 108 * unit, top + 42 * unit)
    _write(surface, gear, round(48 * unit), REVS[1], left + 170 * unit, top + 32 * unit, "centre")
    segments, share = 22, min(max(hud.rpm / hud.rpm_limit, 0.0), 1.0)
    for i in range(segments):
        band = 0 if i < segments * 0.6 else 1 if i < segments * 0.85 else 2
        colour = REVS[band] if i < share * segments else (58, 62, 72)
        box = (left + (12 + i * 7.9) * unit, top + 60 * unit, 5.9 * unit, 9 * unit)
        pygame.draw.rect(surface, colour, box)


def _draw_laps(surface: pygame.Surface, hud: Hud, unit: float, left: float, top: float) -> None:
    surface.blit(_panel(round(150 * unit), round(92 * unit)), (round(left), round(top)))
    _write(surface, f"LAP {hud.lap + 1}", round(20 * unit), DIM, left + 12 * unit, top + 16 * unit)
    _write(
        surface,
        format_lap_time(hud.lap_time, with_minutes=True),
        round(32 * unit),
        INK,
        left + 12 * unit,
        top + 37 * unit,
    )
    for row, (label, value) in enumerate((("last", hud.last_lap), ("best", hud.best_lap))):
        y = top + (60 + 18 * row) * unit
        _write(surface, label, round(18 * unit), DIM, left + 12 * unit, y)
        _write(surface, format_lap_time(value, with_minutes=True), round(20 * unit), INK, left + 138 * unit, y, "right")


def _draw_gap(surface: pygame.Surface, gap: float, unit: float, middle: float, top: float) -> None:
    """Green is ahead of the ghost, red behind it."""
    panel = _panel(round(118 * unit), round(36 * unit))
    surface.blit(panel, (round(middle - panel.get_width() / 2), round(top)))
    colour = REVS[0] if gap < 0.0 else (255, 128, 116)
    _write(surface, f"{gap:+.2f} s", round(32 * unit), colour, middle, top + 19 * unit, "centre")


class Minimap:
    """The circuit's outline in the upper right corner, cars as dots."""

    def __init__(self, track: Track, size: int) -> None:
        self.size = size
        span = max(np.ptp(track.x), np.ptp(track.y), 1e-9)
        self.scale = (size - 28) / span
        self.middle = np.array([(track.x.min() + track.x.max()) / 2, (track.y.min() + track.y.max()) / 2])
        self.background = self._draw_background(track)

    def place(self, x: Floats, y: Floats) -> Floats:
        """World m to pixels of the map, [C, 2]."""
        offset = np.stack([np.asarray(x) - self.middle[0], self.middle[1] - np.asarray(y)], axis=-1)
        return offset * self.scale + self.size / 2

    def _draw_background(self, track: Track) -> pygame.Surface:
        panel = _panel(self.size, self.size).copy()
        over = 3
        big = pygame.Surface((self.size * over, self.size * over), pygame.SRCALPHA, 32)
        big.fill((*INK, 0))
        points = self.place(track.x, track.y) * over
        step = max(1, len(points) // 400)
        outline = np.concatenate([points[::step], points[:1]])
        for point in outline:
            pygame.draw.circle(big, INK, point, 1.5 * over)
        pygame.draw.lines(big, INK, True, outline, 3 * over)
        pygame.draw.circle(big, REVS[2], points[0], 3.2 * over)
        panel.blit(pygame.transform.smoothscale(big, (self.size, self.size)), (0, 0))
        return panel

    def draw(self, surface: pygame.Surface, x: Floats, y: Floats, colours: list[int], focus: int) -> None:
        left = surface.get_width() - self.size - round(surface.get_height() / 40)
        top = round(surface.get_height() / 40)
        surface.blit(self.background, (left, top))
        dots = self.place(x, y) + np.array([left, top])
        order = [i for i in range(len(dots)) if i != focus]
        order.append(focus)
        for i in order:
            radius = self.size / 28 if i == focus else self.size / 42
            pygame.draw.aacircle(surface, BLACK_RIM, dots[i], radius + 1.2)
            pygame.draw.aacircle(surface, PALETTE[colours[i] % len(PALETTE)], dots[i], radius)


BLACK_RIM: Colour = (12, 13, 16)

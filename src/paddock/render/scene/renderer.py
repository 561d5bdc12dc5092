"""Frames for people: a still picture of the circuit, sampled under a camera, with cars, rays and instruments on top.

Headless: nothing here opens a window. `Renderer.draw(scene)` gives uint8 [height, width, 3].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import unknown_choice
from paddock.render.scene.cars import CarSprites
from paddock.render.scene.ground import TILE, Floats, SpeedLine, TrackArt
from paddock.render.scene.hud import Hud, Minimap, draw_hud
from paddock.render.scene.pygame import pygame
from paddock.sim.tracks.track import Track

__all__ = ["CAMERAS", "Hud", "Renderer", "Scene", "SpeedLine"]

CAMERAS = ("follow", "north_up", "track")
SMALLEST_CAR = 17.0  # pixels in length, so that a car stays visible over a whole circuit


@dataclass(frozen=True)
class Scene:
    """What one frame shows; arrays are over the C cars in the picture."""

    x: Floats  # [C] m
    y: Floats  # [C] m
    heading: Floats  # [C] rad
    length: float = 4.7  # m
    width: float = 2.0  # m
    steer: Floats | None = None  # [C] rad, left positive
    colour: Sequence[int] | None = None  # [C] index into the palette
    ghost: Sequence[bool] | None = None  # [C] drawn translucent
    focus: int = 0  # the car that the camera follows
    rays: Floats | None = None  # [R, 2] m, where the rays of the focused car end
    hud: Hud | None = None


@dataclass(frozen=True)
class _Camera:
    """World to pixels: `zoom` px/m about (x, y), which lies at `anchor`; `up` rad points up on the screen."""

    x: float
    y: float
    up: float
    zoom: float
    anchor: tuple[float, float]

    def pixels(self, x: Floats, y: Floats) -> Floats:
        dx, dy = np.asarray(x) - self.x, np.asarray(y) - self.y
        sine, cosine = math.sin(self.up), math.cos(self.up)
        right = self.anchor[0] + self.zoom * (dx * sine - dy * cosine)
        down = self.anchor[1] - self.zoom * (dx * cosine + dy * sine)
        return np.stack([right, down], axis=-1)

    def world(self, pixels: Floats) -> Floats:
        right = (pixels[:, 0] - self.anchor[0]) / self.zoom
        ahead = (self.anchor[1] - pixels[:, 1]) / self.zoom
        sine, cosine = math.sin(self.up), math.cos(self.up)
        return np.stack([self.x + right * sine + ahead * cosine, self.y - right * cosine + ahead * sine], axis=-1)


class Renderer:
    """Draws scenes of one track at one size.

    camera: `follow` turns with the car, `north_up` only moves with it, `track` shows the whole circuit.
    view_metres: what the frame's height shows when following; by default about thirteen car lengths.
    line: a line coloured by speed on the road, such as the reference lap.
    """

    def __init__(
        self,
        track: Track,
        size: tuple[int, int] = (640, 480),
        camera: str = "follow",
        *,
        car_length: float = 4.7,
        view_metres: float | None = None,
        line: SpeedLine | None = None,
        minimap: bool = True,
    ) -> None:
        if camera not in CAMERAS:
            raise unknown_choice("camera", camera, CAMERAS)
        self.track, self.size, self.camera = track, size, camera
        width, height = size
        self._fit = self._whole_track_camera()
        zoom = self._fit.zoom if camera == "track" else height / (view_metres or 13.0 * car_length)
        self.zoom = zoom
        self._art = TrackArt(track, zoom, line)
        self._frame = np.zeros((height, width), dtype=np.uint32)
        self._still: NDArray[np.uint32] | None = None  # the ground under a camera that never moves
        self._surface = pygame.image.frombuffer(self._frame.data.cast("B"), size, "RGBX")
        self._minimap = Minimap(track, round(height / 3.6)) if minimap and camera != "track" else None
        self._sprites: dict[tuple[float, float], CarSprites] = {}

    def draw(self, scene: Scene) -> NDArray[np.uint8]:
        """The frame, uint8 [height, width, 3]."""
        camera = self._camera(scene)
        self._draw_ground(camera)
        self._draw_cars(scene, camera)
        colours = self._colours(scene)
        if self._minimap is not None:
            self._minimap.draw(self._surface, scene.x, scene.y, colours, scene.focus)
        if scene.hud is not None:
            draw_hud(self._surface, scene.hud)
        frame = np.empty((*self._frame.shape, 3), dtype=np.uint8)
        _unpack(self._frame, frame)
        return frame

    def _whole_track_camera(self) -> _Camera:
        track, (width, height) = self.track, self.size
        edges = np.concatenate([track.left_edge, track.right_edge])
        low, high = edges.min(axis=0), edges.max(axis=0)
        span = np.maximum(high - low, 1e-6)
        zoom = float(min(width * 0.9 / span[0], height * 0.86 / span[1]))
        middle = (low + high) / 2
        return _Camera(float(middle[0]), float(middle[1]), math.pi / 2, zoom, (width / 2, height / 2))

    def _camera(self, scene: Scene) -> _Camera:
        if self.camera == "track":
            return self._fit
        width, height = self.size
        focus = scene.focus
        turning = self.camera == "follow"
        up = float(scene.heading[focus]) if turning else math.pi / 2
        anchor = (width / 2, height * (0.66 if turning else 0.5))
        return _Camera(float(scene.x[focus]), float(scene.y[focus]), up, self.zoom, anchor)

    def _draw_ground(self, camera: _Camera) -> None:
        if self._still is not None:
            self._frame[...] = self._still
            return
        width, height = self.size
        art = self._art
        corners = camera.world(np.array([[0, 0], [width, 0], [0, height], [width, height]], dtype=float))
        art.require(corners)
        texels = np.stack([corners[:, 0] - art.left, art.top - corners[:, 1]], axis=-1) * art.detail
        across, down = (texels[1] - texels[0]) / width, (texels[2] - texels[0]) / height
        _sample(art.tiles, art.lookup, self._frame, *texels[0], *across, *down)
        if self.camera == "track":
            self._still = self._frame.copy()

    def _draw_cars(self, scene: Scene, camera: _Camera) -> None:
        width, height = self.size
        pixels = camera.pixels(scene.x, scene.y)
        if scene.rays is not None and self.camera != "track":
            self._draw_rays(pixels[scene.focus], camera.pixels(scene.rays[:, 0], scene.rays[:, 1]))
        length = max(scene.length * camera.zoom, SMALLEST_CAR)
        breadth = length * scene.width / scene.length
        sprites = self._sprites.setdefault((length, breadth), CarSprites(length, breadth))
        inside = (np.abs(pixels - (width / 2, height / 2)) < (width / 2 + length, height / 2 + length)).all(axis=1)
        colours, count = self._colours(scene), len(pixels)
        ghosts = [False] * count if scene.ghost is None else list(scene.ghost)
        order = sorted(np.flatnonzero(inside), key=lambda i: (i == scene.focus, not ghosts[i]))
        for i in order:
            angle = float(scene.heading[i]) - camera.up + math.pi / 2
            steer = 0.0 if scene.steer is None else float(scene.steer[i])
            x, y = pixels[i]
            sprites.draw(self._surface, x, y, angle, steer, colours[i], bool(ghosts[i]))

    def _draw_rays(self, start: Floats, ends: Floats) -> None:
        for end in ends:
            pygame.draw.aaline(self._surface, (250, 230, 120), start, end)
            pygame.draw.aacircle(self._surface, (250, 230, 120), end, max(2.0, self.size[1] / 200))

    def _colours(self, scene: Scene) -> list[int]:
        return list(range(len(scene.x))) if scene.colour is None else [int(c) for c in scene.colour]


FIXED = 12  # fractional bits of a texel position in the kernel
ONE = 1 << FIXED
TILE_SHIFT = FIXED + TILE.bit_length() - 1


@numba.njit(cache=True)
def _sample(
    tiles: Any, lookup: Any, frame: Any, u0: float, v0: float, ux: float, vx: float, uy: float, vy: float
) -> None:
    """Fill `frame` [H, W] from the tiles, bilinearly; texel (u, v) of a pixel is linear in its column and row."""
    height, width = frame.shape
    rows, columns = lookup.shape
    texels, side = tiles.reshape(-1), TILE + 1
    step_u, step_v = np.int64(ux * ONE), np.int64(vx * ONE)
    red_blue, green, eight, sixteen = np.uint32(0xFF00FF), np.uint32(0xFF), np.uint32(8), np.uint32(16)
    for i in range(height):
        u = np.int64((u0 + ux * 0.5 + uy * (i + 0.5) - 0.5) * ONE)
        v = np.int64((v0 + vx * 0.5 + vy * (i + 0.5) - 0.5) * ONE)
        seen_row, seen_column, base = np.int64(-2), np.int64(-2), np.int64(0)
        for j in range(width):
            row, column = v >> TILE_SHIFT, u >> TILE_SHIFT
            if row != seen_row or column != seen_column:
                seen_row, seen_column, base = row, column, np.int64(0)
                if 0 <= column < columns and 0 <= row < rows:
                    base = np.int64(max(lookup[row, column], 0)) * side * side
            at = np.uint64(base + ((v >> FIXED) & (TILE - 1)) * side + ((u >> FIXED) & (TILE - 1)))
            fu, fv = np.uint32((u >> (FIXED - 4)) & 15), np.uint32((v >> (FIXED - 4)) & 15)
            w11 = fu * fv
            w01, w10 = np.uint32(fu * sixteen - w11), np.uint32(fv * sixteen - w11)
            w00 = np.uint32(np.uint32(256) - w01 - w10 - w11)
            p, q = texels[at], texels[at + np.uint64(1)]
            r, s = texels[at + np.uint64(side)], texels[at + np.uint64(side + 1)]
            even = (p & red_blue) * w00 + (q & red_blue) * w01 + (r & red_blue) * w10 + (s & red_blue) * w11
            odd = ((p >> eight) & green) * w00 + ((q >> eight) & green) * w01
            odd += ((r >> eight) & green) * w10 + ((s >> eight) & green) * w11
            frame[i, j] = np.uint32((even >> eight) & red_blue) | np.uint32(odd & np.uint32(0xFF00))
            u += step_u
            v += step_v


@numba.njit(cache=True)
def _unpack(packed: Any, frame: Any) -> None:
    for i in range(packed.shape[0]):
        for j in range(packed.shape[1]):
            value = packed[i, j]
            frame[i, j, 0] = value & 255
            frame[i, j, 1] = (value >> 8) & 255
            frame[i, j, 2] = (value >> 16) & 255

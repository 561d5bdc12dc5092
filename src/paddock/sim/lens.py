"""The camera's settings as the numbers its kernel reads: lens and palette."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from paddock.sim.settings import CameraSettings

# In the order of the kernel's palette: sky, grass, edge line, road, marking, obstacle and its band, car side and top,
# the own car. In grey they have to differ as well: grass is lighter than the road.
COLOURS = (
    (150, 190, 230), (110, 160, 80), (240, 240, 240), (88, 90, 96), (225, 225, 215), (240, 120, 20), (255, 245, 235),
    (150, 24, 28), (214, 40, 44), (40, 90, 220),
)  # fmt: skip
OWN_PLACE = 0.9  # of the height of a picture from above: the car is near its foot, and sees what it drives into
LUMINANCE = (0.299, 0.587, 0.114)


def build_lens(camera: CameraSettings) -> NDArray[np.float64]:
    """The lens, float64 [12], see `kernels.camera`."""
    above = camera.view == "above"
    scale = camera.height / camera.span if above else 0.5 * camera.width / math.tan(0.5 * camera.field_of_view)
    return np.array(
        [
            camera.width, camera.height, scale, 0.5 * camera.width,
            OWN_PLACE * camera.height if above else 0.5 * camera.height,
            math.cos(camera.pitch), math.sin(camera.pitch), camera.mount_height,
            0.0 if above else camera.mount, camera.view_range, float(above), camera.channels,
        ]
    )  # fmt: skip


def build_palette(camera: CameraSettings) -> NDArray[np.uint8]:
    """Colours, uint8 [10, channels]."""
    colours = np.array(COLOURS, np.float64)
    if not camera.colour:
        colours = (colours @ np.array(LUMINANCE))[:, None]
    return np.round(colours).astype(np.uint8)


def build_backdrop(camera: CameraSettings) -> NDArray[np.uint8]:
    """What every picture begins as, uint8 [pixels * channels]: sky above the horizon, grass below it."""
    lens, palette = build_lens(camera), build_palette(camera)
    picture = np.empty((camera.height, camera.width, camera.channels), np.uint8)
    picture[:] = palette[1]
    if camera.view == "bonnet":
        horizon = math.ceil(0.5 * camera.height - lens[2] * math.tan(camera.pitch) - 0.5)
        picture[: max(horizon, 0)] = palette[0]
    return picture.reshape(-1)

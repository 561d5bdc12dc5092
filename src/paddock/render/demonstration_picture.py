"""A step of a demonstration as a picture: what was seen on the left, what was done over time on the right.

Shapes: T steps, A numbers of an action, K places of the road ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paddock.render.canvas import Canvas, Colour, Disc, Points, Polygon, Polyline, Text

SIDE, WIDTH, MARGIN = 360, 560, 16  # px: height and width of what was seen, width of what was done
WINDOW = 120  # steps of the charts, the present one in the middle
GROUND, ROAD, CAR = (24, 27, 33), (72, 76, 86), (240, 180, 60)
INK, SOFT, AXIS = (232, 234, 238), (150, 156, 166), (60, 65, 75)
TAKEN, LABEL, MARKED = (90, 170, 255), (110, 220, 140), (150, 60, 60)
FARTHEST = 120.0  # m of road that the picture has room for


def demonstration_picture(
    seen: Mapping[str, NDArray[np.generic]],
    actions: NDArray[np.floating],
    step: int,
    *,
    labels: NDArray[np.floating] | None = None,
    marked: NDArray[np.bool_] | None = None,
    names: Sequence[str] = (),
    road: NDArray[np.floating] | None = None,
    title: str = "",
) -> NDArray[np.uint8]:
    """uint8 [height, width, 3].

    seen: parts of the observation of this step. actions, labels: [T, A] as they are drawn, from -1 to 1. marked: [T]
    steps with another background. road: [K, 4] m, forward and left of the road's middle, its width to either side;
    drawn in place of the numbers that were seen. names: of the numbers of an action.
    """
    canvas = Canvas(SIDE + WIDTH, SIDE, GROUND)
    picture = next((part for part in seen.values() if _is_picture(part)), None)
    if road is not None:
        _add_road(canvas, road)
    elif picture is None:
        _add_numbers(canvas, seen)
    _add_charts(canvas, actions, labels, marked, names, step)
    canvas.add(Text(SIDE + MARGIN, MARGIN, title, 14, INK))
    image = canvas.to_image(zoom=1)
    if road is None and picture is not None:
        image.paste(_as_image(picture).resize((SIDE, SIDE), Image.Resampling.NEAREST), (0, 0))
    return np.asarray(image)


def _is_picture(part: NDArray[np.generic]) -> bool:
    return part.dtype == np.uint8 and part.ndim >= 2


def _as_image(part: NDArray[np.generic]) -> Image.Image:
    """The newest image of a stack: [height, width], [height, width, channels] or [history, height, width]."""
    if part.ndim == 3 and part.shape[-1] not in (1, 3) and part.shape[0] < part.shape[-1]:
        part = part[0]
    if part.ndim == 3:
        part = part[..., :3] if part.shape[-1] >= 3 else part[..., 0]
    return Image.fromarray(np.ascontiguousarray(part)).convert("RGB")


def _add_road(canvas: Canvas, road: NDArray[np.floating]) -> None:
    """The road ahead from above, the car below and pointing up."""
    middle = np.asarray(road[:, :2], np.float64)
    along = np.gradient(middle, axis=0)
    left = np.stack([-along[:, 1], along[:, 0]], 1) / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-6)
    scale = (SIDE - 80) / min(max(float(np.abs(middle).max()), 20.0), FARTHEST)
    edges = np.concatenate([middle + left * road[:, 2:3], (middle - left * road[:, 3:4])[::-1]])
    canvas.add(Polygon(_on_canvas(edges, scale), ROAD), Polyline(_on_canvas(middle, scale), SOFT, 1.5))
    canvas.add(Disc(SIDE / 2, SIDE - 40, 5, CAR))


def _on_canvas(points: NDArray[np.floating], scale: float) -> Points:
    """Metres forward and left of the car [P, 2] to pixels [P, 2]."""
    return np.stack([SIDE / 2 - points[:, 1] * scale, SIDE - 40 - points[:, 0] * scale], 1)


def _add_numbers(canvas: Canvas, seen: Mapping[str, NDArray[np.generic]]) -> None:
    """A bar for each number that was seen, between -1 and 1."""
    values = np.concatenate([np.asarray(part, np.float64).reshape(-1) for part in seen.values()])[: SIDE // 4]
    width = (SIDE - 2 * MARGIN) / max(len(values), 1)
    for index, value in enumerate(np.clip(values, -1, 1)):
        left, right = MARGIN + index * width, MARGIN + (index + 0.8) * width
        top = SIDE / 2 - value * (SIDE / 2 - 2 * MARGIN)
        canvas.add(_box(left, top, right, SIDE / 2, TAKEN))
    canvas.add(Polyline(np.array([[MARGIN, SIDE / 2], [SIDE - MARGIN, SIDE / 2]]), AXIS, 1))


def _add_charts(
    canvas: Canvas,
    actions: NDArray[np.floating],
    labels: NDArray[np.floating] | None,
    marked: NDArray[np.bool_] | None,
    names: Sequence[str],
    step: int,
) -> None:
    """Each number of an action over the steps around the present one."""
    count = actions.shape[1]
    first = max(step - WINDOW // 2, 0)
    shown = np.arange(first, min(first + WINDOW, len(actions)))
    across = SIDE + MARGIN + (shown - first) * (WIDTH - 2 * MARGIN) / WINDOW
    height = (SIDE - 3 * MARGIN) / count
    if marked is not None:
        for place in across[marked[shown]]:
            canvas.add(_box(place, 2 * MARGIN, place + (WIDTH - 2 * MARGIN) / WINDOW, SIDE - MARGIN, MARKED))
    for number in range(count):
        middle = 2 * MARGIN + (number + 0.5) * height
        canvas.add(Polyline(np.array([[SIDE + MARGIN, middle], [SIDE + WIDTH - MARGIN, middle]]), AXIS, 1))
        for values, colour in ((labels, LABEL), (actions, TAKEN)):
            if values is not None and len(shown) > 1:
                heights = middle - 0.42 * height * np.clip(values[shown, number], -1, 1)
                canvas.add(Polyline(np.stack([across, heights], 1), colour, 2))
        name = names[number] if number < len(names) else f"action {number}"
        canvas.add(Text(SIDE + MARGIN, middle - 0.42 * height, f"{name} {actions[step, number]:+.2f}", 12, SOFT))
    now = SIDE + MARGIN + (step - first) * (WIDTH - 2 * MARGIN) / WINDOW
    canvas.add(Polyline(np.array([[now, 2 * MARGIN], [now, SIDE - MARGIN]]), CAR, 1))


def _box(left: float, top: float, right: float, bottom: float, colour: Colour) -> Polygon:
    return Polygon(np.array([[left, top], [right, top], [right, bottom], [left, bottom]]), colour)

"""Simple roads for the world's tests: circles and a stadium, exact in closed form."""

from __future__ import annotations

import numpy as np

from paddock.sim.tracks.track import Track


def circle_track(radius: float = 100.0, half_width: float = 8.0, points: int = 640) -> Track:
    """A circle driven anticlockwise around the origin, from (radius, 0)."""
    angle = np.linspace(0.0, 2.0 * np.pi, points, endpoint=False)
    width = np.full(points, half_width)
    return Track(
        name="circle",
        x=radius * np.cos(angle),
        y=radius * np.sin(angle),
        heading=np.angle(np.exp(1j * (angle + np.pi / 2))),
        curvature=np.full(points, 1.0 / radius),
        left_width=width,
        right_width=width,
        length=2.0 * np.pi * radius,
    )


def stadium_track(
    straight: float = 400.0, radius: float = 60.0, half_width: float = 8.0, spacing: float = 1.0
) -> Track:
    """Two straights joined by half circles; the line lies in the middle of the first straight."""
    length = 2.0 * straight + 2.0 * np.pi * radius
    count = round(length / spacing)
    s = np.arange(count) * length / count
    half_turn = np.pi * radius
    along = np.minimum(s, straight)
    first = np.clip(s - straight, 0.0, half_turn) / radius
    back = np.clip(s - straight - half_turn, 0.0, straight)
    second = np.clip(s - 2.0 * straight - half_turn, 0.0, half_turn) / radius
    x = along + radius * np.sin(first) - back - radius * np.sin(second)
    y = radius * (1.0 - np.cos(first)) - radius * (1.0 - np.cos(second))
    heading = np.angle(np.exp(1j * (first + second)))
    turning = ((s > straight) & (s < straight + half_turn)) | (s > 2.0 * straight + half_turn)
    width = np.full(count, half_width)
    curvature = np.where(turning, 1.0 / radius, 0.0)
    middle = round(0.5 * straight / (length / count))
    x, y, heading, curvature = (np.roll(values, -middle) for values in (x, y, heading, curvature))
    return Track(
        name="stadium", x=x, y=y, heading=heading, curvature=curvature,
        left_width=width, right_width=width, length=length,
    )  # fmt: skip


def plane_track(radius: float = 20_000.0) -> Track:
    """So wide a circle that any manoeuvre of a few seconds stays on the road."""
    return circle_track(radius, half_width=0.4 * radius, points=2000)


def follow(
    world: object, track: Track, speed: float, car_wheelbase: float, steer_limit: float, offset: float = 0.0
) -> np.ndarray:
    """Actions [N, 2] of a simple driver that keeps `offset` m left of the centreline at about `speed` m/s."""
    ahead = (world.point_index + np.round(0.3 * world.vx / track.spacing).astype(int)) % len(track)  # type: ignore[attr-defined]
    wanted = car_wheelbase * track.curvature[ahead]
    steer = wanted - 0.02 * (world.lateral - offset) - 0.6 * world.heading_error  # type: ignore[attr-defined]
    throttle = np.clip(0.5 * (speed - world.vx), -1.0, 1.0)  # type: ignore[attr-defined]
    return np.stack([np.clip(steer / steer_limit, -1.0, 1.0), throttle], axis=1)

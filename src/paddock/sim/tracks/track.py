"""`Track`, the record of a road that everything in racing reads.

Circuits, procedural loops and CSV files each make points; `tracks.builder` turns points into a `Track`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PROCEDURAL_PREFIX = "procedural:"
MODEL_SCALE = 0.1  # of the full-size circuits, when a 1:10 car drives them
MODEL_RATIO = 15.0  # a road this many times wider than the car is a full-size road under a model car


def _no_obstacles() -> Array:
    return np.zeros((0, 3))


@dataclass(frozen=True, eq=False)
class Track:
    """A closed road. M points, uniformly spaced in arc length, driven in index order; point M would be point 0.

    x, y: [M] centreline, m. heading: [M] rad in (-pi, pi]. curvature: [M] 1/m, left positive.
    left_width, right_width: [M] m from the centreline to the edge. length, spacing: m.
    obstacles: [K, 3] as (x, y, radius). Index 0 is the start and finish line.
    """

    name: str
    x: Array
    y: Array
    heading: Array
    curvature: Array
    left_width: Array
    right_width: Array
    length: float
    obstacles: Array = field(default_factory=_no_obstacles)
    bridge: bool = False  # the road passes over itself, on purpose

    def __post_init__(self) -> None:
        count = len(self.x)
        for name in ("x", "y", "heading", "curvature", "left_width", "right_width"):
            values = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            assert values.shape == (count,), f"{name} has shape {values.shape}, expected ({count},)"
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        obstacles = np.ascontiguousarray(self.obstacles, dtype=np.float64).reshape(-1, 3)
        obstacles.flags.writeable = False
        object.__setattr__(self, "obstacles", obstacles)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def spacing(self) -> float:
        """Metres between neighbouring points, along the centreline."""
        return self.length / len(self.x)

    @cached_property
    def mean_width(self) -> float:
        """Metres from edge to edge, averaged over the points."""
        return float(np.mean(self.left_width + self.right_width))

    @cached_property
    def s(self) -> Array:
        """[M] metres from the start line to each point."""
        return np.arange(len(self.x), dtype=np.float64) * self.spacing

    @cached_property
    def normal(self) -> Array:
        """[M, 2] unit vectors that point to the left of the road."""
        return np.stack([-np.sin(self.heading), np.cos(self.heading)], axis=1)

    @cached_property
    def left_edge(self) -> Array:
        """[M, 2] m."""
        return self.offset_points(self.left_width)

    @cached_property
    def right_edge(self) -> Array:
        """[M, 2] m."""
        return self.offset_points(-self.right_width)

    @cached_property
    def fingerprint(self) -> str:
        """A short name for the road's exact geometry, obstacles apart; the same geometry gives the same one."""
        digest = hashlib.sha256()
        for values in (self.x, self.y, self.left_width, self.right_width):
            digest.update(np.round(values, 6).tobytes())
        return digest.hexdigest()[:16]

    def offset_points(self, offset: Array | float) -> Array:
        """[M, 2] the centreline moved sideways by `offset` metres, left positive."""
        centre = np.stack([self.x, self.y], axis=1)
        return centre + self.normal * np.broadcast_to(offset, self.x.shape)[:, None]

    def scaled(self, factor: float) -> Track:
        """The same road `factor` times the size: 0.1 makes a full-size circuit one for 1:10 cars."""
        assert factor > 0.0, f"a track is scaled by a positive factor, got {factor}"
        return replace(
            self,
            x=self.x * factor,
            y=self.y * factor,
            curvature=self.curvature / factor,
            left_width=self.left_width * factor,
            right_width=self.right_width * factor,
            length=self.length * factor,
            obstacles=self.obstacles * factor,
        )

    def sized_for(self, car_width: float) -> Track:
        """The road a car of this width (m) drives: a full-size one shrinks to a tenth under a 1:10 car."""
        return self.scaled(MODEL_SCALE) if self.mean_width > MODEL_RATIO * car_width else self

    def reversed(self) -> Track:
        """The same road driven the other way, from the same start line."""

        def backwards(values: Array) -> Array:
            return np.roll(values[::-1], 1)

        return replace(
            self,
            x=backwards(self.x),
            y=backwards(self.y),
            heading=wrap_angle(backwards(self.heading) + np.pi),
            curvature=-backwards(self.curvature),
            left_width=backwards(self.right_width),
            right_width=backwards(self.left_width),
        )


def wrap_angle(angle: Array) -> Array:
    """Angles in rad brought into (-pi, pi]."""
    return np.pi - np.mod(np.pi - angle, 2.0 * np.pi)

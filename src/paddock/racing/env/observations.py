"""What an agent sees of the racing world: the observation sets, each a list of normalised parts.

Shapes: N cars, H history (newest first), R rays, K course points, A numbers in a recorded action.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.racing.env.config import RacingConfig
from paddock.sim import layout
from paddock.sim.cars.car import CarParameters
from paddock.sim.settings import (
    TELEMETRY,
    CameraSettings,
    CourseSettings,
    Imperfection,
    RaySettings,
    TelemetrySettings,
)

Values = NDArray[np.float32]
Rows = slice | NDArray[np.intp]
ONE = np.float32(1.0)
LAST_ACTIONS = "last_actions"
HISTORY = 4
RAYS = 19
CLASSIC_RAYS = 5
RAY_RANGE = 100.0  # m at full size
NEAR = 1.0  # m at full size: where a logarithmic ray turns from even steps to even shares
ROAD_WIDTH = 20.0  # m at full size, the widest half road that course points tell apart
FULL_RPM = 12_000.0
TOP_GEAR = 8.0
YAW_RATE, SLIP, ACCELERATION = 4.0, 0.8, 25.0  # rad/s, rad, m/s2: what reads as 1


@dataclass(frozen=True, eq=False)
class Part:
    """A named piece: readings from a source of `layout.PART_...`, times `scale`; values lie in [low, 1]."""

    name: str
    shape: tuple[int, ...]
    low: float
    source: int
    column: int = 0  # of the source
    scale: Values | np.float32 = ONE  # a number, or one of each value

    @cached_property
    def size(self) -> int:
        """Numbers per car."""
        return math.prod(self.shape)


class StridedHistory:
    """A world that takes readings more often than its agents decide: of each history only every `stride`-th is seen."""

    def __init__(self, world: Any, stride: int) -> None:
        self._world, self._stride = world, stride

    def __getattr__(self, name: str) -> Any:
        values = getattr(self._world, name)
        return values[:, :: self._stride] if name in ("rays", "camera") else values


@dataclass(frozen=True)
class Sensors:
    """What a world has to measure; None is what it need not."""

    rays: RaySettings | None
    course: CourseSettings | None
    telemetry: TelemetrySettings | None
    camera: CameraSettings | None


class ObservationSet:
    """The sensors a set needs, its space, and how to read it for some rows of the world's cars."""

    def __init__(self, config: RacingConfig, car: CarParameters, action_size: int) -> None:
        self.config, self.car = config, car
        self.action_size = action_size
        if config.observation == "full" and config.images and config.flat:
            raise InputError(
                "observation 'full' has pictures, which are not part of one vector; leave flat out for a dict, "
                "or set images=false for rays in place of pictures."
            )
        self.rays, self.course, self.telemetry, self.camera = self._sensors()
        self._log_range: np.float32 | None = None  # what the full range reads as before it becomes 1
        self.parts = self._parts()
        self.space = self._space()
        self.size = sum(part.size for part in self.parts)
        self.needs_finish = self._log_range is not None  # else `finish` has nothing to do
        self._is_flat, self._has_images = config.is_flat, config.has_images  # Properties cost a call each step.

    def read(self, world: Any, rows: Rows, last_actions: Values) -> Any:
        """Newly allocated observations of the cars in `rows`; last_actions: [N, L, A], newest first."""
        count = len(last_actions)
        if self.config.observation == "camera":
            return self._picture(world, rows)
        if self._is_flat:
            flat = np.empty((count, self.size), dtype=np.float32)
            for part, (start, end) in zip(self.parts, self.layout().values(), strict=True):
                self._fill(part, world, rows, last_actions, flat[:, start:end])
            return flat
        named: dict[str, NDArray[Any]] = {}
        for part in self.parts:
            values = np.empty((count, part.size), dtype=np.float32)
            self._fill(part, world, rows, last_actions, values)
            named[part.name] = values.reshape(count, *part.shape)
        if self._has_images:
            named["images"] = world.camera[rows, :, :, :, 0].copy()
        return named

    def for_kernel(self) -> dict[str, Any]:
        """The parts of a flat observation, by the names of `kernels.records.Episodes`."""
        sensors = {layout.PART_TELEMETRY: self.telemetry, layout.PART_RAYS: self.rays, layout.PART_COURSE: self.course}
        table = np.zeros((len(self.parts), 4), np.int64)
        for row, part in zip(table, self.parts, strict=True):
            sensor = sensors.get(part.source)
            row[:] = part.source, sensor.imperfection.latency if sensor else 0, part.column, part.size
        scale = [np.broadcast_to(part.scale, part.size) for part in self.parts]
        low = [np.full(part.size, part.low) for part in self.parts]
        return {
            "parts": table,
            "scale": np.concatenate(scale).astype(np.float32),
            "low": np.concatenate(low).astype(np.float32),
        }

    def finish(self, flat: Values) -> None:
        """What the kernel leaves to be done with a flat observation: logarithms, which numpy computes by vectors."""
        if self._log_range is not None:
            _to_logarithms(flat[:, slice(*self.layout()["rays"])], self._log_range)

    def sensors(self, stride: int = 1) -> Sensors:
        """The sensors, with histories long enough to see every `stride`-th reading of them (see `StridedHistory`)."""
        rays = self.rays and replace(self.rays, history=1 + stride * (self.rays.history - 1))
        camera = self.camera and replace(self.camera, history=1 + stride * (self.camera.history - 1))
        return Sensors(rays, self.course, self.telemetry, camera)

    def layout(self) -> dict[str, tuple[int, int]]:
        """Where each part lies in a flat observation: name -> (first, one past the last)."""
        ends = itertools.accumulate(part.size for part in self.parts)
        return {part.name: (end - part.size, end) for part, end in zip(self.parts, ends, strict=True)}

    def _sensors(
        self,
    ) -> tuple[RaySettings | None, CourseSettings | None, TelemetrySettings | None, CameraSettings | None]:
        config, sensing = self.config, self.config.sensing
        kind, scale = config.observation, config.track_scale
        reach = sensing.ray_range if sensing.ray_range is not None else RAY_RANGE * scale
        span = sensing.camera_span if sensing.camera_span is not None else CameraSettings.span * scale

        def flaw(unit: float) -> Imperfection:
            return Imperfection(sensing.noise * unit, sensing.dropout, sensing.latency)

        rays = course = camera = None
        if kind == "sensors5":
            history = sensing.ray_history or 1
            rays = RaySettings(
                count=sensing.rays or CLASSIC_RAYS, range=reach, history=history, imperfection=flaw(reach)
            )
        elif kind in ("lidar", "lidar_progress") or (kind == "full" and not config.images):
            history = sensing.ray_history or HISTORY
            rays = RaySettings(count=sensing.rays or RAYS, range=reach, history=history, imperfection=flaw(reach))
        if kind == "course" or config.privileged:
            course = CourseSettings(
                count=sensing.course_points,
                horizon=sensing.course_horizon,
                least_speed=5.0 * scale,
                imperfection=flaw(ROAD_WIDTH * scale),
            )
        if self.config.has_images:
            camera = CameraSettings(
                width=sensing.camera_size,
                height=sensing.camera_size,
                view=sensing.camera_view,
                colour=sensing.camera_colour and kind == "camera",
                mount_height=CameraSettings.mount_height * scale,
                mount=CameraSettings.mount * scale,
                span=span,
                view_range=CameraSettings.view_range * scale,
                history=sensing.camera_history if kind == "camera" else HISTORY,
                imperfection=flaw(255.0),
            )
        telemetry = None
        if kind != "camera":
            telemetry = TelemetrySettings(
                relative_noise=sensing.relative_noise, full=self._full_readings(), imperfection=flaw(1.0)
            )
        return rays, course, telemetry, camera

    def _full_readings(self) -> dict[str, float]:
        """What each instrument that can be noisy reads as 1; gears and actions are known exactly."""
        return {
            "speed": self.car.top_speed,
            "rpm": FULL_RPM,
            "yaw_rate": YAW_RATE,
            "slip": SLIP,
            "steer": self.car.steer_limit,
            "longitudinal_acceleration": ACCELERATION,
            "lateral_acceleration": ACCELERATION,
        }

    def _parts(self) -> list[Part]:
        kind = self.config.observation
        if kind == "camera":
            return []
        speed = self._instrument("speed", "speed", low=0.0)
        if kind == "sensors5":
            return [self._ray_part(), speed]
        shown = self.config.sensing.last_actions
        actions = [Part(LAST_ACTIONS, (shown, self.action_size), -1.0, layout.PART_ACTIONS)] if shown else []
        motion = self._motion_parts() if self.config.sensing.motion else []
        circles = self.config.sensing.progress or (1 if kind == "lidar_progress" else 0)
        place = [Part("progress", (2 * circles,), -1.0, layout.PART_PROGRESS)] if circles else []
        if kind in ("lidar", "lidar_progress"):
            return [speed, *motion, *place, self._ray_part(), *actions]
        if kind == "course":
            return [speed, *self._motion_parts(), *place, self._course_part(), *actions]
        gear = self._instrument("gear", "gear", low=0.0)
        rpm = self._instrument("rpm", "rpm", low=0.0)
        seen = [speed, gear, rpm, *place, *([] if self.config.has_images else [self._ray_part()]), *actions]
        return [*seen, *self._motion_parts(), self._course_part()] if self.config.privileged else seen

    def _space(self) -> spaces.Space[Any]:
        if self.camera is not None and self.config.observation == "camera":
            depth = self.camera.channels * self.camera.history
            return spaces.Box(0, 255, (self.camera.height, self.camera.width, depth), np.uint8)
        if self.config.is_flat:
            low = np.concatenate([np.full(part.size, part.low, dtype=np.float32) for part in self.parts])
            return spaces.Box(low, np.ones_like(low), dtype=np.float32)
        named: dict[str, spaces.Space[Any]] = {
            part.name: spaces.Box(part.low, 1.0, part.shape, np.float32) for part in self.parts
        }
        if self.camera is not None:
            shape = (self.camera.history, self.camera.height, self.camera.width)
            named["images"] = spaces.Box(0, 255, shape, np.uint8)
        return spaces.Dict(named)

    def _picture(self, world: Any, rows: Rows) -> NDArray[np.uint8]:
        pictures = world.camera[rows]  # [N, H, height, width, channels]
        if pictures.shape[1] == 1:
            return pictures[:, 0].copy()
        stacked = np.moveaxis(pictures, 1, 3)
        return np.ascontiguousarray(stacked).reshape(*stacked.shape[:3], -1)

    def _ray_part(self) -> Part:
        assert self.rays is not None
        unit = self.rays.range
        if self.config.sensing.ray_scale == "log":
            unit = NEAR * self.config.track_scale
            self._log_range = np.float32(np.log1p(self.rays.range / unit))
        count, history = self.rays.ray_count, self.rays.history
        shape = (history, count) if history > 1 else (count,)
        return Part("rays", shape, 0.0, layout.PART_RAYS, scale=np.float32(1.0 / unit))

    def _course_part(self) -> Part:
        assert self.course is not None
        reach = 0.5 * self.course.horizon * self.car.top_speed
        width = ROAD_WIDTH * self.config.track_scale
        scale = np.tile([1 / reach, 1 / reach, 1 / width, 1 / width], self.course.count).astype(np.float32)
        return Part("course", (self.course.count, 4), -1.0, layout.PART_COURSE, scale=scale)

    def _motion_parts(self) -> list[Part]:
        return [
            self._instrument("yaw_rate", "yaw_rate"),
            self._instrument("slip", "slip"),
            self._instrument("steer", "steer"),
            self._instrument("forward_acceleration", "longitudinal_acceleration"),
            self._instrument("sideways_acceleration", "lateral_acceleration"),
        ]

    def _instrument(self, part: str, name: str, low: float = -1.0) -> Part:
        full = {**self._full_readings(), "gear": TOP_GEAR}[name]
        return Part(part, (1,), low, layout.PART_TELEMETRY, TELEMETRY.index(name), np.float32(1.0 / full))

    def _fill(self, part: Part, world: Any, rows: Rows, last_actions: Values, out: Values) -> None:
        """Write a part of the cars in `rows` into `out` [N, size]."""
        if part.source == layout.PART_ACTIONS:
            out[...] = last_actions.reshape(len(out), -1)
        elif part.source == layout.PART_PROGRESS:
            _fill_progress(world, rows, out)
        elif part.source == layout.PART_RAYS:
            np.multiply(world.rays[rows].reshape(len(out), -1), part.scale, out=out)
            if self._log_range is not None:
                _to_logarithms(out, self._log_range)
        elif part.source == layout.PART_COURSE:
            np.multiply(world.course[rows].reshape(len(out), -1), part.scale, out=out)
            np.clip(out, part.low, 1.0, out=out)
        else:
            np.multiply(world.telemetry[rows, 0, part.column : part.column + 1], part.scale, out=out)
            np.clip(out, part.low, 1.0, out=out)


def _to_logarithms(rays: Values, full: np.float32) -> None:
    np.divide(np.log1p(rays, out=rays), full, out=rays)


def _fill_progress(world: Any, rows: Rows, out: Values) -> None:
    """The place on the lap as points on circles: a share of the lap would leap from 1 to 0 at the line. Each circle
    turns twice as often a lap as the one before, because a network hardly tells places apart that are a hundredth
    of a lap from each other on one circle."""
    angle = (2 * np.pi) * world.s[rows] / world.track_length[rows]
    for circle in range(out.shape[1] // 2):
        turned = angle * 2**circle
        out[:, 2 * circle], out[:, 2 * circle + 1] = np.cos(turned), np.sin(turned)

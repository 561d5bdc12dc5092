"""The classical driver: pure pursuit on the reference line, at the reference speed less a margin of grip.

Batched over cars; the same few gains on every track and for every car.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.sim.car import CarParameters, engine_force, load_car
from paddock.sim.reference import FULL_SIZE, ReferenceLap, lap_along
from paddock.sim.speed_profile import grip_envelope
from paddock.sim.track import Array, wrap_angle

SLIDING = 0.98  # share of its grip at which an axle is about to slide
MOST_USED = 0.98  # share of an axle's grip up to which its slip angle is foreseen
SLOWEST = 1.0  # m/s of a full-size car, below which slip and yaw rate mean little


@dataclass(frozen=True)
class DriverSettings:
    """The driver's habits. Times are those of a full-size car and shrink with the square root of the car's length."""

    grip: float = 0.93  # share of the car's grip that its speeds are planned for
    brake: float = 0.9  # share of the braking those speeds count on in a straight line
    trail: float = 0.4  # less of it in a turn at the limit: a car that brakes and turns is lively
    power: float = 0.3  # less of the acceleration, likewise
    inset: float = 0.15  # car widths further from the edge than the reference
    lookahead: float = 0.5  # s
    reach: float = 1.0  # car lengths, added to the lookahead
    slide: float = 0.4  # share by which the slip may pass that of sliding until the pedals are let go
    speed_gain: float = 2.0  # 1/s
    yaw_gain: float = 0.25  # s, steer per error of the yaw rate
    steer_time: float = 0.05  # s in which the wheels shall get where they are wanted, however slow they are


class CarState(Protocol):
    """What the driver looks at: arrays [N] as a world holds them.

    x, y, s: m. heading, steer: rad. vx, vy: m/s, forward and left. yaw_rate: rad/s.
    """

    x: Any
    y: Any
    s: Any
    heading: Any
    vx: Any
    vy: Any
    yaw_rate: Any
    steer: Any


@dataclass(frozen=True)
class _View:
    """The state of the N cars at hand, float64 [N], and where they are along the line (`place`, m)."""

    x: Array
    y: Array
    s: Array
    heading: Array
    vx: Array
    vy: Array
    yaw_rate: Array
    steer: Array
    speed: Array
    place: Array


class ClassicalDriver:
    """Drives any number of cars of one kind on one track."""

    def __init__(
        self, reference: ReferenceLap, car: str | CarParameters, settings: DriverSettings | None = None
    ) -> None:
        self.settings = settings or DriverSettings()
        self.car = load_car(car)
        self.pace = float(np.sqrt(self.car.length / FULL_SIZE))
        self.line = self._plan(reference)
        self.distance = np.concatenate([[0.0], np.cumsum(self.line.steps)])
        self.acceleration = (np.roll(self.line.speed, -1) ** 2 - self.line.speed**2) / (2.0 * self.line.steps)

    def act(self, state: CarState, cars: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.float32]:
        """[N, 2] (steer, throttle) for the cars of `state`, or for those of them that `cars` selects."""
        view = self._look(state, cars)
        throttle, force = self._throttle(view)
        steer = self._steer(view, force)
        return np.stack([steer, throttle], axis=1).astype(np.float32)

    def _plan(self, reference: ReferenceLap) -> ReferenceLap:
        """The reference line, a little further from the edges, at speeds that leave some grip in hand."""
        car, settings, track = self.car, self.settings, reference.track
        careful = car.with_changes(friction=car.friction * settings.grip, turn_rate=car.turn_rate * settings.grip)
        envelope = grip_envelope(careful)
        cornering = np.linspace(0.0, 1.0, envelope.brake.shape[1])
        envelope = replace(
            envelope,
            accelerate=envelope.accelerate - settings.power * cornering * np.maximum(envelope.accelerate, 0.0),
            brake=envelope.brake * (settings.brake - settings.trail * cornering),
        )
        widest = float(np.abs(reference.offset).max())
        inwards = 1.0 - min(settings.inset * car.width / max(widest, 1e-6), 1.0)
        return lap_along(track, reference.offset * inwards, envelope)

    def _look(self, state: CarState, cars: NDArray[np.intp] | slice) -> _View:
        names = ("x", "y", "s", "heading", "vx", "vy", "yaw_rate", "steer")
        seen = {name: np.asarray(getattr(state, name), dtype=np.float64)[cars] for name in names}
        points = len(self.line.speed)
        place = np.interp(seen["s"] / self.line.track.length * points, np.arange(points + 1), self.distance)
        speed = np.maximum(np.hypot(seen["vx"], seen["vy"]), SLOWEST * self.pace)
        return _View(**seen, speed=speed, place=place)

    def _at(self, values: Array, distance: Array) -> Array:
        """[N] `values` [M] of the line, at distances along it that may run past the finish."""
        return np.interp(np.mod(distance, self.distance[-1]), self.distance, np.append(values, values[0]))

    def _throttle(self, view: _View) -> tuple[Array, Array]:
        """The pedal in [-1, 1], and the longitudinal force (N) it asks for."""
        car, line = self.car, self.line
        ahead = view.place + 0.05 * self.pace * view.speed
        away = np.hypot(self._at(line.x, view.place) - view.x, self._at(line.y, view.place) - view.y)
        # Far from the line its speed is no promise: slow down in proportion.
        target = self._at(self.line.speed, ahead) * np.clip(1.5 - away / (2.0 * car.width), 0.5, 1.0)
        wanted = self._at(self.acceleration, ahead) + self.settings.speed_gain / self.pace * (target - view.vx)
        force = car.mass * wanted + car.drag_force(view.vx)
        drive = engine_force(np.maximum(view.vx, 0.0), car.drive_force, car.power, car.top_speed)
        force = np.clip(force, -car.brake_force, drive) * self._calm(view)
        pedal = np.where(force > 0.0, force / np.maximum(drive, 1e-6), force / car.brake_force)
        return np.clip(pedal, -1.0, 1.0), force

    def _calm(self, view: _View) -> Array:
        """[N] in 0 to 1: how much of the pedals a rear axle that begins to slide may feel."""
        car = self.car
        if car.kinematic:
            return np.ones_like(view.speed)
        slip = np.abs(view.vy - car.rear_length * view.yaw_rate) / view.speed
        most = self._slip_for(np.array([SLIDING]), car.rear_stiffness)[0]
        return np.clip(1.0 - (slip / most - 1.0) / self.settings.slide, 0.0, 1.0)

    def _steer(self, view: _View, force: Array) -> Array:
        car, settings = self.car, self.settings
        bend = self._at(self.line.curvature, view.place)
        front_slip, rear_slip = self._slip_angles(view.speed, bend, force)
        # The nose of a car in a bend points off its course by the slip of its rear axle.
        nose_off = rear_slip - car.rear_length * bend
        curvature = self._pursue(view, nose_off)
        if car.kinematic and car.turn_rate > 0.0:
            return np.clip(curvature * view.speed / car.turn_rate, -1.0, 1.0)
        wanted = np.arctan(car.wheelbase * curvature) + front_slip - rear_slip
        wanted += settings.yaw_gain * self.pace * (curvature * view.speed - view.yaw_rate)
        # Ask for more than is wanted, by as much as the wheels lag behind.
        hurry = max(car.steer_lag / (settings.steer_time * self.pace), 1.0)
        command = view.steer + (wanted - view.steer) * hurry
        return np.clip(command / car.steer_limit, -1.0, 1.0)

    def _pursue(self, view: _View, nose_off: Array) -> Array:
        """[N] 1/m, the curvature of the arc to the point of pursuit."""
        reach = self.settings.reach * self.car.length + self.settings.lookahead * self.pace * view.speed
        x, y = (self._at(axis, view.place + reach) for axis in (self.line.x, self.line.y))
        bearing = wrap_angle(np.arctan2(y - view.y, x - view.x) - (view.heading - nose_off))
        chord = np.maximum(np.hypot(x - view.x, y - view.y), 0.5 * self.car.length)
        return 2.0 * np.sin(np.clip(bearing, -1.5, 1.5)) / chord

    def _slip_angles(self, speed: Array, curvature: Array, force: Array) -> tuple[Array, Array]:
        """[N] rad, of the front and the rear axle in a steady turn under a longitudinal force (N); left positive."""
        car = self.car
        if car.kinematic:
            return np.zeros_like(speed), np.zeros_like(speed)
        front_grip, rear_grip = car.axle_grips(speed, (force - car.drag_force(speed)) / car.mass)
        front_load, rear_load = car.axle_loads(speed)
        share = np.where(
            (force > 0.0) & (car.drive_front >= 0.0), car.drive_front, front_load / (front_load + rear_load)
        )
        lateral = car.mass * speed**2 * curvature
        slips = []
        for grip, along, across, stiffness in (
            (front_grip, share * force, lateral * car.rear_length / car.wheelbase, car.front_stiffness),
            (rear_grip, (1.0 - share) * force, lateral * car.front_length / car.wheelbase, car.rear_stiffness),
        ):
            left = np.sqrt(np.maximum(grip**2 - along**2, (0.3 * grip) ** 2))
            slips.append(self._slip_for(across / left, stiffness))
        return slips[0], slips[1]

    def _slip_for(self, use: Array, stiffness: float) -> Array:
        """[N] rad, the slip angle at which a tyre gives `use` of its grip: the rising part of its curve, inverted."""
        car = self.car
        size = np.minimum(np.abs(use), MOST_USED)
        if car.tyre_c == 0.0:
            return np.sign(use) * size / stiffness
        # sin(C atan(z)) = use with z = B a - E (B a - atan(B a)), solved for B a by a table.
        stretched = np.linspace(0.0, 2.0, 400)
        z = stretched - car.tyre_e * (stretched - np.arctan(stretched))
        given = np.maximum.accumulate(np.sin(np.minimum(car.tyre_c * np.arctan(z), 0.5 * np.pi)))
        return np.sign(use) * np.interp(size, given, stretched) / car.tyre_b

"""The classical driver: pure pursuit on the reference line, at the reference speed less a margin of grip.

Batched over cars; the same few gains on every track and for every car.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.sim.cars.car import GRAVITY, CarParameters, engine_force, load_car
from paddock.sim.reference.detour import line_past_obstacles
from paddock.sim.reference.lap import ReferenceLap, lap_along
from paddock.sim.reference.speed_profile import SLIDING, grip_envelope, slip_angle
from paddock.sim.tracks.track import Array, wrap_angle

FULL_SIZE = 4.7  # m, the length of the car that the times below belong to
LEAST_STEPS = 3.0  # control steps that the lookahead spans at least
SPEED_LEAD = 0.05  # s of a full-size car by which the pedals are early
SLOWEST = 1.0  # m/s of a full-size car, below which slip and yaw rate mean little


@dataclass(frozen=True)
class DriverSettings:
    """The driver's habits. Times are those of a full-size car and shrink with the square root of the car's length."""

    grip: float = 0.97  # share of the car's grip that its speeds are planned for
    brake: float = 0.9  # share of the braking those speeds count on in a straight line
    trail: float = 0.25  # less of it in a turn at the limit: a car that brakes and turns is lively
    power: float = 0.15  # less of the acceleration, likewise
    inset: float = 0.15  # car widths further from the edge than the reference
    lookahead: float = 0.3  # s
    reach: float = 1.0  # car lengths, added to the lookahead
    slide: float = 0.2  # share by which the slip may pass that of sliding until the pedals are let go
    speed_gain: float = 2.0  # 1/s
    yaw_gain: float = 0.2  # s, steer per error of the yaw rate
    feel: float = 0.7  # share of the pedals' effect on the slip that the steering foresees
    lead: float = 0.05  # s by which the line's curvature is steered early
    relax: float = 0.5  # of the time the tyres need to build up force, added to the lead
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
class _LinePoint:
    """The planned line at N places, each [N]: m, rad's cosine and sine, 1/m, m/s, m/s2."""

    x: Array
    y: Array
    cosine: Array
    sine: Array
    curvature: Array
    speed: Array
    acceleration: Array


@dataclass(frozen=True)
class _View:
    """The state of the N cars at hand, float64 [N], where they are along the line (`place`, m) and what is there."""

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
    beside: _LinePoint


class ClassicalDriver:
    """Drives any number of cars of one kind on one track."""

    def __init__(
        self,
        reference: ReferenceLap,
        car: str | CarParameters,
        settings: DriverSettings | None = None,
        *,
        time_step: float = 0.05,
    ) -> None:
        """`time_step`: s between two calls of `act`."""
        self.time_step = time_step
        self.settings = settings or DriverSettings()
        self.car = load_car(car)
        self.pace = float(np.sqrt(self.car.length / FULL_SIZE))
        self.line = self._plan(reference)
        self.distance = np.concatenate([[0.0], np.cumsum(self.line.steps)])
        self._columns = self._closed_columns()
        self._sliding = 1.0 if self.car.kinematic else float(slip_angle(self.car, SLIDING, self.car.rear_stiffness))

    def act(self, state: CarState, cars: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.float32]:
        """[N, 2] (steer, throttle) for the cars of `state`, or for those of them that `cars` selects."""
        view = self._look(state, cars)
        throttle, force = self._throttle(view)
        steer = self._steer(view, force)
        return np.stack([steer, throttle], axis=1).astype(np.float32)

    def _plan(self, reference: ReferenceLap) -> ReferenceLap:
        """The reference line, past any obstacles, a little further in, at speeds that leave some grip in hand."""
        car, settings, track = self.car, self.settings, reference.track
        careful = car.with_changes(friction=car.friction * settings.grip, turn_rate=car.turn_rate * settings.grip)
        envelope = grip_envelope(careful)
        cornering = np.linspace(0.0, 1.0, envelope.brake.shape[1])
        envelope = replace(
            envelope,
            accelerate=envelope.accelerate - settings.power * cornering * np.maximum(envelope.accelerate, 0.0),
            brake=envelope.brake * (settings.brake - settings.trail * cornering),
        )
        inset = settings.inset * car.width
        inwards = 1.0 - min(inset / max(float(np.abs(reference.offset).max()), 1e-6), 1.0)
        return lap_along(track, line_past_obstacles(track, car, reference.offset, inset) * inwards, envelope)

    def _look(self, state: CarState, cars: NDArray[np.intp] | slice) -> _View:
        names = ("x", "y", "s", "heading", "vx", "vy", "yaw_rate", "steer")
        seen = {name: np.asarray(getattr(state, name))[cars].astype(np.float64) for name in names}
        position = np.mod(seen["s"], self.line.track.length) / self.line.track.spacing
        point = np.minimum(position.astype(np.intp), len(self.line.steps) - 1)
        place = self.distance[point] + (position - point) * self.line.steps[point]
        speed = np.maximum(np.hypot(seen["vx"], seen["vy"]), SLOWEST * self.pace)
        return _View(**seen, speed=speed, place=place, beside=self._at(place))

    def _closed_columns(self) -> Array:
        """[M + 1, 7] the line as x, y, cosine and sine of its heading, curvature, speed, acceleration."""
        line = self.line
        acceleration = (np.roll(line.speed, -1) ** 2 - line.speed**2) / (2.0 * line.steps)
        cosine, sine = np.cos(line.heading), np.sin(line.heading)
        columns = np.stack([line.x, line.y, cosine, sine, line.curvature, line.speed, acceleration], axis=1)
        return np.vstack([columns, columns[:1]])

    def _at(self, distance: Array) -> _LinePoint:
        """The line at distances [N] m along it, which may run past the finish."""
        distance = np.mod(distance, self.distance[-1])
        index = np.minimum(np.searchsorted(self.distance, distance, side="right"), len(self.line.steps)) - 1
        share = ((distance - self.distance[index]) / self.line.steps[index])[:, None]
        return _LinePoint(*(self._columns[index] * (1.0 - share) + self._columns[index + 1] * share).T)

    def _throttle(self, view: _View) -> tuple[Array, Array]:
        """The pedal in [-1, 1], and the longitudinal force (N) it asks for."""
        car = self.car
        ahead = self._at(view.place + SPEED_LEAD * self.pace * view.speed)
        away = np.hypot(view.beside.x - view.x, view.beside.y - view.y)
        # Far from the line its speed is no promise: slow down in proportion.
        target = ahead.speed * np.clip(1.5 - away / (2.0 * car.width), 0.5, 1.0)
        wanted = ahead.acceleration + self.settings.speed_gain / self.pace * (target - view.vx)
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
        return np.clip(1.0 - (slip / self._sliding - 1.0) / self.settings.slide, 0.0, 1.0)

    def _steer(self, view: _View, force: Array) -> Array:
        car, settings = self.car, self.settings
        bend = view.beside.curvature
        front_slip, rear_slip = self._slip_angles(view.speed, bend, settings.feel * force)
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
        """[N] 1/m, the curvature to drive.

        The arc to the point of pursuit cuts every corner a little, even from a place on the line; what it would ask
        for there is taken off again and the line's own curvature put in its place.
        """
        beside = view.beside
        lookahead = max(self.settings.lookahead * self.pace, LEAST_STEPS * self.time_step)
        reach = self.settings.reach * self.car.length + lookahead * view.speed
        target = self._at(view.place + reach)
        arc = self._arc(view.x, view.y, view.heading - nose_off, target)
        arc_on_line = self._arc(beside.x, beside.y, np.arctan2(beside.sine, beside.cosine), target)
        early = self.settings.lead * self.pace + self.settings.relax * self._response(view.speed)
        return arc - arc_on_line + self._at(view.place + early * view.speed).curvature

    def _response(self, speed: Array) -> Array:
        """[N] s in which a car's side force builds up, by the stiffness of its tyres."""
        car = self.car
        stiffness = car.tyre_b * car.tyre_c if car.tyre_c else car.front_stiffness
        return speed / (GRAVITY * stiffness) if stiffness else np.zeros_like(speed)

    def _arc(self, x: Array, y: Array, course: Array, target: _LinePoint) -> Array:
        """[N] 1/m, of the circle that leaves (x, y) in the direction `course` (rad) and meets the target."""
        across, up = target.x - x, target.y - y
        bearing = wrap_angle(np.arctan2(up, across) - course)
        chord = np.maximum(np.hypot(across, up), 0.5 * self.car.length)
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
            slips.append(slip_angle(car, across / left, stiffness))
        return slips[0], slips[1]

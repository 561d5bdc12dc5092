"""What a car is: parameters in SI units, the presets, and the force laws shared by dynamics and reference lap.

The laws are plain functions of scalars or arrays; the kernels compile the same functions. They hold no bare
Python numbers, because one double-precision literal would pull a single-precision kernel up to double.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError, unknown_choice

GRAVITY = np.float32(9.81)  # m/s2
ONE = np.float32(1.0)
ZERO = np.float32(0.0)
LIMITER_BAND = np.float32(0.02)  # the drive fades out over the last 2 % below the top speed
SPEED_FLOOR = np.float32(0.1)  # m/s, keeps power / speed finite

# The gearbox is for telemetry only: it takes no part in the forces.
GEAR_RATIOS = (0.04, 0.070, 0.095, 0.117, 0.143, 0.172, 0.190, 0.206)  # tyre to engine, gears 1 to 8
TYRE_CIRCUMFERENCE = 2.073  # m
SHIFT_UP_RPM = 11_800.0
SHIFT_DOWN_RPM = 10_400.0  # shift down once the lower gear would turn slower than this: hysteresis


def engine_force(speed: Any, force_limit: Any, power: Any, top_speed: Any) -> Any:
    """Largest drive force [N] at `speed` [m/s]: constant force, then constant power, nothing at the top speed."""
    available = np.minimum(force_limit, power / np.maximum(speed, SPEED_FLOOR))
    fade = (top_speed - speed) / (top_speed * LIMITER_BAND)
    return available * np.minimum(np.maximum(fade, ZERO), ONE)


def quadratic_force(speed: Any, coefficient: Any) -> Any:
    """Drag or downforce [N]: `coefficient` is 0.5 * rho * c * A in kg/m."""
    return coefficient * speed * speed


def front_load(acceleration: Any, downforce: Any, mass: Any, front: Any, rear: Any, cg_height: Any) -> Any:
    """Vertical load [N] on the front axle at a longitudinal `acceleration` [m/s2], `downforce` [N] on that axle."""
    load = mass * (GRAVITY * rear - acceleration * cg_height) / (front + rear) + downforce
    return np.maximum(load, ZERO)


def rear_load(acceleration: Any, downforce: Any, mass: Any, front: Any, rear: Any, cg_height: Any) -> Any:
    """Vertical load [N] on the rear axle, the counterpart of `front_load`."""
    load = mass * (GRAVITY * front + acceleration * cg_height) / (front + rear) + downforce
    return np.maximum(load, ZERO)


def axle_grip(load: Any, friction: Any, load_sensitivity: Any, nominal_load: Any) -> Any:
    """Largest horizontal force [N] of an axle that carries `load` [N] on two tyres.

    `mu * Fz * (1 + eps * Fz / Fz0)` of each tyre, with `nominal_load` [N] the Fz0 of one tyre.
    """
    sensitivity = ONE + load_sensitivity * load / (nominal_load + nominal_load)
    return friction * load * np.maximum(sensitivity, ZERO)


@dataclass(frozen=True)
class CarParameters:
    """One car. Metres, kilograms, seconds, radians, newtons, watts; `to_vector` gives the kernels' float32 [P]."""

    mass: float  # kg
    yaw_inertia: float  # kg m2
    front_length: float  # m, centre of gravity to front axle (lf)
    rear_length: float  # m, centre of gravity to rear axle (lr)
    cg_height: float  # m
    friction: float  # mu of the tyre on the road
    steer_limit: float  # rad, left and right
    steer_rate: float  # rad/s
    drive_force: float  # N, at low speed
    power: float  # W, above it
    top_speed: float  # m/s, the limiter
    brake_force: float  # N, all wheels together
    length: float  # m
    width: float  # m
    steer_lag: float = 0.0  # s, first-order
    tyre_b: float = 0.0  # Pacejka stiffness factor
    tyre_c: float = 0.0  # Pacejka shape; 0 selects the linear tyre below
    tyre_e: float = 0.0  # Pacejka curvature
    load_sensitivity: float = 0.0  # eps
    nominal_load: float = 1.0  # N, Fz0 of one tyre
    front_stiffness: float = 0.0  # 1/rad, linear tyre: Fy = mu Fz clip(stiffness * slip, -1, 1)
    rear_stiffness: float = 0.0  # 1/rad
    drag: float = 0.0  # kg/m, force = drag * v^2
    front_downforce: float = 0.0  # kg/m
    rear_downforce: float = 0.0  # kg/m
    rolling_resistance: float = 0.0  # share of the weight
    drive_front: float = -1.0  # share of the drive on the front axle; -1 is in proportion to the loads
    traction_limit: float = 0.98  # share of an axle's grip that drive and brakes may use (traction control, ABS)
    blend_speed: float = 1.0  # m/s, around it the dynamic model hands over to the kinematic one
    reverse_speed: float = 3.0  # m/s, top speed backwards
    kinematic: float = 0.0  # 1: always kinematic, no slip
    turn_rate: float = 0.0  # rad/s, kinematic cars only: yaw rate at full steer, set directly
    gear_scale: float = 1.0  # telemetry: speed in the gearbox per speed on the road

    def __post_init__(self) -> None:
        for name in ("mass", "yaw_inertia", "front_length", "rear_length", "friction", "steer_limit", "steer_rate",
                     "drive_force", "power", "top_speed", "brake_force", "length", "width", "nominal_load",
                     "blend_speed", "reverse_speed", "traction_limit"):  # fmt: skip
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"car parameter '{name}' is {value}; it must be a number above 0.")

    @property
    def wheelbase(self) -> float:
        """Metres between the axles."""
        return self.front_length + self.rear_length

    def to_vector(self) -> NDArray[np.float32]:
        """All parameters in the order of the fields, float32 [P]."""
        return np.array([getattr(self, field.name) for field in fields(self)], np.float32)

    def stack(self, count: int) -> NDArray[np.float32]:
        """The same car `count` times, float32 [count, P]."""
        return np.tile(self.to_vector(), (count, 1))

    def with_changes(self, **changes: float) -> CarParameters:
        """A copy with some parameters changed; an unknown name gets an error that lists the known ones."""
        for name in changes:
            if name not in PARAMETER_INDEX:
                raise unknown_choice("car parameter", name, PARAMETER_INDEX)
        return replace(self, **changes)

    # What a speed profile needs, for any array of speeds [m/s].

    def drag_force(self, speed: Any) -> Any:
        """Resistance [N] of air and rolling at `speed`."""
        return quadratic_force(speed, self.drag) + self.rolling_resistance * self.mass * GRAVITY

    def axle_loads(self, speed: Any, acceleration: Any = 0.0) -> tuple[Any, Any]:
        """Front and rear axle load [N] at `speed` while accelerating by `acceleration` [m/s2]."""
        shape = (self.mass, self.front_length, self.rear_length, self.cg_height)
        front = front_load(acceleration, quadratic_force(speed, self.front_downforce), *shape)
        rear = rear_load(acceleration, quadratic_force(speed, self.rear_downforce), *shape)
        return front, rear

    def axle_grips(self, speed: Any, acceleration: Any = 0.0) -> tuple[Any, Any]:
        """Largest horizontal force [N] of the front and the rear axle."""
        tyre = (self.friction, self.load_sensitivity, self.nominal_load)
        front, rear = self.axle_loads(speed, acceleration)
        return axle_grip(front, *tyre), axle_grip(rear, *tyre)

    def lateral_limit(self, speed: Any) -> Any:
        """Largest steady lateral acceleration [m/s2] at `speed`.

        In a steady turn the axles share the lateral force as they share the weight, so the axle that runs out of
        grip first sets the limit. The nose points inwards by the rear tyres' slip, so a part of the centripetal
        acceleration lies along the car and shifts load from the front axle to the rear one. A kinematic car is
        bound by its turn rate instead.
        """
        if self.kinematic and self.turn_rate > 0:
            return self.turn_rate * np.asarray(speed)
        front_share, rear_share = self.rear_length / self.wheelbase, self.front_length / self.wheelbase
        slip, squared = self.peak_slip(), np.maximum(np.asarray(speed, np.float64) ** 2, 1e-6)
        limit: Any = 0.0 * squared
        for _ in range(8):
            inwards = np.sin(np.maximum(slip - self.rear_length * limit / squared, 0.0))
            front, rear = self.axle_grips(speed, limit * inwards)
            limit = np.minimum(front / front_share, rear / rear_share) / self.mass
        return limit

    def peak_slip(self) -> float:
        """Slip angle [rad] at which the rear tyres give their largest lateral force."""
        if self.tyre_c <= 0:
            return 1.0 / self.rear_stiffness if self.rear_stiffness > 0 else 0.0
        slip = np.linspace(0.0, 0.6, 2401)
        x = self.tyre_b * slip
        curve = np.sin(self.tyre_c * np.arctan(x - self.tyre_e * (x - np.arctan(x))))
        return float(slip[np.argmax(curve)])


PARAMETER_INDEX: Mapping[str, int] = {field.name: index for index, field in enumerate(fields(CarParameters))}
PARAMETER_COUNT = len(PARAMETER_INDEX)


def _constant_power(mass: float, acceleration: float, switch_speed: float) -> dict[str, float]:
    force = mass * acceleration
    return {"drive_force": force, "power": force * switch_speed, "brake_force": force}


CARS: Mapping[str, CarParameters] = {
    "arcade": CarParameters(
        mass=800.0, yaw_inertia=800.0, front_length=1.2, rear_length=1.2, cg_height=0.0, friction=3.0,
        steer_limit=0.5, steer_rate=5.0, drive_force=8000.0, power=400_000.0, top_speed=30.0, brake_force=16_000.0,
        length=4.0, width=1.8, kinematic=1.0, turn_rate=1.2, reverse_speed=5.0, gear_scale=2.6,
    ),
    "f1tenth": CarParameters(
        mass=3.74, yaw_inertia=0.04712, front_length=0.15875, rear_length=0.17145, cg_height=0.074,
        friction=1.0489, front_stiffness=4.718, rear_stiffness=5.456, steer_limit=0.4189, steer_rate=3.2,
        **_constant_power(3.74, 9.51, 7.319), top_speed=20.0, length=0.58, width=0.31, blend_speed=0.8,
        reverse_speed=2.0, gear_scale=4.0,
    ),
    "gt": CarParameters(
        mass=1200.0, yaw_inertia=1200.0, front_length=1.6, rear_length=1.4, cg_height=0.38, friction=1.0,
        tyre_b=10.0, tyre_c=2.5, tyre_e=1.0, load_sensitivity=-0.1, nominal_load=3000.0, steer_limit=0.35,
        steer_rate=10.0, steer_lag=0.2, drive_force=7000.0, power=230_000.0, top_speed=90.0, brake_force=20_000.0,
        drag=0.75, front_downforce=0.45, rear_downforce=0.75, drive_front=0.0, length=4.7, width=2.0,
        blend_speed=2.0, reverse_speed=5.0,
    ),
    "road": CarParameters(
        mass=1093.3, yaw_inertia=1791.6, front_length=1.156, rear_length=1.423, cg_height=0.575, friction=1.0489,
        front_stiffness=20.9, rear_stiffness=20.9, steer_limit=1.066, steer_rate=0.4,
        **_constant_power(1093.3, 11.5, 7.319), top_speed=50.8, length=4.508, width=1.61, blend_speed=1.5,
        reverse_speed=5.0, gear_scale=1.6,
    ),
}  # fmt: skip


def load_car(name: str | CarParameters) -> CarParameters:
    """The preset of that name; a `CarParameters` passes through."""
    if isinstance(name, CarParameters):
        return name
    if name not in CARS:
        raise unknown_choice("car", name, CARS)
    return CARS[name]


def checked_ranges(ranges: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The ranges of a domain randomisation, with names and bounds checked."""
    for name, (low, high) in ranges.items():
        if name not in PARAMETER_INDEX:
            raise unknown_choice("car parameter", name, PARAMETER_INDEX)
        if not 0 < low <= high:
            raise InputError(f"the range of '{name}' is ({low}, {high}); give factors with 0 < low <= high.")
    return dict(ranges)

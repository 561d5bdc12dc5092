"""The single-track car: one substep for a block of LANES cars, written so that the compiler vectorises over cars.

All numbers of a block live in one flat buffer `lanes`, float32 [LANE_ROWS * LANES]: the parameters first, then the
state. The names in capitals are where a row begins. One buffer with constant offsets lets the compiler see that
nothing overlaps, which it needs to vectorise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.sim import layout as L
from paddock.sim.cars import car as laws
from paddock.sim.cars.car import GRAVITY, PARAMETER_COUNT, PARAMETER_INDEX
from paddock.sim.kernels.compile import inline, part
from paddock.sim.kernels.math import (
    HALF,
    ONE,
    ZERO,
    Real,
    arctangent,
    clip,
    cosine,
    hyperbolic_tangent,
    sine,
    small_turn,
)

Lanes = NDArray[np.float32]

MASS = L.LANES * PARAMETER_INDEX["mass"]
YAW_INERTIA = L.LANES * PARAMETER_INDEX["yaw_inertia"]
FRONT_LENGTH = L.LANES * PARAMETER_INDEX["front_length"]
REAR_LENGTH = L.LANES * PARAMETER_INDEX["rear_length"]
CG_HEIGHT = L.LANES * PARAMETER_INDEX["cg_height"]
FRICTION = L.LANES * PARAMETER_INDEX["friction"]
STEER_LIMIT = L.LANES * PARAMETER_INDEX["steer_limit"]
STEER_RATE = L.LANES * PARAMETER_INDEX["steer_rate"]
DRIVE_FORCE = L.LANES * PARAMETER_INDEX["drive_force"]
POWER = L.LANES * PARAMETER_INDEX["power"]
TOP_SPEED = L.LANES * PARAMETER_INDEX["top_speed"]
BRAKE_FORCE = L.LANES * PARAMETER_INDEX["brake_force"]
STEER_LAG = L.LANES * PARAMETER_INDEX["steer_lag"]
TYRE_B = L.LANES * PARAMETER_INDEX["tyre_b"]
TYRE_C = L.LANES * PARAMETER_INDEX["tyre_c"]
TYRE_E = L.LANES * PARAMETER_INDEX["tyre_e"]
LOAD_SENSITIVITY = L.LANES * PARAMETER_INDEX["load_sensitivity"]
NOMINAL_LOAD = L.LANES * PARAMETER_INDEX["nominal_load"]
FRONT_STIFFNESS = L.LANES * PARAMETER_INDEX["front_stiffness"]
REAR_STIFFNESS = L.LANES * PARAMETER_INDEX["rear_stiffness"]
DRAG = L.LANES * PARAMETER_INDEX["drag"]
FRONT_DOWNFORCE = L.LANES * PARAMETER_INDEX["front_downforce"]
REAR_DOWNFORCE = L.LANES * PARAMETER_INDEX["rear_downforce"]
ROLLING_RESISTANCE = L.LANES * PARAMETER_INDEX["rolling_resistance"]
DRIVE_FRONT = L.LANES * PARAMETER_INDEX["drive_front"]
TRACTION_LIMIT = L.LANES * PARAMETER_INDEX["traction_limit"]
BLEND_SPEED = L.LANES * PARAMETER_INDEX["blend_speed"]
REVERSE_SPEED = L.LANES * PARAMETER_INDEX["reverse_speed"]
KINEMATIC = L.LANES * PARAMETER_INDEX["kinematic"]
TURN_RATE = L.LANES * PARAMETER_INDEX["turn_rate"]

# The state rows of a lane buffer. COS and SIN are those of the heading, TURNED rad and MOVED_X, MOVED_Y m count
# from the start of the control step, so that single precision loses nothing on a large map.
(
    LANE_COS, LANE_SIN, LANE_TURNED, LANE_MOVED_X, LANE_MOVED_Y, LANE_VX, LANE_VY, LANE_YAW_RATE, LANE_STEER,
    LANE_AX, LANE_AY, LANE_STEER_COMMAND, LANE_THROTTLE, LANE_GRIP, LANE_RESISTANCE,
) = range(L.LANES * PARAMETER_COUNT, L.LANES * (PARAMETER_COUNT + 15), L.LANES)  # fmt: skip
LANE_ROWS = PARAMETER_COUNT + 15

TINY = np.float32(1e-6)
STANDING = np.float32(0.05)  # m/s, slower is standing
SLIP_FLOOR = np.float32(0.5)  # m/s, the least speed in the slip's denominator
SECANT_FLOOR = np.float32(0.01)  # m/s
BLEND_WIDTH = np.float32(0.25)  # of the blend speed
REVERSE_BAND = np.float32(0.1)  # of the top speed backwards, over which the reverse drive fades out
REVERSE_BLEND = np.float32(3.0)  # driving backwards stays kinematic up to about this many times that speed
ARCADE_TURN_SPEED = np.float32(3.0)  # m/s, below it a directly set turn rate falls to zero with the speed
TWO = np.float32(2.0)
UNBOUNDED = np.float32(1e6)

engine_force = inline(laws.engine_force)
quadratic_force = inline(laws.quadratic_force)
front_load = inline(laws.front_load)
rear_load = inline(laws.rear_load)
axle_grip = inline(laws.axle_grip)


@inline
def tyre_use(slip: Real, b: Real, c: Real, e: Real, stiffness: Real) -> Real:
    """Share of the grip used sideways at a slip angle [rad]: Pacejka's formula, or linear up to 1 where c is 0."""
    x = b * slip
    pacejka = sine(c * arctangent(x - e * (x - arctangent(x))))
    return pacejka if c > ZERO else clip(stiffness * slip, -ONE, ONE)


@inline
def pedal_force(
    throttle: Real, vx: Real, mass: Real, brake: Real, drive: Real, reverse: Real, reverse_speed: Real, h: Real
) -> tuple[Real, Real]:
    """(longitudinal force N, 1 if it drives and 0 if it brakes) for a throttle in [-1, 1].

    `drive` and `reverse` N are what the engine gives forwards and backwards at this speed. Brakes never push a car
    past standstill within a substep of `h` s.
    """
    stopping = mass * abs(vx) / h
    forwards = throttle * drive if vx > -STANDING else min(throttle * brake, stopping)
    fade = clip((reverse_speed + vx) / (reverse_speed * REVERSE_BAND), -ONE, ONE)
    holding = min(-throttle * brake, stopping)
    backwards = throttle * reverse * fade if fade > ZERO else -throttle * brake * -fade
    backwards = backwards if reverse > ZERO else holding if vx < ZERO else -holding
    slowing = -holding if vx > STANDING else backwards
    force = forwards if throttle >= ZERO else slowing
    drives = (throttle >= ZERO and vx > -STANDING) or (throttle < ZERO and vx <= STANDING)
    return force, ONE if drives else ZERO


@inline
def dynamic_weight(vx: Real, speed: Real, blend_speed: Real, reverse_speed: Real, kinematic: Real) -> Real:
    """1 where the dynamic model holds, 0 where the kinematic one does, a tanh over speed between."""
    backwards = clip(-vx / max(speed, TINY), ZERO, ONE)
    middle = blend_speed + backwards * max(REVERSE_BLEND * reverse_speed - blend_speed, ZERO)
    weight = HALF + HALF * hyperbolic_tangent((speed - middle) / (middle * BLEND_WIDTH))
    return weight if kinematic == ZERO else ZERO


@part
def substep(lanes: Lanes, h: Any, allow_reverse: Any) -> None:
    """Advance every lane by `h` s (float32).

    The turn of the car's frame is split in two exact half turns around the kick of the forces, so that turning
    neither makes nor eats energy. Lateral tyre forces are implicit (by their secant stiffness), which keeps every
    speed stable at any substep.
    """
    for j in range(L.LANES):
        vx, vy, yaw_rate, ax = lanes[LANE_VX + j], lanes[LANE_VY + j], lanes[LANE_YAW_RATE + j], lanes[LANE_AX + j]
        mass, inertia = lanes[MASS + j], lanes[YAW_INERTIA + j]
        front, rear = lanes[FRONT_LENGTH + j], lanes[REAR_LENGTH + j]
        throttle = lanes[LANE_THROTTLE + j]

        # The front wheels follow the command with a lag, no faster than their rate.
        steer = lanes[LANE_STEER + j]
        wanted_rate = (lanes[LANE_STEER_COMMAND + j] * lanes[STEER_LIMIT + j] - steer) / max(lanes[STEER_LAG + j], h)
        steer += h * clip(wanted_rate, -lanes[STEER_RATE + j], lanes[STEER_RATE + j])
        cos_steer, sin_steer = cosine(steer), sine(steer)

        # First half turn of the frame.
        turn_cos, turn_sin = small_turn(HALF * h * yaw_rate)
        cos_heading = lanes[LANE_COS + j] * turn_cos - lanes[LANE_SIN + j] * turn_sin
        sin_heading = lanes[LANE_SIN + j] * turn_cos + lanes[LANE_COS + j] * turn_sin
        start_vx, start_vy = vx, vy
        vx, vy = vx * turn_cos + vy * turn_sin, vy * turn_cos - vx * turn_sin
        speed = math.sqrt(vx * vx + vy * vy)

        # Loads and grip of the axles.
        front_fz = front_load(
            ax, quadratic_force(vx, lanes[FRONT_DOWNFORCE + j]), mass, front, rear, lanes[CG_HEIGHT + j]
        )
        rear_fz = rear_load(ax, quadratic_force(vx, lanes[REAR_DOWNFORCE + j]), mass, front, rear, lanes[CG_HEIGHT + j])
        friction = lanes[FRICTION + j] * lanes[LANE_GRIP + j]
        front_grip = axle_grip(front_fz, friction, lanes[LOAD_SENSITIVITY + j], lanes[NOMINAL_LOAD + j])
        rear_grip = axle_grip(rear_fz, friction, lanes[LOAD_SENSITIVITY + j], lanes[NOMINAL_LOAD + j])

        # Longitudinal forces, within a share of the grip of each axle.
        drive = engine_force(vx, lanes[DRIVE_FORCE + j], lanes[POWER + j], lanes[TOP_SPEED + j])
        pedal, drives = pedal_force(
            throttle, vx, mass, lanes[BRAKE_FORCE + j], drive, allow_reverse * lanes[DRIVE_FORCE + j],
            lanes[REVERSE_SPEED + j], h,
        )  # fmt: skip
        load_share = front_fz / max(front_fz + rear_fz, TINY)
        front_share = lanes[DRIVE_FRONT + j] if drives > ZERO and lanes[DRIVE_FRONT + j] >= ZERO else load_share
        front_bound, rear_bound = lanes[TRACTION_LIMIT + j] * front_grip, lanes[TRACTION_LIMIT + j] * rear_grip
        front_fx = clip(pedal * front_share, -front_bound, front_bound)
        rear_fx = clip(pedal * (ONE - front_share), -rear_bound, rear_bound)

        # Lateral forces: slip in the frame of the wheel, for any direction of travel; friction ellipse.
        front_vy = start_vy + front * yaw_rate
        rear_vy = start_vy - rear * yaw_rate
        wheel_vx = max(abs(start_vx * cos_steer + front_vy * sin_steer), SLIP_FLOOR)
        wheel_vy = front_vy * cos_steer - start_vx * sin_steer
        rear_vx = max(abs(start_vx), SLIP_FLOOR)
        b, c, e = lanes[TYRE_B + j], lanes[TYRE_C + j], lanes[TYRE_E + j]
        front_use = front_fx / max(front_grip, TINY)
        rear_use = rear_fx / max(rear_grip, TINY)
        front_left = front_grip * math.sqrt(max(ONE - front_use * front_use, ZERO))
        rear_left = rear_grip * math.sqrt(max(ONE - rear_use * rear_use, ZERO))
        front_fy = front_left * tyre_use(-arctangent(wheel_vy / wheel_vx), b, c, e, lanes[FRONT_STIFFNESS + j])
        rear_fy = rear_left * tyre_use(-arctangent(rear_vy / rear_vx), b, c, e, lanes[REAR_STIFFNESS + j])

        # Resistance acts against the motion of the whole car.
        resistance = lanes[ROLLING_RESISTANCE + j] + lanes[LANE_RESISTANCE + j]
        rolling = min(resistance * GRAVITY, speed / h) / max(speed, TINY)
        slowing = rolling + lanes[DRAG + j] * speed / mass

        # Kick: implicit in sideways speed and yaw rate, over the whole substep; its turn takes `turning` m/s off vy.
        weight = dynamic_weight(vx, speed, lanes[BLEND_SPEED + j], lanes[REVERSE_SPEED + j], lanes[KINEMATIC + j])
        initial = b * c if c > ZERO else lanes[FRONT_STIFFNESS + j]
        front_s = (abs(front_fy) + front_left * initial / wheel_vx * SECANT_FLOOR) / (abs(wheel_vy) + SECANT_FLOOR)
        initial = b * c if c > ZERO else lanes[REAR_STIFFNESS + j]
        rear_s = (abs(rear_fy) + rear_left * initial / rear_vx * SECANT_FLOOR) / (abs(rear_vy) + SECANT_FLOOR)
        front_k = front_s * cos_steer * cos_steer
        a11 = mass / h + front_k + rear_s
        a12 = front * front_k - rear * rear_s
        a22 = inertia / h + front * front * front_k + rear * rear * rear_s
        turning = h * yaw_rate * start_vx
        lateral_front = front_fy * cos_steer + front_fx * sin_steer
        force_y = lateral_front + rear_fy - slowing * mass * vy + (front_k + rear_s) * turning
        moment = front * lateral_front - rear * rear_fy + a12 * turning
        scale = ONE / (a11 * a22 - a12 * a12)
        gain_vy = (a22 * force_y - a12 * moment) * scale - turning
        gain_yaw = (a11 * moment - a12 * force_y) * scale

        # The forces at the end of the substep, which the grip bounds as well.
        front_fy = clip(front_fy - front_s * cos_steer * (gain_vy + front * gain_yaw), -front_left, front_left)
        rear_fy = clip(rear_fy - rear_s * (gain_vy - rear * gain_yaw), -rear_left, rear_left)
        lateral_front = front_fy * cos_steer + front_fx * sin_steer
        dynamic_vy = vy + h * ((lateral_front + rear_fy) / mass - slowing * vy)
        dynamic_yaw = yaw_rate + h * (front * lateral_front - rear * rear_fy) / inertia

        force_x = rear_fx + front_fx * cos_steer - weight * front_fy * sin_steer
        new_ax = force_x / mass - slowing * vx
        new_vx = vx + h * (new_ax - (ONE - weight) * vy * yaw_rate)
        stopped = throttle < ZERO and vx > STANDING and new_vx < ZERO
        new_vx = ZERO if stopped else new_vx

        # Low speed: pulled to rolling without slip, no harder than the tyres can pull. A kinematic car never slides.
        turn_rate = lanes[TURN_RATE + j]
        rolling_yaw = new_vx * sin_steer / (cos_steer * (front + rear))
        set_yaw = turn_rate * steer / lanes[STEER_LIMIT + j] * clip(new_vx / ARCADE_TURN_SPEED, -ONE, ONE)
        yaw_bound = friction * GRAVITY / max(abs(new_vx), TINY)
        wanted_yaw = set_yaw if turn_rate > ZERO else clip(rolling_yaw, -yaw_bound, yaw_bound)
        pull = friction * GRAVITY * h if lanes[KINEMATIC + j] == ZERO else UNBOUNDED
        yaw_pull = pull * mass * TWO * front * rear / ((front + rear) * inertia)
        kinematic_vy = vy + clip(rear * wanted_yaw - vy, -pull, pull)
        kinematic_yaw = yaw_rate + clip(wanted_yaw - yaw_rate, -yaw_pull, yaw_pull)
        new_vy = weight * dynamic_vy + (ONE - weight) * kinematic_vy
        new_yaw = weight * dynamic_yaw + (ONE - weight) * kinematic_yaw

        # Drift with the mean velocity, then the second half turn.
        mean_vx, mean_vy = HALF * (vx + new_vx), HALF * (vy + new_vy)
        lanes[LANE_MOVED_X + j] += h * (mean_vx * cos_heading - mean_vy * sin_heading)
        lanes[LANE_MOVED_Y + j] += h * (mean_vx * sin_heading + mean_vy * cos_heading)
        lanes[LANE_AX + j] = new_ax
        lanes[LANE_AY + j] = (new_vy - vy) / h
        turn_cos, turn_sin = small_turn(HALF * h * new_yaw)
        lanes[LANE_COS + j] = cos_heading * turn_cos - sin_heading * turn_sin
        lanes[LANE_SIN + j] = sin_heading * turn_cos + cos_heading * turn_sin
        lanes[LANE_TURNED + j] += HALF * h * (yaw_rate + new_yaw)
        lanes[LANE_VX + j] = new_vx * turn_cos + new_vy * turn_sin
        lanes[LANE_VY + j] = new_vy * turn_cos - new_vx * turn_sin
        lanes[LANE_YAW_RATE + j] = new_yaw
        lanes[LANE_STEER + j] = steer

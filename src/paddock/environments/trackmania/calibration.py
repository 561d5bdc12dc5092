"""How the game bends the stick: measured by sweeping it, and undone from then on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paddock.core.errors import InputError
from paddock.core.files import replace_file
from paddock.core.reading import DamagedError, read_json
from paddock.environments.realtime.clock import Clock
from paddock.environments.trackmania.pad import Pad
from paddock.environments.trackmania.telemetry import Telemetry

POSITIONS = 41
SETTLE_SECONDS = 0.1
LEAST_REACH = 0.5  # of the steering input, to either side: less is a pad that does not reach the game


@dataclass(frozen=True)
class SteeringCurve:
    """Steering inputs `applied` that the game made of the stick's positions `stick`, both from -1 to 1, rising."""

    stick: tuple[float, ...]
    applied: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = {len(self.stick), len(self.applied)}
        values = np.array([*self.stick, *self.applied], np.float64)
        if len(sizes) != 1 or len(self.stick) < 3 or not (np.isfinite(values) & (np.abs(values) <= 1.001)).all():
            raise InputError("a steering curve has equally many positions and inputs, at least 3, from -1 to 1.")
        if (np.diff(self.stick) <= 0).any() or (np.diff(self.applied) < -1e-3).any():
            raise InputError("a steering curve has to rise from left to right.")

    def stick_for(self, steer: float) -> float:
        """Where the stick has to be for the game to steer by `steer`. In a dead zone: its middle."""
        if abs(steer) < 1e-3:
            return 0.0
        applied = np.maximum.accumulate(self.applied)
        # Of a flat piece only the end towards the lock counts.
        kept = np.append(np.diff(applied) > 1e-4, True) if steer > 0 else np.append(True, np.diff(applied) > 1e-4)
        return float(np.interp(steer, applied[kept], np.array(self.stick)[kept]))


def measure_steering(pad: Pad, telemetry: Telemetry, clock: Clock, positions: int = POSITIONS) -> SteeringCurve:
    """Sweep the stick from left to right in a race, and read the steering input back."""
    stick = np.linspace(-1.0, 1.0, positions)
    applied = []
    for value in stick.tolist():
        pad.apply(0.0, 0.0, value)
        clock.sleep(SETTLE_SECONDS)
        packet = telemetry.newest
        if packet is None or telemetry.age > 1.0:
            raise InputError(f"the steering cannot be measured: {telemetry.problem}")
        applied.append(min(max(packet.steer, -1.0), 1.0))
    pad.apply(0.0, 0.0, 0.0)
    if applied[0] > -LEAST_REACH or applied[-1] < LEAST_REACH:
        raise InputError(
            f"the stick from -1 to 1 gave steering inputs from {applied[0]:.2f} to {applied[-1]:.2f}: the pad does not "
            "reach the game, or the game is not in a race."
        )
    return SteeringCurve(tuple(stick.tolist()), tuple(applied))


def save_curve(curve: SteeringCurve, path: Path) -> None:
    """As JSON."""
    text = json.dumps({"stick": curve.stick, "applied": curve.applied}, indent=2)
    replace_file(path, text.encode() + b"\n")


def load_curve(path: Path) -> SteeringCurve:
    """What `save_curve` wrote."""
    values = read_json(path, limit=2**20)
    try:
        stick, applied = ([float(value) for value in values[name]] for name in ("stick", "applied"))
        return SteeringCurve(tuple(stick), tuple(applied))
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(path, f"it is no steering curve ({error})") from error

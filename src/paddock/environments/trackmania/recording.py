"""Trajectories that were driven: by a person in the game or a twin, or by the classical driver in the simulator."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from paddock.core.errors import PaddockError
from paddock.environments.trackmania.packets import Packet
from paddock.environments.trackmania.pad import Button
from paddock.environments.trackmania.telemetry import Telemetry
from paddock.environments.trackmania.trajectory import Trajectory, resample
from paddock.environments.trackmania.twin.game import TwinGame, TwinSettings
from paddock.sim.reference.classical_laps import ClassicalDrivers
from paddock.sim.reference.lap import reference_lap

MOVES = 1.0  # m/s from which a car has started
STEADY = 20.0  # m between two packets, beyond which the car was put back to the start
LEAST_LENGTH = 10.0  # m of a race worth keeping
DRIVEN_FRAMES = 120 * 60 * 20  # of the classical driver at most: 20 minutes
LISTEN_SECONDS = 0.5


class RecordingError(PaddockError):
    """A drive that gives no trajectory."""


class RaceRecorder:
    """Takes packets one by one. It waits for the start, and begins anew when the car is put back to it."""

    def __init__(self) -> None:
        self._path: list[tuple[float, float, float]] = []
        self._standing: tuple[float, float, float] | None = None
        self.is_complete = False

    @property
    def metres(self) -> float:
        """Recorded so far."""
        return float(np.linalg.norm(np.diff(self._path, axis=0), axis=1).sum()) if len(self._path) > 1 else 0.0

    def add(self, packet: Packet) -> None:
        """A further packet; those of a finish that was there before the start are passed over."""
        if self.is_complete:
            return
        here = packet.position
        if self._path and np.linalg.norm(np.subtract(here, self._path[-1])) > STEADY:
            self._path, self._standing = [], None  # A restart.
        if not self._path:
            self._wait_for_start(packet)
        else:
            self._path.append(here)
            self.is_complete = packet.is_finished

    def trajectory(self, name: str) -> Trajectory:
        """From the start to the finish, points 0.1 m apart."""
        if not self.is_complete or self.metres < LEAST_LENGTH:
            raise RecordingError(f"no race was driven from its start to its finish; {self.metres:.0f} m were recorded.")
        return Trajectory(resample(self._path), name)

    def _wait_for_start(self, packet: Packet) -> None:
        if packet.is_finished:
            self._standing = None
        elif packet.speed < MOVES:
            self._standing = packet.position
        elif self._standing is not None:
            self._path = [self._standing, packet.position]


def record_race(
    telemetry: Telemetry, name: str, seconds: float, on_progress: Callable[[float, str], None]
) -> Trajectory:
    """Follow telemetry until a race that began from standing is finished, at most so many seconds.

    on_progress: gets the metres recorded, and what is the matter if nothing comes.
    """
    recorder, number = RaceRecorder(), 0
    deadline = time.monotonic() + seconds
    while not recorder.is_complete:
        if time.monotonic() > deadline:
            raise RecordingError(f"no race was finished within {seconds:g} s.")
        if telemetry.wait(number, LISTEN_SECONDS) is None:
            on_progress(recorder.metres, telemetry.problem)
            continue
        for packet in telemetry.since(number):
            recorder.add(packet)
            number = packet.number
        on_progress(recorder.metres, "")
    return recorder.trajectory(name)


def drive_and_record(settings: TwinSettings) -> tuple[Trajectory, float]:
    """A race of the classical driver on a twin in lock-step, and its lap time, s."""
    game, recorder = TwinGame(settings), RaceRecorder()
    drivers = ClassicalDrivers(
        lambda _: reference_lap(game.track, settings.car), settings.car, time_step=1.0 / settings.frame_rate
    )
    for _ in range(DRIVEN_FRAMES):
        steer, throttle = drivers.act(game.world)[0].tolist()
        game.use_pad(Button(0), (max(0.0, throttle), max(0.0, -throttle), -steer))
        game.frame()
        recorder.add(game.telemetry())
        if recorder.is_complete:
            return recorder.trajectory(game.track.name), game.lap_time
    raise RecordingError(f"the classical driver did not finish '{settings.track}'.")

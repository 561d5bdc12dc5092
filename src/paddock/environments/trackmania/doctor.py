"""What is wrong between this machine and the game: telemetry, window, pad, time, trajectory, one after another."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paddock.core.errors import PaddockError
from paddock.core.findings import Finding
from paddock.environments.realtime.clock import WallClock
from paddock.environments.trackmania.calibration import measure_steering, save_curve
from paddock.environments.trackmania.link import PADS
from paddock.environments.trackmania.pad import Button, LoopbackPad, Pad, press
from paddock.environments.trackmania.screen import Screen, ScreenError, SharedScreen, WindowScreen
from paddock.environments.trackmania.telemetry import PORT, TcpTelemetry
from paddock.environments.trackmania.trajectory import load_trajectory
from paddock.environments.trackmania.twin.process import TwinError, ask_twin
from paddock.environments.trackmania.window import WindowError

# Exit codes.
UNREACHABLE, SILENT, UNKNOWN_PROTOCOL, STALLED, DROPPED, FINISHED = 20, 21, 22, 23, 24, 25
NO_WINDOW, WRONG_SIZE, SLOW_FRAMES, SLOW_CAPTURE = 26, 27, 28, 29
NO_PAD, PAD_WITHOUT_EFFECT, DIALOG, NO_RESTART, SECOND_RESTART = 30, 31, 32, 33, 34
NO_TRAJECTORY, OTHER_MAP = 35, 36

CONNECT_SECONDS = 3.0
LISTEN_SECONDS = 1.5
COUNTDOWN_SECONDS = 2.0  # from a restart until the car can move
REACT_SECONDS = 0.4
DRIVE_SECONDS = 1.5
BACK_SECONDS = 1.5
SHARE_OF_STEP = 0.4  # of a time-step that a capture may take
GRABS = 20
START_RADIUS = 10.0  # m


@dataclass
class Examination:
    """What to look at. game: trackmania or twin. calibrate: where a steering curve is written."""

    game: str = "trackmania"
    port: int | None = None
    width: int = 256
    height: int = 128
    pad: str = "gamepad"
    step_time: float = 0.05
    trajectory: Path | None = None
    calibrate: Path | None = None


def examine_game(wanted: Examination) -> Iterator[Finding]:
    """Findings as they are made; the first fault ends the examination, because what follows rests on it."""
    telemetry = TcpTelemetry(wanted.port or PORT)
    closing: list[Callable[[], None]] = [telemetry.close]
    patient = _Patient(wanted, telemetry, closing)
    try:
        for check in (_reach, _listen, _look, _find_pad, _steer, _restart, _trajectory, _calibrate):
            for finding in check(patient):
                yield finding
                if finding.level == "fault":
                    return
    finally:
        for close in reversed(closing):
            close()


class _Patient:
    """The game as far as it has been examined."""

    def __init__(self, wanted: Examination, telemetry: TcpTelemetry, closing: list[Callable[[], None]]) -> None:
        self.wanted, self.telemetry, self.closing = wanted, telemetry, closing
        self.clock = WallClock()
        self.screen: Screen | None = None
        self.pad: Pad | None = None
        self.addresses: dict = {}

    def steers(self) -> bool:
        """Whether full lock to both sides is read back."""
        assert self.pad is not None
        seen = []
        for steer in (1.0, -1.0):
            self.pad.apply(0.0, 0.0, steer)
            time.sleep(REACT_SECONDS)
            packet = self.telemetry.newest
            seen.append(0.0 if packet is None else packet.steer)
        self.pad.apply(0.0, 0.0, 0.0)
        return seen[0] > 0.5 and seen[1] < -0.5

    def press(self, button: Button) -> None:
        assert self.pad is not None
        press(self.pad, button, self.clock)


def _fault(subject: str, code: int, sentence: str, fix: str) -> Finding:
    return Finding(subject, "fault", sentence, fix, code)


def _reach(patient: _Patient) -> Iterator[Finding]:
    """Is anything there, and does it speak a known protocol?"""
    telemetry, where = patient.telemetry, f"port {patient.telemetry.address[1]}"
    deadline = time.monotonic() + CONNECT_SECONDS
    while telemetry.newest is None and time.monotonic() < deadline:
        telemetry.wait(0, 0.1)
        if "known format" in telemetry.problem:
            fix = "Install the plugin 'TMRL Grab Data' in Openplanet, and disable others that use its port."
            yield _fault("telemetry", UNKNOWN_PROTOCOL, f"What comes from {where} is no plugin's telemetry.", fix)
            return
        if telemetry.connections > 3:
            fix = "Close other programs that read the telemetry: the plugin serves one at a time."
            yield _fault("telemetry", DROPPED, f"The game closes every connection to {where} at once.", fix)
            return
    if telemetry.connections == 0:
        fix = "Start the game, load the plugin 'TMRL Grab Data' (Openplanet menu F3, Plugins), and enter a map."
        yield _fault("telemetry", UNREACHABLE, f"Nothing listens on {where}.", fix)
    elif telemetry.newest is None:
        fix = "Enter a map, and leave menus: the plugin only sends while a car is on a track."
        yield _fault("telemetry", SILENT, f"The game is connected on {where} and sends nothing.", fix)
    else:
        form = telemetry.format
        name = "unknown" if form is None else f"{form.name}, {form.floats} floats a frame"
        yield Finding("telemetry", "ok", f"The game sends {name}.")


def _listen(patient: _Patient) -> Iterator[Finding]:
    """Does it go on, and how fast?"""
    telemetry = patient.telemetry
    first = telemetry.newest
    assert first is not None
    time.sleep(LISTEN_SECONDS)
    newest = telemetry.newest
    assert newest is not None
    rate = (newest.number - first.number) / LISTEN_SECONDS
    if telemetry.age > 0.5:
        fix = "See whether the game hangs, has lost the focus or was paused; Openplanet's log names plugin errors."
        yield _fault("telemetry", STALLED, f"Telemetry came and stopped {telemetry.age:.1f} s ago.", fix)
    elif rate < 1.0 / patient.wanted.step_time:
        fix = "Lower the game's graphics, cap its frame rate at 60, or set a longer environment.time_step_duration."
        sentence = f"The game draws {rate:.0f} frames a second, fewer than one per time-step."
        yield _fault("frames", SLOW_FRAMES, sentence, fix)
    elif newest.is_finished:
        fix = "Close the dialog and restart the race."
        yield _fault("race", FINISHED, "The race is over: the finish is shown.", fix)
    else:
        yield Finding("frames", "ok", f"The game draws {rate:.0f} frames a second.")


def _look(patient: _Patient) -> Iterator[Finding]:
    """Is the picture there, of the right size, and quickly?"""
    wanted = patient.wanted
    try:
        patient.screen = _screen(patient)
        patient.closing.append(patient.screen.close)
        shape = patient.screen.grab().shape
    except (WindowError, ScreenError, TwinError) as error:
        yield _fault("window", NO_WINDOW, str(error), "Start the game in a window; on Linux in an X11 session.")
        return
    except PaddockError as error:
        code = WRONG_SIZE if "pixels" in str(error) else NO_WINDOW
        yield _fault("window", code, str(error), "Resize the window, or say its size with --width and --height.")
        return
    if shape != (wanted.height, wanted.width, 3):
        sentence = f"The picture has {shape[1]}x{shape[0]} pixels, and {wanted.width}x{wanted.height} are expected."
        yield _fault("window", WRONG_SIZE, sentence, "Resize the window, or say its size with --width and --height.")
        return
    took = []
    for _ in range(GRABS):
        began = time.perf_counter()
        patient.screen.grab()
        took.append(time.perf_counter() - began)
    worst = 1_000 * float(np.percentile(took, 90))
    if worst > 1_000 * SHARE_OF_STEP * wanted.step_time:
        sentence = f"A picture takes {worst:.0f} ms, too much of a time-step of {1_000 * wanted.step_time:.0f} ms."
        yield _fault("capture", SLOW_CAPTURE, sentence, "Make the window smaller, or the time-steps longer.")
    else:
        yield Finding("capture", "ok", f"A picture of {shape[1]}x{shape[0]} pixels takes {worst:.1f} ms.")


def _screen(patient: _Patient) -> Screen:
    wanted = patient.wanted
    if wanted.game == "trackmania":
        return WindowScreen(wanted.width, wanted.height)
    control = (wanted.port or PORT) + 1
    patient.addresses = ask_twin(control, "describe")
    return SharedScreen(Path(patient.addresses["screen"]))


def _find_pad(patient: _Patient) -> Iterator[Finding]:
    try:
        if patient.wanted.game == "twin":
            patient.pad = LoopbackPad(int(patient.addresses["pad"]))
        else:
            patient.pad = PADS[patient.wanted.pad]()
    except Exception as error:  # Drivers raise what they like.
        fix = (
            "Install ViGEmBus (it comes with vgamepad's installer)."
            if sys.platform == "win32"
            else "Allow your user to write to /dev/uinput, and install libevdev; or use --pad keyboard."
        )
        yield _fault("pad", NO_PAD, f"No {patient.wanted.pad} can be made: {error}", fix)
        return
    patient.closing.append(patient.pad.close)
    yield Finding("pad", "ok", f"A {patient.wanted.pad} is there.")


def _steer(patient: _Patient) -> Iterator[Finding]:
    """Does the pad move the steering input, and if not, what helps?"""
    for pause in (0.0, COUNTDOWN_SECONDS):
        time.sleep(pause)
        if patient.steers():
            yield Finding("steering", "ok", "The pad moves the car's steering input.")
            return
    patient.press(Button.CONFIRM)
    time.sleep(COUNTDOWN_SECONDS)
    if patient.steers():
        fix = "It is closed now. Training closes dialogs by itself."
        yield _fault("steering", DIALOG, "A dialog kept the pad away from the car until it was confirmed.", fix)
        return
    fix = (
        "Give the game's window the focus; select the virtual pad in the game's input settings; make sure that no "
        "other pad is bound."
    )
    yield _fault("steering", PAD_WITHOUT_EFFECT, "The pad does not move the car's steering input.", fix)


def _restart(patient: _Patient) -> Iterator[Finding]:
    """Drive off, and see whether the restart button brings the car back."""
    assert patient.pad is not None
    assert patient.telemetry.newest is not None
    for attempt in range(2):
        patient.pad.apply(1.0, 0.0, 0.0)
        time.sleep(DRIVE_SECONDS)
        patient.pad.apply(0.0, 0.0, 0.0)
        patient.press(Button.RESTART)
        if _has_restarted(patient):
            break
        if attempt == 0:
            patient.press(Button.CONFIRM)
    else:
        fix = "Bind 'give up' or 'restart' to button B of the pad (Delete on the keyboard) in the game's settings."
        yield _fault("restart", NO_RESTART, "The restart button does not bring the car back to the start.", fix)
        return
    if attempt:
        fix = "Training tries again by itself; if it happens often, lower the load of the machine."
        yield _fault("restart", SECOND_RESTART, "The first press of the restart button had no effect.", fix)
        return
    time.sleep(COUNTDOWN_SECONDS)
    yield Finding("restart", "ok", "The restart button brings the car back to the start.")


def _has_restarted(patient: _Patient) -> bool:
    """Whether the car jumps to a place where it stands: one packet apart it is elsewhere."""
    began = patient.telemetry.newest
    assert began is not None
    deadline = time.monotonic() + BACK_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.05)
        newest = patient.telemetry.newest
        assert newest is not None
        is_new = newest.race_time is not None and newest.race_time < 0.5
        is_short = math.isfinite(newest.distance) and newest.distance < 0.5
        if newest.speed < 0.5 and (is_new or is_short):
            return True
    return False


def _trajectory(patient: _Patient) -> Iterator[Finding]:
    """Does the trajectory begin where the car stands?"""
    path = patient.wanted.trajectory
    if path is None:
        yield Finding("trajectory", "note", "No trajectory was given.", "Record one: paddock record trajectory FILE.")
        return
    try:
        trajectory = load_trajectory(path)
    except PaddockError as error:
        yield _fault("trajectory", NO_TRAJECTORY, str(error), "Record one: paddock record trajectory FILE.")
        return
    packet = patient.telemetry.newest
    assert packet is not None
    away = math.dist(packet.position, trajectory.points[0].tolist())
    if away > START_RADIUS:
        sentence = f"The trajectory begins {away:.0f} m from the car at its start: it is of another map."
        yield _fault("trajectory", OTHER_MAP, sentence, "Record one on this map: paddock record trajectory FILE.")
    else:
        yield Finding("trajectory", "ok", f"The trajectory of {trajectory.length:,.0f} m begins at the car.")


def _calibrate(patient: _Patient) -> Iterator[Finding]:
    path = patient.wanted.calibrate
    if path is None:
        return
    assert patient.pad is not None
    curve = measure_steering(patient.pad, patient.telemetry, patient.clock)
    save_curve(curve, path)
    straight = max(abs(stick - applied) for stick, applied in zip(curve.stick, curve.applied, strict=True))
    fix = f"Use it: environment.calibration={path}"
    yield Finding("calibration", "ok", f"The game bends the stick by up to {straight:.2f}; written to {path}.", fix)

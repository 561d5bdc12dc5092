"""What the game is steered with: the protocol, a pad of loopback datagrams for the twin, and a virtual gamepad."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from enum import IntFlag
from typing import Any, Protocol

from paddock.core.lazy import require
from paddock.environments.realtime.clock import Clock

PRESS_SECONDS = 0.1
STRONG_RUMBLE = 100  # of 255, from which the large motor tells of a collision
MAGIC = b"PAD1"
DATAGRAM = struct.Struct("<4sBfff")  # magic, buttons, gas, brake, steer
RUMBLE = struct.Struct("<4sB")  # magic, strength; the twin's answer to a collision


class Button(IntFlag):
    """RESTART is B of a gamepad or Delete; CONFIRM is A or Return."""

    RESTART = 1
    CONFIRM = 2


class Pad(Protocol):
    """gas and brake from 0 to 1, steer from -1 to 1, right positive. What was applied stays until the next call."""

    def apply(self, gas: float, brake: float, steer: float) -> None: ...

    def hold(self, buttons: Button) -> None:
        """Hold exactly these buttons down."""

    def rumbled(self) -> bool:
        """Whether the pad has rumbled as in a collision since the last call; False where it cannot rumble."""

    def close(self) -> None: ...


def press(pad: Pad, button: Button, clock: Clock, seconds: float = PRESS_SECONDS) -> None:
    """Hold a button down for a moment."""
    pad.hold(button)
    clock.sleep(seconds)
    pad.hold(Button(0))


class LoopbackPad:
    """Datagrams to a twin on this machine. Each holds the whole state, so a lost one is made up for by the next."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._axes = (0.0, 0.0, 0.0)
        self._buttons = Button(0)

    def apply(self, gas: float, brake: float, steer: float) -> None:
        self._axes = (gas, brake, steer)
        self._send()

    def hold(self, buttons: Button) -> None:
        self._buttons = buttons
        self._send()

    def rumbled(self) -> bool:
        strongest = 0
        while True:
            try:
                answer = self._socket.recv(RUMBLE.size)
            except (BlockingIOError, ConnectionRefusedError):
                return strongest > STRONG_RUMBLE
            if len(answer) == RUMBLE.size and answer[:4] == MAGIC:
                strongest = max(strongest, answer[4])

    def close(self) -> None:
        self._socket.close()

    def _send(self) -> None:
        # A twin that restarts takes nothing; its telemetry tells.
        with suppress(BlockingIOError, ConnectionRefusedError):
            self._socket.send(DATAGRAM.pack(MAGIC, int(self._buttons), *self._axes))


def read_datagram(data: bytes) -> tuple[Button, tuple[float, float, float]] | None:
    """Buttons and (gas, brake, steer) of a datagram, cut to their ranges; None for other bytes."""
    if len(data) != DATAGRAM.size or data[:4] != MAGIC:
        return None
    _, buttons, gas, brake, steer = DATAGRAM.unpack(data)
    if not all(abs(value) < 1e6 for value in (gas, brake, steer)):  # also not for NaN
        return None
    return Button(buttons & 3), (min(max(gas, 0.0), 1.0), min(max(brake, 0.0), 1.0), min(max(steer, -1.0), 1.0))


class VirtualGamepad:
    """An Xbox 360 pad that the system takes for a real one: ViGEmBus on Windows, uinput on Linux."""

    def __init__(self) -> None:
        vgamepad = require("vgamepad", extra="trackmania", purpose="a virtual gamepad")
        buttons = vgamepad.XUSB_BUTTON
        self._buttons = {
            Button.RESTART: buttons.XUSB_GAMEPAD_B,
            Button.CONFIRM: buttons.XUSB_GAMEPAD_A,
        }
        self._pad = vgamepad.VX360Gamepad()
        self._strongest = 0
        if hasattr(self._pad, "register_notification"):
            self._pad.register_notification(callback_function=self._felt)

    def apply(self, gas: float, brake: float, steer: float) -> None:
        self._pad.right_trigger_float(value_float=gas)
        self._pad.left_trigger_float(value_float=brake)
        self._pad.left_joystick_float(x_value_float=steer, y_value_float=0.0)
        self._pad.update()

    def hold(self, buttons: Button) -> None:
        for button, code in self._buttons.items():
            change = self._pad.press_button if button in buttons else self._pad.release_button
            change(button=code)
        self._pad.update()

    def rumbled(self) -> bool:
        strongest, self._strongest = self._strongest, 0
        return strongest > STRONG_RUMBLE

    def close(self) -> None:
        self._pad.reset()
        self._pad.update()

    def _felt(self, client: Any, target: Any, large_motor: int, small_motor: int, *_: Any) -> None:
        self._strongest = max(self._strongest, large_motor)

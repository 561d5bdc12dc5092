"""Keys in place of a pad, for machines without a virtual gamepad: full gas, full brake, full lock or nothing."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from paddock.core.errors import InputError
from paddock.environments.trackmania.pad import Button

STEER_FROM = 0.5  # steer beyond which a key is held


class Keys(Protocol):
    """Holds and releases keys by the names of `NAMES`."""

    def set(self, name: str, is_down: bool) -> None: ...

    def close(self) -> None: ...


NAMES = ("gas", "brake", "left", "right", "restart", "confirm")


def held_keys(gas: float, brake: float, steer: float, buttons: Button) -> set[str]:
    """The keys that stand for these axes and buttons."""
    wanted = {
        "gas": gas > 0.0,
        "brake": brake > 0.0,
        "left": steer < -STEER_FROM,
        "right": steer > STEER_FROM,
        "restart": Button.RESTART in buttons,
        "confirm": Button.CONFIRM in buttons,
    }
    return {name for name, is_down in wanted.items() if is_down}


class Keyboard:
    """A pad of keys; only what changes is sent."""

    def __init__(self, keys: Keys | None = None) -> None:
        self._keys = keys or system_keys()
        self._axes = (0.0, 0.0, 0.0)
        self._buttons = Button(0)
        self._held: set[str] = set()

    def apply(self, gas: float, brake: float, steer: float) -> None:
        self._axes = (gas, brake, steer)
        self._send()

    def hold(self, buttons: Button) -> None:
        self._buttons = buttons
        self._send()

    def rumbled(self) -> bool:
        return False

    def close(self) -> None:
        self._axes, self._buttons = (0.0, 0.0, 0.0), Button(0)
        self._send()
        self._keys.close()

    def _send(self) -> None:
        wanted = held_keys(*self._axes, self._buttons)
        for name in sorted(wanted ^ self._held):
            self._keys.set(name, name in wanted)
        self._held = wanted


def system_keys() -> Keys:
    """The keys of this machine's windows."""
    if sys.platform == "win32":
        return WindowsKeys()
    if sys.platform.startswith("linux"):
        return X11Keys()
    raise InputError(f"keys cannot be sent on '{sys.platform}'; use environment.pad=gamepad.")


class X11Keys:
    """Keys through X11's XTEST extension, to the window with the focus."""

    SYMBOLS: Mapping[str, bytes] = {
        "gas": b"Up", "brake": b"Down", "left": b"Left", "right": b"Right",
        "restart": b"BackSpace", "confirm": b"Return",
    }  # fmt: skip

    def __init__(self, display: str | None = None) -> None:
        self._x, self._test = _library("X11"), _library("Xtst")
        self._x.XOpenDisplay.restype = ctypes.c_void_p
        self._x.XStringToKeysym.restype = ctypes.c_ulong
        self._x.XKeysymToKeycode.argtypes = [ctypes.c_void_p, ctypes.c_ulong]
        self._x.XFlush.argtypes = self._x.XCloseDisplay.argtypes = [ctypes.c_void_p]
        self._test.XTestFakeKeyEvent.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_ulong]
        self._display = self._x.XOpenDisplay(display.encode() if display else None)
        if not self._display:
            raise InputError(
                "no X11 display can be opened to send keys to; set DISPLAY, or use environment.pad=gamepad."
            )
        self._codes = {
            name: self._x.XKeysymToKeycode(self._display, self._x.XStringToKeysym(symbol)) & 0xFF
            for name, symbol in self.SYMBOLS.items()
        }

    def set(self, name: str, is_down: bool) -> None:
        self._test.XTestFakeKeyEvent(self._display, self._codes[name], int(is_down), 0)
        self._x.XFlush(self._display)

    def close(self) -> None:
        if self._display:
            self._x.XCloseDisplay(self._display)
        self._display = None


class WindowsKeys:
    """Keys as scan codes through SendInput, to the window with the focus."""

    CODES: Mapping[str, int] = {
        "gas": 0x11, "brake": 0x1F, "left": 0x1E, "right": 0x20, "restart": 0xE053, "confirm": 0x1C,
    }  # fmt: skip
    SCAN_CODE, UP, EXTENDED = 0x0008, 0x0002, 0x0001

    def __init__(self) -> None:
        windows: Any = ctypes
        self._send_input: Callable[..., int] = windows.windll.user32.SendInput

    def set(self, name: str, is_down: bool) -> None:
        code = self.CODES[name]
        flags = self.SCAN_CODE | (0 if is_down else self.UP) | (self.EXTENDED if code > 0xFF else 0)
        event = _WindowsInput(type=1, key=_WindowsKey(scan=code & 0xFF, flags=flags))
        self._send_input(1, ctypes.byref(event), ctypes.sizeof(event))

    def close(self) -> None:
        """Nothing is kept open."""


class _WindowsKey(ctypes.Structure):
    """KEYBDINPUT, padded to the largest member of the union that INPUT holds, MOUSEINPUT."""

    _fields_ = (
        ("virtual_key", ctypes.c_ushort),
        ("scan", ctypes.c_ushort),
        ("flags", ctypes.c_ulong),
        ("time", ctypes.c_ulong),
        ("extra", ctypes.c_void_p),
        ("padding", ctypes.c_ubyte * 8),
    )


class _WindowsInput(ctypes.Structure):
    """INPUT."""

    _fields_ = (("type", ctypes.c_ulong), ("key", _WindowsKey))


def _library(name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(ctypes.util.find_library(name) or f"lib{name}.so.6")
    except OSError as error:
        raise InputError(f"the library lib{name} is not installed, which keys are sent through.") from error

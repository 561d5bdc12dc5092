"""Where the client area of a window lies on the screen, by the window's title: X11 and Windows."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from dataclasses import dataclass
from typing import Any

from paddock.core.errors import PaddockError

TITLE = "Trackmania"
DEEPEST = 6  # levels of windows that are looked through; window managers wrap a program's window in their own


class WindowError(PaddockError):
    """A window that cannot be found or looked at."""


@dataclass(frozen=True)
class Area:
    """Pixels of the screen, from its upper left corner."""

    left: int
    top: int
    width: int
    height: int


def client_area(title: str = TITLE) -> Area:
    """The area inside of the frame of the window with exactly this title, wherever it lies now."""
    if sys.platform == "win32":
        return _windows_area(title)
    if os.environ.get("XDG_SESSION_TYPE") == "wayland" and not os.environ.get("DISPLAY"):
        raise WindowError("this session is Wayland, whose windows cannot be looked at; log in to an X11 session.")
    return X11Windows().area(title)


class _TextProperty(ctypes.Structure):
    """XTextProperty: a window's title is in whichever encoding its program chose."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("encoding", ctypes.c_ulong),
        ("format", ctypes.c_int),
        ("count", ctypes.c_ulong),
    )


class X11Windows:
    """The windows of an X11 display, through the system's own library."""

    def __init__(self, display: str | None = None) -> None:
        try:
            self._x: Any = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
        except OSError as error:
            raise WindowError("the library libX11 is not installed, which windows are found through.") from error
        window, pointer, integer = ctypes.c_ulong, ctypes.c_void_p, ctypes.c_int
        self._x.XOpenDisplay.restype = pointer
        self._x.XDefaultRootWindow.restype = window
        self._x.XDefaultRootWindow.argtypes = self._x.XCloseDisplay.argtypes = [pointer]
        self._x.XGetWMName.argtypes = [pointer, window, pointer]
        self._x.XFree.argtypes = [pointer]
        self._x.XQueryTree.argtypes = [pointer, window, *[pointer] * 4]
        self._x.XGetGeometry.argtypes = [pointer, window, *[pointer] * 7]
        self._x.XTranslateCoordinates.argtypes = [pointer, window, window, integer, integer, *[pointer] * 3]
        self._display = self._x.XOpenDisplay(display.encode() if display else None)
        if not self._display:
            raise WindowError("no X11 display can be opened; set DISPLAY to the one that the game is on.")
        self._root = self._x.XDefaultRootWindow(self._display)

    def area(self, title: str) -> Area:
        """The client area of a window, and close the display."""
        try:
            found = self._find(self._root, title, 0)
            if found is None:
                raise WindowError(f"there is no window with the title '{title}'.")
            return self._area(found)
        finally:
            self._x.XCloseDisplay(self._display)

    def _find(self, window: int, title: str, depth: int) -> int | None:
        if self._name(window) == title:
            return window
        if depth >= DEEPEST:
            return None
        for child in self._children(window):
            if (found := self._find(child, title, depth + 1)) is not None:
                return found
        return None

    def _name(self, window: int) -> str:
        name = _TextProperty()
        if not self._x.XGetWMName(self._display, window, ctypes.byref(name)) or not name.value:
            return ""
        text = ctypes.string_at(name.value, name.count).decode("utf-8", "replace")
        self._x.XFree(name.value)
        return text

    def _children(self, window: int) -> list[int]:
        root, parent = ctypes.c_ulong(), ctypes.c_ulong()
        children, count = ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        arguments = [ctypes.byref(value) for value in (root, parent, children, count)]
        if not self._x.XQueryTree(self._display, window, *arguments) or not count.value:
            return []
        found = [children[index] for index in range(count.value)]
        self._x.XFree(children)
        return found

    def _area(self, window: int) -> Area:
        root, child = ctypes.c_ulong(), ctypes.c_ulong()
        left, top = ctypes.c_int(), ctypes.c_int()
        width, height, border, depth = (ctypes.c_uint() for _ in range(4))
        geometry = [ctypes.byref(value) for value in (root, left, top, width, height, border, depth)]
        self._x.XGetGeometry(self._display, window, *geometry)
        corner = [ctypes.byref(value) for value in (left, top, child)]
        self._x.XTranslateCoordinates(self._display, window, self._root, 0, 0, *corner)
        return Area(left.value, top.value, width.value, height.value)


def _windows_area(title: str) -> Area:
    """Client area by Win32; coordinates are those of the screen's pixels, whatever the scaling."""
    windows: Any = ctypes
    user = windows.windll.user32
    user.SetProcessDPIAware()
    handle = user.FindWindowW(None, title)
    if not handle:
        raise WindowError(f"there is no window with the title '{title}'.")
    rectangle, corner = (ctypes.c_long * 4)(), (ctypes.c_long * 2)()
    user.GetClientRect(handle, ctypes.byref(rectangle))
    user.ClientToScreen(handle, ctypes.byref(corner))
    return Area(corner[0], corner[1], rectangle[2] - rectangle[0], rectangle[3] - rectangle[1])

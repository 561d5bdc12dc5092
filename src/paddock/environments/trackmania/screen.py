"""What the game shows: the protocol, memory that a twin draws into, and the client area of a window."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError, PaddockError
from paddock.core.lazy import require
from paddock.core.system import open_file
from paddock.environments.trackmania.window import TITLE, client_area

Picture = NDArray[np.uint8]

MAGIC = b"PSCR"
HEADER = struct.Struct("<4sIIQ")  # magic, width, height, frames written
HEADER_SIZE = 64
SLOTS = 3  # a reader has two frames' time to copy a picture before its slot is drawn into again
LARGEST_SIDE = 4_096  # pixels
GEOMETRY_SECONDS = 1.0  # for which a window's place is taken for granted


class ScreenError(PaddockError):
    """A picture that cannot be taken."""


class Screen(Protocol):
    """The newest picture, uint8 [height, width, 3], blue first."""

    def grab(self) -> Picture: ...

    def close(self) -> None: ...


def shared_folder() -> Path:
    """Where a twin's pictures lie: memory where the system has a folder of it, else the folder of temporary files."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


class SharedScreenWriter:
    """A file of memory with a few slots for pictures; the count of frames says which one is newest."""

    def __init__(self, path: Path, width: int, height: int) -> None:
        self.path = path
        self._size = width * height * 3
        self._shape = (height, width, 3)
        self._frames = 0
        path.unlink(missing_ok=True)
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(descriptor, HEADER_SIZE + SLOTS * self._size)
            self._memory = mmap.mmap(descriptor, HEADER_SIZE + SLOTS * self._size)
        finally:
            os.close(descriptor)
        HEADER.pack_into(self._memory, 0, MAGIC, width, height, 0)

    def write(self, picture: Picture) -> None:
        """The next frame."""
        assert picture.shape == self._shape, f"a picture has shape {picture.shape}, expected {self._shape}"
        start = HEADER_SIZE + (self._frames + 1) % SLOTS * self._size
        self._memory[start : start + self._size] = picture.tobytes()
        self._frames += 1
        struct.pack_into("<Q", self._memory, HEADER.size - 8, self._frames)

    def close(self) -> None:
        self._memory.close()
        self.path.unlink(missing_ok=True)


class SharedScreen:
    """A twin's pictures. A twin that began anew under the same name is noticed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._memory: mmap.mmap | None = None
        self._inode = 0
        self._open()

    def grab(self) -> Picture:
        if self._is_replaced():
            self._open()
        assert self._memory is not None
        while True:
            frames = self._frames()
            start = HEADER_SIZE + frames % SLOTS * self._size
            picture = np.frombuffer(self._memory[start : start + self._size], np.uint8).reshape(self._shape)
            if self._frames() - frames < SLOTS - 1:  # The slot was not drawn into while it was copied.
                return picture

    @property
    def frames(self) -> int:
        """Drawn so far."""
        return self._frames()

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _frames(self) -> int:
        return struct.unpack_from("<Q", self._memory or b"\0" * HEADER_SIZE, HEADER.size - 8)[0]

    def _is_replaced(self) -> bool:
        try:
            return os.stat(self.path).st_ino != self._inode
        except OSError:
            return False  # Its last picture stays readable; telemetry tells that the twin is gone.

    def _open(self) -> None:
        self.close()
        try:
            descriptor = open_file(self.path, os.O_RDONLY)
        except OSError as error:
            raise ScreenError(f"no twin draws into '{self.path}'; start one: paddock twin.") from error
        try:
            status = os.fstat(descriptor)
            if status.st_size < HEADER_SIZE:
                raise ScreenError(f"'{self.path}' is no twin's screen.")
            self._memory, self._inode = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), status.st_ino
        finally:
            os.close(descriptor)
        magic, width, height, _ = HEADER.unpack_from(self._memory, 0)
        self._size, self._shape = width * height * 3, (height, width, 3)
        fits = max(width, height) <= LARGEST_SIDE and status.st_size == HEADER_SIZE + SLOTS * self._size
        if magic != MAGIC or not fits:
            raise ScreenError(f"'{self.path}' is no twin's screen.")


class WindowScreen:
    """The client area of the game's window, wherever the window lies; its size has to be the expected one."""

    def __init__(self, width: int, height: int, title: str = TITLE) -> None:
        self.title, self._expected = title, (width, height)
        self._grabber = require("mss", extra="trackmania", purpose="taking pictures of a window").MSS()
        self._looked = -GEOMETRY_SECONDS
        self._area = client_area(title)
        self._check_size()

    def grab(self) -> Picture:
        if time.monotonic() - self._looked > GEOMETRY_SECONDS:
            self._area, self._looked = client_area(self.title), time.monotonic()
            self._check_size()
        area = self._area
        shot = self._grabber.grab({"left": area.left, "top": area.top, "width": area.width, "height": area.height})
        pixels = np.frombuffer(shot.bgra, np.uint8).reshape(shot.height, shot.width, 4)
        return np.ascontiguousarray(pixels[:, :, :3])

    def close(self) -> None:
        self._grabber.close()

    def _check_size(self) -> None:
        found = (self._area.width, self._area.height)
        if found != self._expected:
            raise InputError(
                f"the window '{self.title}' shows {found[0]}x{found[1]} pixels, and {self._expected[0]}x"
                f"{self._expected[1]} are expected; resize the window, or set environment.window_width and "
                "environment.window_height."
            )

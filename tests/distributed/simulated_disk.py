"""A disk in memory that loses what was not synced, tears what was half written, fills up, and dies at any operation."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random

from paddock.distributed.disk import Buffer


class Crash(Exception):
    """The process dies in the middle of a file operation."""


class SimulatedFile:
    """`stable` bytes from the beginning survive a power cut."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self.data = bytearray()
        self.stable = 0

    @property
    def size(self) -> int:
        return len(self.data)

    def append(self, pieces: Sequence[Buffer]) -> None:
        data = b"".join(pieces)
        disk = self._disk
        if disk.is_full:
            self.data += data[: disk.random.randrange(len(data))]
            raise OSError(errno.ENOSPC, "No space left on device")
        if disk.burns():
            self.data += data[: disk.random.randrange(len(data) + 1)]
            raise Crash
        self.data += data

    def sync(self) -> None:
        if self._disk.burns():
            raise Crash
        self.stable = len(self.data)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.stable = min(self.stable, size)

    def read(self, offset: int, length: int) -> memoryview:
        return memoryview(bytes(self.data[offset : offset + length]))

    def close(self) -> None:
        pass

    def lose_power(self) -> None:
        """Of what was not synced a part is there, perhaps with other bytes in it."""
        random = self._disk.random
        if self.stable == len(self.data):
            return
        end = random.randint(self.stable, len(self.data))
        del self.data[end:]
        if end > self.stable and random.random() < 0.5:
            self.data[random.randrange(self.stable, end)] ^= 0xFF
        if random.random() < 0.2:
            self.data += bytes(random.randrange(1, 40))
        self.stable = len(self.data)


class SimulatedDisk:
    """A folder. `fuse`: operations until the process dies, None for none."""

    name = "simulated"

    def __init__(self, random: Random) -> None:
        self.random = random
        self.is_full = False
        self.fuse: int | None = None
        self._files: dict[str, SimulatedFile] = {}
        self._kept: dict[str, SimulatedFile] = {}  # as the folder is after a power cut
        self._small: dict[str, bytes] = {}

    def burns(self) -> bool:
        if self.fuse is None:
            return False
        self.fuse -= 1
        return self.fuse < 0

    @property
    def has_unsynced(self) -> bool:
        """Whether a power cut could change anything."""
        return self._files != self._kept or any(file.stable != file.size for file in self._files.values())

    def names(self) -> list[str]:
        return sorted(self._files)

    def open(self, name: str) -> SimulatedFile:
        if name not in self._files:
            self._files[name] = SimulatedFile(self)
        return self._files[name]

    def replace(self, name: str, data: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.burns():
            raise Crash
        self._small[name] = data

    def read(self, name: str) -> bytes | None:
        return self._small.get(name)

    def rename(self, name: str, to: str) -> None:
        if self.burns():
            raise Crash
        self._files[to] = self._files.pop(name)

    def remove(self, name: str) -> None:
        if self.burns():
            raise Crash
        self._files.pop(name, None)

    def sync_folder(self) -> None:
        if self.burns():
            raise Crash
        self._kept = dict(self._files)

    def close(self) -> None:
        pass

    def lose_power(self) -> None:
        """New and removed files since the last sync of the folder are there or not, each by chance."""
        files = {}
        for name in sorted(self._files.keys() | self._kept.keys()):
            current, kept = self._files.get(name), self._kept.get(name)
            chosen = current if current is kept else self.random.choice((current, kept))
            if chosen is not None:
                files[name] = chosen
        self._files, self._kept = files, dict(files)
        for file in files.values():
            file.lose_power()

"""The few file operations that the spool and the journal need, so that tests can run them over a simulated disk.

Written data counts as kept only after `sync`; a new or removed file only after `sync_folder`.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from paddock.core.errors import InputError, PaddockError
from paddock.core.files import make_folder, open_for_writing, replace_file
from paddock.core.system import lock, sync_folder

Buffer = bytes | bytearray | memoryview

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

LOCK = "lock"


class DiskFile(Protocol):
    """A file that grows at its end."""

    @property
    def size(self) -> int:
        """Bytes in the file, synced or not."""
        ...

    def append(self, pieces: Sequence[Buffer]) -> None:
        """Write all pieces at the end. After an `OSError` a part of them may stand there."""
        ...

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file off after `size` bytes."""
        ...

    def read(self, offset: int, length: int) -> memoryview:
        """At most `length` bytes from `offset` on; fewer at the end of the file."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Disk(Protocol):
    """One flat folder of files."""

    @property
    def name(self) -> str:
        """How sentences call the folder."""
        ...

    def names(self) -> list[str]:
        """The files in the folder, in alphabetical order."""
        ...

    def open(self, name: str) -> DiskFile:
        """A file to append to and to read from, made where it does not exist."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write a small file whole and synced: a kill leaves the old or the new one."""
        ...

    def read(self, name: str) -> bytes | None:
        """A small file's contents, None where there is none."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Give a file another name; it is not open."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...

    def sync_folder(self) -> None:
        """Return when new and removed files are so on the disk."""
        ...

    def close(self) -> None:
        """Let go of the folder and of its lock."""
        ...


class HeldElsewhere(InputError):
    """Another process uses the folder."""


@contextmanager
def opened_folder(folder: Path, use: str) -> Iterator[FolderDisk]:
    """A folder to open a spool or a journal in; what goes wrong with its files on the way is a sentence.

    use: what the folder is for, as in "a worker's spool".
    """
    disk = None
    try:
        disk = FolderDisk(folder, use)
        yield disk
    except (OSError, PaddockError) as error:
        if disk is not None:
            disk.close()
        if isinstance(error, PaddockError):
            raise
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"'{folder}' cannot be used for {use}: {reason}. Name a folder that can be written."
        ) from error


class FolderDisk:
    """A folder of this machine, for one process at a time."""

    def __init__(self, folder: Path, use: str) -> None:
        self._folder = folder
        make_folder(folder)
        self._lock = open_for_writing(folder / LOCK, os.O_RDWR, 0o600)
        if not lock(self._lock):
            self.close()
            raise HeldElsewhere(
                f"'{folder}' is {use} that another process uses now. End that process or name another folder."
            )

    @property
    def name(self) -> str:
        return str(self._folder)

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self._folder) if entry.name != LOCK)

    def open(self, name: str) -> FolderFile:
        return FolderFile(self._folder / name)

    def replace(self, name: str, data: bytes) -> None:
        replace_file(self._folder / name, data)
        self.sync_folder()

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def rename(self, name: str, to: str) -> None:
        (self._folder / name).rename(self._folder / to)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def sync_folder(self) -> None:
        sync_folder(self._folder)

    def close(self) -> None:
        """May be called again."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


class FolderFile:
    """A file of this machine. `read` may be called from another thread than `append`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = os.fdopen(open_for_writing(path, os.O_RDWR, 0o600), "r+b", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size
        self._guard = threading.Lock()

    @property
    def size(self) -> int:
        return self._size

    def append(self, pieces: Sequence[Buffer]) -> None:
        with self._guard:
            self._file.seek(self._size)
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while rest:
                    written = self._file.write(rest)
                    if not written:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
                    self._size += written
                    rest = rest[written:]

    def sync(self) -> None:
        getattr(os, "fdatasync", os.fsync)(self._file.fileno())

    def truncate(self, size: int) -> None:
        with self._guard:
            self._file.truncate(size)
            self._size = size

    def read(self, offset: int, length: int) -> memoryview:
        length = max(0, min(length, self._size - offset))
        data = bytearray(length)
        view, got = memoryview(data), 0
        with self._guard:
            self._file.seek(offset)
            while got < length:
                count = self._file.readinto(view[got:])  # type: ignore[attr-defined]
                if not count:
                    break
                got += count
        return view[:got]

    def close(self) -> None:
        self._file.close()

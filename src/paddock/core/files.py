"""Writing files so that a kill at any instant leaves something readable, and so that they are where they seem to be.

Nothing here writes through a symbolic link. Who else may read a run's files is decided by its folder's mode.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from paddock.core.errors import InputError
from paddock.core.system import open_file, read_at

log = logging.getLogger(__name__)

SHARE_VARIABLE = "PADDOCK_SHARE"
PRIVATE, SHARED = 0o700, 0o750  # of a run's folder: for its user alone, or for reading by the user's group


def open_for_writing(path: Path, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a regular file, made where it does not exist; a link or a device in its place is refused."""
    try:
        descriptor = open_file(path, flags | os.O_CREAT, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise InputError(
                f"'{path}' is a link or a pipe or a folder, not a file; nothing is written there."
            ) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"'{path}' is not a regular file; nothing is written there.")
    return descriptor


def open_to_append(path: Path) -> BinaryIO:
    """A file that is written at its end."""
    return os.fdopen(open_for_writing(path, os.O_RDWR | os.O_APPEND), "ab")


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and make sure that it is on the disk before returning."""
    with os.fdopen(open_for_writing(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Write a whole file so that a reader or a kill sees either the old or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # On a full disk, half a file keeps room from others.
        raise


def unfinished(folder: Path) -> list[Path]:
    """What `replace_file` left in a folder when it was killed in the middle."""
    return [path for path in folder.glob(".*") if re.fullmatch(r"\..+\.\d+\.\d+", path.name)]


def append_line(path: Path, line: bytes) -> None:
    """Append one line with one write; the rest of a line that a kill cut short is closed off first."""
    descriptor = open_for_writing(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        is_torn = size > 0 and read_at(descriptor, 1, size - 1) != b"\n"
        write_all(descriptor, (b"\n" if is_torn else b"") + line + b"\n")
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, or raise: a disk that fills up takes a part and says nothing."""
    while data:
        data = data[os.write(descriptor, data) :]


def make_folder(path: Path) -> None:
    """A folder inside another one's, made where it does not exist; a link in its place would lead elsewhere."""
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise InputError(f"'{path}' is a link, not a folder; nothing is written there.")


def is_shared() -> bool:
    """Whether the person shares new runs with their group: `--share`, or PADDOCK_SHARE."""
    return os.environ.get(SHARE_VARIABLE, "").strip().lower() not in ("", "0", "no", "false")


def make_run_folder(path: Path) -> None:
    """A new folder that only this user can enter, or also the user's group where runs are shared."""
    before = os.umask(0o777 & ~(SHARED if is_shared() else PRIVATE))
    try:
        path.mkdir(parents=True)
    finally:
        os.umask(before)
    if is_shared() and not path.parent.stat().st_mode & stat.S_IXGRP:
        log.warning(
            "'%s' is closed to your group, so are the runs in it; open it: chmod g+rx %s", path.parent, path.parent
        )


@contextmanager
def files_like(folder: Path) -> Iterator[None]:
    """Make files and folders inside that can be read by those who can enter `folder`, and by nobody else."""
    allowed = stat.S_IMODE(folder.stat().st_mode) & ~0o022
    before = os.umask(0o777 & ~(allowed | 0o700))
    try:
        yield
    finally:
        os.umask(before)


def keep_private() -> None:
    """From here on this process makes files for its user alone, or for the group to read where runs are shared."""
    before = os.umask(0o077)
    os.umask(before | (0o027 if is_shared() else 0o077))


def folder_size(path: Path) -> int:
    """Bytes on disk; what is linked twice is counted once, what is gone or forbidden not at all."""
    seen, total = set(), 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except OSError:  # A living run thins out its checkpoints.
                continue
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                total += status.st_size
    return total

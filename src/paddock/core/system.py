"""What operating systems do differently, in one place: opening and holding files, whose they are, cores, limits.

Windows has no `O_NOFOLLOW`, no `flock`, no user ids and no modes of files; what takes their place is here, so that no
other module asks which system it runs on.
"""

from __future__ import annotations

import errno
import os
import time

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None  # type: ignore[assignment]

NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
CLOEXEC: int = getattr(os, "O_CLOEXEC", 0) or getattr(os, "O_NOINHERIT", 0)
BINARY: int = getattr(os, "O_BINARY", 0)  # without it Windows changes line ends
HAS_NOFOLLOW = NOFOLLOW != 0
LOCK_RETRY = 0.05  # s between two tries where the system cannot wait for a lock by itself
PROCESS_START = "forkserver" if hasattr(os, "fork") else "spawn"  # of processes that only compute
LOCKED_BYTE = 2**30  # far behind the end of a lock file: Windows also forbids reading the bytes that are locked


def open_file(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """`os.open` for bytes, not inherited by other programs, which neither follows a link nor waits for a pipe."""
    if not HAS_NOFOLLOW and os.path.islink(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags | NOFOLLOW | NONBLOCK | CLOEXEC | BINARY, mode)


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Hold an open file until it is closed or the process ends, however it ends; False where another one holds it."""
    if fcntl is not None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    while not _lock_byte(descriptor):
        if not wait:
            return False
        time.sleep(LOCK_RETRY)
    return True


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """At most `size` bytes from `offset` on."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def make_private(descriptor: int) -> None:
    """Close an open file to other users; on Windows the user's folder decides that."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o600)


def is_mine(status: os.stat_result) -> bool:
    """Whether a file belongs to this user, as far as the system can tell."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Return when new and removed names of a folder are on the disk; Windows does that by itself."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows does not open folders.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def address_space_limit() -> int | None:
    """Bytes that this process may map (`ulimit -v`), None without such a limit."""
    if resource is None:
        return None
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if allowed == resource.RLIM_INFINITY else allowed


def _lock_byte(descriptor: int) -> bool:
    """Windows' own lock, of one byte."""
    import msvcrt

    os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return False
    return True

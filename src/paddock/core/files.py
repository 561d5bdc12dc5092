"""Writing files so that a kill at any instant leaves something readable."""

from __future__ import annotations

import os
import time
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and make sure that it is on the disk before returning."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Write a whole file so that a reader or a kill sees either the old or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    write_synced(temporary, data)
    temporary.replace(path)


def append_line(path: Path, line: bytes) -> None:
    """Append one line with one write; the rest of a line that a kill cut short is closed off first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (b"\n" if is_torn else b"") + line + b"\n")
    finally:
        os.close(descriptor)

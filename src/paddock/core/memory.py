"""How this process keeps memory that it has freed."""

from __future__ import annotations

import contextlib
import ctypes

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's numbers of these settings
LARGEST_THRESHOLD = 32 * 2**20  # bytes: glibc refuses a larger one

KEPT_MEMORY = {"pieces": LARGEST_THRESHOLD, "total": 256 * 2**20}
"""What a process that learns keeps: one update's intermediate results are the next one's."""


def keep_freed_memory(pieces: int, total: int) -> None:
    """Have this process keep freed memory for the next of its pieces of up to `pieces` bytes, `total` bytes at most:
    the system fills with zeros what it gives out anew, page by page, which takes as long as a small product of
    matrices. Only glibc has these settings; elsewhere nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, min(pieces, LARGEST_THRESHOLD))
        library.mallopt(TRIM_THRESHOLD, total)

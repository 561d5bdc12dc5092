"""A process that has no reason to go on without the one that started it."""

from __future__ import annotations

import os
import signal
import threading

WITH_PARENT = "PADDOCK_WITH_PARENT"  # variable: the process id without which this one ends
CHECK_SECONDS = 0.5


def end_with_parent() -> None:
    """Where the variable says so, ask this process to end (SIGTERM) as soon as its parent is gone."""
    parent = os.environ.pop(WITH_PARENT, "")
    if parent.isdigit():
        threading.Thread(target=_watch, args=(int(parent),), name="paddock-parent", daemon=True).start()


def _watch(parent: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(CHECK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)

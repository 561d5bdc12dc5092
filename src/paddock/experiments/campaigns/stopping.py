"""SIGINT and SIGTERM as a request to stop: what runs is asked to save and end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """While it lasts, the first signal is a request, which the function given reports; the second one interrupts."""
    is_asked = False

    def on_signal(number: int, frame: Any) -> None:
        nonlocal is_asked
        if is_asked:
            raise KeyboardInterrupt
        is_asked = True

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: is_asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

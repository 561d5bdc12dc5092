"""Says on stderr that kernels are being compiled, which takes half a minute the first time, and how long it took.

Kernels that come from numba's cache are not compiled, so nothing is said about them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

SIMULATOR = "the simulator", "about 30 s"
REFERENCE_LAPS = "the code for reference laps", "about 10 s"
COMPILES = "numba:compile"  # the event of numba around each compilation, which a cached kernel does not have


class _Listener(event.Listener):
    """Hears of compilations. They hold numba's lock, so there is one at a time; those of inner functions lie within."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scopes: list[tuple[str, str]] = []
        self._depth = 0
        self._began = self._seconds = 0.0
        self._is_announced = False

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._began = time.perf_counter()
            self._announce(event)
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._began

    def _announce(self, event: Any) -> None:
        is_ours = event.data["dispatcher"].py_func.__module__.startswith("paddock.")
        if is_ours and self._scopes and not self._is_announced:
            self._is_announced = True
            what, duration = self._scopes[0]
            _say(f"Compiling {what} for this machine: once, {duration}.")

    def enter(self, scope: tuple[str, str]) -> None:
        with self._lock:
            if not self._scopes:
                self._is_announced, self._seconds = False, 0.0
            self._scopes.append(scope)

    def leave(self, scope: tuple[str, str]) -> None:
        with self._lock:
            what, _ = self._scopes[0]
            self._scopes.remove(scope)
            if not self._scopes and self._is_announced:
                _say(f"Compiled {what} in {self._seconds:.0f} s.")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


_listener: _Listener | None = None


@contextmanager
def announced(scope: tuple[str, str] = SIMULATOR) -> Iterator[None]:
    """While this lasts, the first compilation is announced; at its end the seconds are said. The outermost speaks."""
    global _listener
    if _listener is None:
        _listener = _Listener()
        event.register(COMPILES, _listener)
    listener = _listener
    listener.enter(scope)
    try:
        yield
    finally:
        listener.leave(scope)

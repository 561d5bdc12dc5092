"""Requests to a running experiment from outside. Signals for now: the first asks, the second insists."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Control:
    """What has been asked of the run. The orchestrator looks at it between two actions."""

    def __init__(self) -> None:
        self.stop_requested_by: str | None = None
        self.pause_requested_by: str | None = None
        self._going_on = threading.Event()

    def stop(self, by: str) -> None:
        """Ask the run to save and end; who asked first is remembered."""
        self.stop_requested_by = self.stop_requested_by or by
        self._going_on.set()

    def pause(self, by: str) -> None:
        """Ask the run to save and wait."""
        self._going_on.clear()
        self.pause_requested_by = self.pause_requested_by or by

    def resume(self) -> None:
        """Let a paused run go on."""
        self.pause_requested_by = None
        self._going_on.set()

    def wait_while_paused(self) -> None:
        """Return when the run may go on or has to end. Short waits, so that signals are heard."""
        while self.pause_requested_by is not None and self.stop_requested_by is None:
            self._going_on.wait(0.2)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn the first SIGINT or SIGTERM into a request to stop, the second leaves at once; SIGUSR1 pauses, SIGCONT
        goes on."""
        handlers = {
            **dict.fromkeys(SIGNALS, self._on_signal),
            signal.SIGUSR1: self._on_pause,
            signal.SIGCONT: self._on_continue,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_requested_by is not None:
            os._exit(130)
        self.stop(signal.Signals(number).name)
        message = f"\n{self.stop_requested_by}: saving, then leaving. Once more leaves at once.\n"
        os.write(2, message.encode())

    def _on_pause(self, number: int, frame: FrameType | None) -> None:
        self.pause(signal.Signals(number).name)

    def _on_continue(self, number: int, frame: FrameType | None) -> None:
        self.resume()

"""Requests to a running experiment from outside. Signals for now: the first asks, the second insists."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Control:
    """What has been asked of the run. The orchestrator looks at it between two actions."""

    def __init__(self) -> None:
        self.stop_requested_by: str | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn the first SIGINT or SIGTERM into a request to stop; the second leaves at once."""
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_requested_by is not None:
            os._exit(130)
        self.stop_requested_by = signal.Signals(number).name
        message = f"\n{self.stop_requested_by}: saving, then leaving. Once more leaves at once.\n"
        os.write(2, message.encode())

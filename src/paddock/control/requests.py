"""Requests to a running experiment from outside: by signals, where a second one ends the process at once, and from
viewers of its channel. The loop handles them between two actions."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from paddock.control.messages import Answer, Command, Handlers, command_name
from paddock.core.errors import InputError, PaddockError
from paddock.environments.calls import CutOff, longest, pending

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE, PATIENCE = 2.0, 5.0  # s that an environment may take after a request to stop: a notice, then the end
LOOK_EVERY = 0.25  # s between two looks at that
MOST_WAITING = 64  # requests that may wait for the loop


@dataclass(frozen=True)
class PendingCommand:
    """A command that waits for the loop. by: its origin; answer: called once, from the loop, with the result."""

    command: Command
    by: str
    answer: Callable[[Answer], None] = field(repr=False)


class Control:
    """The requests to a run. The orchestrator reads them between two actions."""

    def __init__(self) -> None:
        self.stop_requested_by: str | None = None
        self.pause_requested_by: str | None = None
        self.is_guest = False  # Whether the process belongs to other code, a notebook say, and must not be ended.
        self._stop_requested_at: float | None = None
        self._has_said = self._is_listening = False
        self._going_on = threading.Event()
        self._requests: queue.Queue[PendingCommand] = queue.Queue(MOST_WAITING)

    def stop(self, by: str) -> None:
        """Request that the run saves and ends; the first requester is kept."""
        if self.stop_requested_by is None:
            self.stop_requested_by, self._stop_requested_at = by, time.monotonic()
            if self._is_listening:
                self._look_every(LOOK_EVERY)
        self._going_on.set()

    def pause(self, by: str) -> None:
        """Request that the run saves and waits."""
        self._going_on.clear()
        self.pause_requested_by = self.pause_requested_by or by

    def resume(self) -> None:
        """Let a paused run go on."""
        self.pause_requested_by = None
        self._going_on.set()

    def submit(self, request: PendingCommand) -> None:
        """Queue a command for the loop; refused when too many wait already."""
        try:
            self._requests.put_nowait(request)
        except queue.Full:
            raise InputError(f"{MOST_WAITING} requests wait for this run already; try again in a moment.") from None

    def has_requests(self) -> bool:
        """Whether the loop should come to the point where it handles requests."""
        is_held = self.stop_requested_by is not None or self.pause_requested_by is not None
        return is_held or not self._requests.empty()

    def take(self) -> Iterator[PendingCommand]:
        """The commands that wait, in the order in which they came."""
        while True:
            try:
                yield self._requests.get_nowait()
            except queue.Empty:
                return

    def handle(self, commands: Handlers, note: Callable[..., None]) -> None:
        """Carry out the commands that wait; `note(command=, by=, ...)` logs each one that was. A command that cannot be
        carried out is answered with the reason."""
        for request in self.take():
            try:
                result = commands[type(request.command)](request.command)
            except PaddockError as error:
                request.answer({"ok": False, "error": str(error)})
            else:
                note(command=command_name(request.command), by=request.by, **result)
                request.answer({"ok": True, **result})

    def wait_while_paused(self, meanwhile: Callable[[], None]) -> None:
        """Return when the run may go on or has to end. Short waits, so that signals are handled; `meanwhile` is
        called in between."""
        while self.pause_requested_by is not None and self.stop_requested_by is None:
            meanwhile()
            self._going_on.wait(0.05)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn the first SIGINT or SIGTERM into a request to stop, the second leaves at once; SIGUSR1 pauses, SIGCONT
        continues (both not on Windows). Signals only reach the main thread; in another one this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        unix = {"SIGUSR1": self._on_pause, "SIGCONT": self._on_continue, "SIGALRM": self._on_alarm}
        handlers = {
            **dict.fromkeys(SIGNALS, self._on_signal),
            **{getattr(signal, name): handler for name, handler in unix.items() if hasattr(signal, name)},
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._is_listening = True
        try:
            yield
        finally:
            self._is_listening = False
            self._look_every(0.0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _look_every(self, seconds: float) -> None:
        """Call `_on_alarm` again and again, where the system has such a timer; 0 ends that."""
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_requested_by is not None:
            if self.is_guest:
                raise KeyboardInterrupt
            os._exit(130)
        self.stop(signal.Signals(number).name)
        message = f"\n{self.stop_requested_by}: saving, then exiting. Press Ctrl-C again to exit immediately.\n"
        os.write(2, message.encode())

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        """An environment that does not come back must not keep the run from ending; one that was ever slow may take
        as long again."""
        waited_for = pending()
        if waited_for is None or self._stop_requested_at is None:
            return
        waited = time.monotonic() - max(waited_for.since, self._stop_requested_at)
        if waited >= max(PATIENCE, 2.0 * longest()):
            raise CutOff
        if waited >= NOTICE and not self._has_said:
            self._has_said = True
            text = f"still waiting for environment '{waited_for.environment}' to come back from {waited_for.method}"
            os.write(2, f"{text}; Ctrl-C once more exits at once, what was saved before stays.\n".encode())

    def _on_pause(self, number: int, frame: FrameType | None) -> None:
        self.pause(signal.Signals(number).name)

    def _on_continue(self, number: int, frame: FrameType | None) -> None:
        self.resume()

"""Requests to a running experiment from outside: by signals, where the first asks and the second insists, and by
whoever is connected to its channel. The loop takes them between two actions."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from paddock.core.errors import InputError, PaddockError
from paddock.environments.calls import CutOff, longest, pending

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE, PATIENCE = 2.0, 5.0  # s that an environment may take after the run was asked to stop: a word, then the end
LOOK_EVERY = 0.25  # s between two looks at that
WAITING = 64  # requests that may wait for the loop
Answer = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What somebody wants. answer: called once, from the loop, with what came of it."""

    command: str
    arguments: dict[str, Any]
    by: str
    answer: Callable[[Answer], None] = field(repr=False)


class Control:
    """What has been asked of the run. The orchestrator looks at it between two actions."""

    def __init__(self) -> None:
        self.stop_requested_by: str | None = None
        self.pause_requested_by: str | None = None
        self.is_guest = False  # Whether the process is somebody else's, a notebook's say, and must not be ended.
        self._asked_at: float | None = None
        self._has_said = self._is_listening = False
        self._going_on = threading.Event()
        self._requests: queue.Queue[Request] = queue.Queue(WAITING)

    def stop(self, by: str) -> None:
        """Ask the run to save and end; who asked first is remembered."""
        if self.stop_requested_by is None:
            self.stop_requested_by, self._asked_at = by, time.monotonic()
            if self._is_listening:
                signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY, LOOK_EVERY)
        self._going_on.set()

    def pause(self, by: str) -> None:
        """Ask the run to save and wait."""
        self._going_on.clear()
        self.pause_requested_by = self.pause_requested_by or by

    def resume(self) -> None:
        """Let a paused run go on."""
        self.pause_requested_by = None
        self._going_on.set()

    def ask(self, request: Request) -> None:
        """Leave a request for the loop; refused when too many wait already."""
        try:
            self._requests.put_nowait(request)
        except queue.Full:
            raise InputError(f"{WAITING} requests wait for this run already; try again in a moment.") from None

    @property
    def is_anything_asked(self) -> bool:
        """Whether the loop should come to where it takes requests."""
        asked = self.stop_requested_by is not None or self.pause_requested_by is not None
        return asked or not self._requests.empty()

    def take(self) -> Iterator[Request]:
        """The requests that wait, first come first served."""
        while True:
            try:
                yield self._requests.get_nowait()
            except queue.Empty:
                return

    def fulfil(self, doings: Mapping[str, Callable[..., Answer]], note: Callable[..., None]) -> None:
        """Do what has been asked for, by command; `note(command=, by=, ...)` writes down what was done. A request that
        cannot be fulfilled is refused with a sentence."""
        for request in self.take():
            try:
                result = doings[request.command](**request.arguments)
            except PaddockError as error:
                request.answer({"ok": False, "error": str(error)})
            except TypeError as error:
                request.answer({"ok": False, "error": f"'{request.command}' was asked in a way it is not: {error}."})
            else:
                note(command=request.command, by=request.by, **result)
                request.answer({"ok": True, **result})

    def wait_while_paused(self, meanwhile: Callable[[], None]) -> None:
        """Return when the run may go on or has to end. Short waits, so that signals are heard; `meanwhile` is called
        in between."""
        while self.pause_requested_by is not None and self.stop_requested_by is None:
            meanwhile()
            self._going_on.wait(0.05)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn the first SIGINT or SIGTERM into a request to stop, the second leaves at once; SIGUSR1 pauses, SIGCONT
        goes on. Signals only reach the main thread; in another one nothing is listened to."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {
            **dict.fromkeys(SIGNALS, self._on_signal),
            signal.SIGUSR1: self._on_pause,
            signal.SIGCONT: self._on_continue,
            signal.SIGALRM: self._on_alarm,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._is_listening = True
        try:
            yield
        finally:
            self._is_listening = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            for number, handler in before.items():
                signal.signal(number, handler)

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
        if waited_for is None or self._asked_at is None:
            return
        waited = time.monotonic() - max(waited_for.since, self._asked_at)
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

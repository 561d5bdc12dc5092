"""A session that a person drives from the page: a loop in real time that ticks while it has a viewer."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from paddock.control import messages as m
from paddock.control.channel import Channel
from paddock.control.requests import Control, PendingCommand
from paddock.core.clock import now
from paddock.core.errors import InputError, unknown_choice
from paddock.core.pace import Pacer

UNWATCHED_TIMEOUT = 120.0  # s without a viewer after which a session ends
REST = 0.02  # s between two checks for a viewer


class SessionFolder(Protocol):
    """Where a session writes down what happened; a run's folder is one."""

    path: Path

    def event(self, kind: str, **values: Any) -> None: ...

    def write_manifest(self, **values: Any) -> None: ...


class LiveSession(ABC):
    """Ticks while it has a viewer. Commands are handled between two ticks; of inputs the latest counts.

    A kind of session says how long a tick is (`period`, s), what it does, how it begins anew and what becomes of it at
    the end (`finish`, which returns what the last event says). `speeds`: the slowest and the fastest, times real time.
    """

    kind: str
    speeds: tuple[float, float]

    def __init__(self, run: SessionFolder) -> None:
        self._run = run
        self.control = Control()
        self.channel = Channel(self)
        self._speed = 1.0
        self._is_paused = threading.Event()
        self._commands: dict[type[m.Command], Callable[[Any], m.Answer]] = {
            m.Pause: self._pause,
            m.Resume: self._resume,
            m.Speed: self._set_speed,
            m.Reset: self._reset,
        }

    # --- the session's own thread ---

    @property
    @abstractmethod
    def period(self) -> float: ...

    @abstractmethod
    def tick(self) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def finish(self) -> dict[str, Any]: ...

    def run(self) -> None:
        """Until it is stopped, or has had no viewer for a while."""
        self.channel.open(self._run.path)
        pacer, last_watched = Pacer(), time.monotonic()
        try:
            while self.control.stop_requested_by is None:
                self.control.handle(self._commands, partial(self._run.event, "control"))
                if self.channel.is_watched:
                    last_watched = time.monotonic()
                elif time.monotonic() - last_watched > UNWATCHED_TIMEOUT:
                    return
                if not self.channel.is_watched or self._is_paused.is_set():
                    time.sleep(REST)
                    pacer.restart()
                    continue
                self.tick()
                pacer.wait(self.period / self._speed)
        finally:
            ending = self.finish()
            self.channel.close()
            self._run.event("finished", by=self.control.stop_requested_by, **ending)
            self._run.write_manifest(status="finished", ended=now())

    def _pause(self, command: m.Pause) -> m.Answer:
        self._is_paused.set()
        return {}

    def _resume(self, command: m.Resume) -> m.Answer:
        self._is_paused.clear()
        return {}

    def _set_speed(self, command: m.Speed) -> m.Answer:
        factor = 1.0 if command.factor is None else command.factor
        slowest, fastest = self.speeds
        if not slowest <= factor <= fastest:
            raise InputError(f"factor is {factor}; allowed in a {self.kind}: {slowest} to {fastest}.")
        self._speed = factor
        return {"factor": factor}

    def _reset(self, command: m.Reset) -> m.Answer:
        self.begin()
        return {}

    # --- the channel's thread ---

    @abstractmethod
    def welcome(self) -> m.Welcome: ...

    @abstractmethod
    def scene(self, track: int) -> dict[str, Any]: ...

    @abstractmethod
    def status(self) -> m.Status: ...

    @abstractmethod
    def input(self, message: m.DriverInput) -> None: ...

    @property
    def is_paused(self) -> bool:
        return self._is_paused.is_set()

    def request(self, request: m.Request, answer: Callable[[m.Answer], None]) -> None:
        command = m.parse_command(request.command, request.arguments)
        if isinstance(command, m.Stop):
            self.control.stop(request.by)
            answer({"ok": True})
        elif type(command) in self._commands:
            self.control.submit(PendingCommand(command, request.by, answer))
        else:
            raise unknown_choice("command", request.command, self.can())

    def can(self) -> list[str]:
        """The commands that this session takes."""
        kinds: list[type[m.Command]] = [m.Stop, *self._commands]
        return [m.command_name(kind) for kind in kinds]

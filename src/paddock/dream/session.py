"""A person in a dream: a world model in real time, driven from the page, beside the road that it dreams of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from paddock.control import messages as m
from paddock.control.channel import Channel
from paddock.control.requests import Control, PendingCommand
from paddock.core.clock import now
from paddock.core.errors import InputError, unknown_choice
from paddock.core.pace import Pacer
from paddock.dream.panels import PANELS, DreamPanels, action_of
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.subject import find_subject

UNWATCHED_TIMEOUT = 120.0  # s without a viewer after which a session ends
SILENCE = 0.3  # s without an input, after which wheel and pedals are released
REST = 0.02  # s between two checks for a viewer
SLOWEST, FASTEST = 0.1, 10.0  # times real time


class DreamSession:
    """Ticks while it has a viewer. The dream goes on where the road has ended; `reset` begins both anew."""

    def __init__(self, panels: DreamPanels, run: RunFolder, name: str) -> None:
        self._panels, self._run, self._name = panels, run, name
        self.control = Control()
        self.channel = Channel(self)
        self._given = (0.0, 0.0, 0.0, -1e9)  # steer, throttle, brake, when
        self._seed, self._speed = 0, 1.0
        self._is_paused = threading.Event()
        self._commands: dict[type[m.Command], Callable[[Any], m.Answer]] = {
            m.Pause: self._pause,
            m.Resume: self._resume,
            m.Speed: self._set_speed,
            m.Reset: self._reset,
        }

    # --- the session's own thread ---

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
                pacer.wait(1.0 / (self._panels.rate * self._speed))
        finally:
            self.channel.close()
            self._panels.close()
            self._run.event("finished", by=self.control.stop_requested_by, steps=self._panels.steps)
            self._run.write_manifest(status="finished", ended=now())

    def tick(self) -> None:
        """One imagined step by the person's wheel and pedals."""
        steer, throttle, brake, when = self._given
        if time.monotonic() - when > SILENCE:
            steer = throttle = brake = 0.0
        self._panels.step(action_of(self._panels.spec.action, steer, throttle, brake))
        if self.channel.wants_pictures:
            self.channel.publish_picture(self._panels.picture())

    def _pause(self, command: m.Pause) -> m.Answer:
        self._is_paused.set()
        return {}

    def _resume(self, command: m.Resume) -> m.Answer:
        self._is_paused.clear()
        return {}

    def _set_speed(self, command: m.Speed) -> m.Answer:
        factor = 1.0 if command.factor is None else command.factor
        if not SLOWEST <= factor <= FASTEST:
            raise InputError(f"factor is {factor}; allowed in a dream: {SLOWEST} to {FASTEST}.")
        self._speed = factor
        return {"factor": factor}

    def _reset(self, command: m.Reset) -> m.Answer:
        self._seed += 1
        self._panels.begin(self._seed)
        return {}

    # --- the channel's thread ---

    def welcome(self) -> m.Welcome:
        return m.Welcome("video", self._can(), self.status())

    def scene(self, track: int) -> dict[str, Any]:
        return {"kind": "video", "panels": list(PANELS), "dream_of": self._name}

    def status(self) -> m.Status:
        panels = self._panels
        return m.Status(
            status="paused" if self._is_paused.is_set() else "running",
            agent_steps=panels.steps,
            seconds=round(panels.steps / panels.rate, 2),
            steps_per_second=round(panels.rate * self._speed, 1),
            speed=self._speed,
            mode="manual",
            driver="you",
            pilot=self._name,
        )

    def input(self, message: m.DriverInput) -> None:
        if message.is_released:
            self._given = (0.0, 0.0, 0.0, -1e9)
        else:
            self._given = (message.steer, message.throttle, message.brake, time.monotonic())

    def request(self, request: m.Request, answer: Callable[[m.Answer], None]) -> None:
        command = m.parse_command(request.command, request.arguments)
        if isinstance(command, m.Stop):
            self.control.stop(request.by)
            answer({"ok": True})
        elif type(command) in self._commands:
            self.control.submit(PendingCommand(command, request.by, answer))
        else:
            raise unknown_choice("command", request.command, self._can())

    def _can(self) -> list[str]:
        kinds: list[type[m.Command]] = [m.Stop, *self._commands]
        return [m.command_name(kind) for kind in kinds]


def open_dream(run: str, runs_dir: Path, *, temperature: float, trusts: bool = False) -> tuple[DreamPanels, str]:
    """The panels of a run's dream, and the run's name."""
    subject = find_subject(run, runs_dir, which="latest", trusts=trusts, is_for_laps=True)
    return DreamPanels(subject, temperature=temperature), subject.name


def dream_folder(name: str, runs_dir: Path, *, temperature: float) -> RunFolder:
    """A folder for what happens in a session, beside those of the runs."""
    title = f"dream-{name}"
    config = {"name": title, "dream": name, "temperature": temperature}
    run = RunFolder.create(runs_dir / "drives", title, config, is_own=False)
    run.write_manifest(**manifest(config, seed=0))
    return run

"""A person in a dream: a world model in real time, driven from the page, beside the road that it dreams of."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from paddock.control import messages as m
from paddock.control.session import LiveSession
from paddock.dream.panels import PANELS, DreamPanels, action_of
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.subject import find_subject

SILENCE = 0.3  # s without an input, after which wheel and pedals are released


class DreamSession(LiveSession):
    """The dream goes on where the road has ended; `reset` begins both anew."""

    kind = "dream"
    speeds = (0.1, 10.0)

    def __init__(self, panels: DreamPanels, run: RunFolder, name: str) -> None:
        super().__init__(run)
        self._panels, self._name = panels, name
        self._given = (0.0, 0.0, 0.0, -1e9)  # steer, throttle, brake, when
        self._seed = 0

    # --- the session's own thread ---

    @property
    def period(self) -> float:
        return 1.0 / self._panels.rate

    def tick(self) -> None:
        """One imagined step by the person's wheel and pedals."""
        steer, throttle, brake, when = self._given
        if time.monotonic() - when > SILENCE:
            steer = throttle = brake = 0.0
        self._panels.step(action_of(self._panels.spec.action, steer, throttle, brake))
        if self.channel.wants_pictures:
            self.channel.publish_picture(self._panels.picture())

    def begin(self) -> None:
        """Another road, and another dream of it."""
        self._seed += 1
        self._panels.begin(self._seed)

    def finish(self) -> dict[str, Any]:
        self._panels.close()
        return {"steps": self._panels.steps}

    # --- the channel's thread ---

    def welcome(self) -> m.Welcome:
        return m.Welcome("video", self.can(), self.status())

    def scene(self, track: int) -> dict[str, Any]:
        return {"kind": "video", "panels": list(PANELS), "dream_of": self._name}

    def status(self) -> m.Status:
        panels = self._panels
        return m.Status(
            status="paused" if self.is_paused else "running",
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

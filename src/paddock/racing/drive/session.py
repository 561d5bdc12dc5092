"""A driving session: a racing world in real time with a person in one of its cars, reached through a channel."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.control.channel import Channel
from paddock.control.requests import Answer, Control, Request
from paddock.core.clock import now
from paddock.core.errors import InputError, unknown_choice
from paddock.experiments.run import RunFolder, manifest
from paddock.racing.drive.drivers import Hands
from paddock.racing.drive.recording import Demonstration, LapKeeper
from paddock.racing.drive.setup import DriveRequest, Grid

MODES = ("manual", "ai", "assisted")
LONELY = 120.0  # s without a viewer after which a session ends
LATE = 0.25  # s behind real time from which on it is not caught up with
SLOWEST, FASTEST = 0.1, 50.0  # times real time
REST = 0.02  # s between two looks whether somebody is there


class DrivingSession:
    """Ticks while somebody watches. Commands are taken between two ticks, inputs are the latest that came."""

    def __init__(self, grid: Grid, run: RunFolder, request: DriveRequest) -> None:
        self._grid, self._env, self._world = grid, grid.env, grid.env.world
        self._run, self._driver = run, request.driver
        self._view = grid.env.view
        self.control = Control()
        self.channel = Channel(self)
        self._hands = Hands(grid.env._car)
        self._laps = LapKeeper(grid.env, request.laps_dir, request.driver)
        demonstration = run.path / "demonstration"
        self._demonstration = Demonstration(grid.env, grid.sight, grid.actions, grid.apart, demonstration)
        self._mode, self._assist, self._speed = request.mode, 0.5, 1.0
        self._tick, self._sequence, self._lap_count = 0, 0, 0
        self._best: float | None = None
        self._lap_clock = 0.0  # s since the line, a tick ago
        self._last_tick = self._next_snapshot = 0.0
        self._is_paused = threading.Event()
        self._is_waiting = True  # on the grid
        self._doings: dict[str, Callable[..., Answer]] = {
            "pause": self._pause,
            "resume": self._resume,
            "speed": self._set_speed,
            "mode": self._set_mode,
            "reset": self._reset,
            "ghost": self._set_ghost,
        }
        if grid.rival is not None:
            grid.env.let_drive(self)
        self._show_human()

    # --- the session's own thread ---

    def run(self) -> None:
        """Until somebody ends it, or nobody is there any more."""
        self._begin()
        self.channel.open(self._run.path)
        lonely_since = time.monotonic()
        due = time.perf_counter()
        try:
            while self.control.stop_requested_by is None:
                self.control.fulfil(self._doings, partial(self._run.event, "control"))
                if self.channel.is_watched:
                    lonely_since = time.monotonic()
                elif time.monotonic() - lonely_since > LONELY:
                    return
                if not self.channel.is_watched or self._is_paused.is_set():
                    time.sleep(REST)
                    due = time.perf_counter()
                    continue
                self.tick()
                due = due + self._world.settings.time_step / self._speed
                wait = due - time.perf_counter()
                if wait > 0.0:
                    time.sleep(wait)
                elif wait < -LATE:
                    due = time.perf_counter()
        finally:
            self._demonstration.cut()
            self.channel.close()
            self._run.event("finished", by=self.control.stop_requested_by, laps=self._lap_count)
            self._run.write_manifest(status="finished", ended=now())

    def tick(self) -> None:
        """One step of the world; on the grid it waits for the person's foot."""
        self._is_waiting &= self._mode == "manual" and not self._hands.is_on_throttle
        if not self._is_waiting:
            self._advance()
        now = time.perf_counter()
        if now >= self._next_snapshot and self.channel.rate > 0.0:
            period = 1.0 / self.channel.rate
            self._next_snapshot = max(self._next_snapshot + 0.98 * period, now + 0.5 * period)
            self._publish()

    def _advance(self) -> None:
        world, step = self._world, self._world.settings.time_step
        slip = float(np.arctan2(world.vy[0], max(float(world.vx[0]), 1.0)))
        by_hand = self._hands.drive(step, float(world.vx[0]), slip)
        command = self._blended(by_hand)
        _, reward, _, _, _ = self._env.advance(command[None])
        self._tick += 1
        self._keep(command, float(reward[0]))

    def drive(self, command: NDArray[np.float32]) -> None:
        """Write the other car's steer and throttle into `command` [N, 2]."""
        assert self._grid.rival is not None
        command[1] = self._grid.rival.drive(self._tick)

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """A session is not resumed."""

    def _blended(self, by_hand: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._mode == "manual":
            return by_hand
        piloted = self._grid.pilot.drive(self._tick)
        share = 1.0 if self._mode == "ai" else self._assist
        return (1.0 - share) * by_hand + share * np.asarray(piloted, np.float32)

    def _keep(self, command: NDArray[np.float32], reward: float) -> None:
        """What became of the tick: laps, and the person's part of it as a demonstration."""
        world, is_by_hand = self._world, self._mode == "manual"
        is_complete = bool(world.lap_completed[0])
        if is_by_hand:
            self._demonstration.watch(command, reward, is_end=is_complete)
        self._laps.watch(is_by_hand=is_by_hand, is_sampled=self._tick % self._grid.apart == 0)
        for car in np.flatnonzero(world.lap_completed):
            self._tell_lap(int(car), is_by_hand)
        if world.lap_rejected[0]:
            self._laps.restart()
            lap = {"lap_time": self._lap_clock, "sectors": [], "deltas": {}, "valid": False}
            self.channel.say({"type": "lap", "car": 0, **lap})
        self._lap_clock = float(world.time[0] - world.lap_start[0])

    def _tell_lap(self, car: int, is_by_hand: bool) -> None:
        world = self._world
        lap_time = float(world.last_lap_time[car])
        sectors = [float(one) for one in world.last_sector_times[car]]
        reference = self._env.reference.laps[0]
        deltas = {"reference": [a - float(b) for a, b in zip(sectors, reference.sector_times, strict=True)]}
        if car == 0:
            self._lap_count += 1
            self._best = lap_time if self._best is None else min(self._best, lap_time)
            driver = self._driver if is_by_hand else f"{self._driver}, {self._mode}"
            self._run.event(
                "lap", driver=driver, lap_time=round(lap_time, 4), sectors=[round(one, 4) for one in sectors]
            )
        self.channel.say(
            {"type": "lap", "car": car, "lap_time": lap_time, "sectors": sectors, "deltas": deltas, "valid": True}
        )

    def _publish(self) -> None:
        self._sequence += 1
        snapshot = self._view.snapshot(self.channel.cars)
        snapshot |= {"time": self._tick * self._world.settings.time_step, "sequence": self._sequence}
        self.channel.publish("snapshot", snapshot)

    def _begin(self) -> None:
        self._demonstration.cut()
        self._laps.restart()
        self._hands.release()
        self._env.reset(seed=0)
        self._is_waiting = True
        for seat in (self._grid.pilot, self._grid.rival):
            if seat is not None:
                seat.restart()

    def _pause(self) -> Answer:
        self._is_paused.set()
        return {}

    def _resume(self) -> Answer:
        self._is_paused.clear()
        return {}

    def _set_speed(self, factor: float | None) -> Answer:
        chosen = 1.0 if factor is None else float(factor)
        if not SLOWEST <= chosen <= FASTEST:
            raise InputError(f"speed is {factor}; allowed: {SLOWEST} to {FASTEST} times real time.")
        self._speed = chosen
        return {"factor": chosen}

    def _set_mode(self, mode: str, assist: float | None = None) -> Answer:
        if mode not in MODES:
            raise unknown_choice("mode", mode, MODES)
        if assist is not None and not 0.0 <= assist <= 1.0:
            raise InputError(f"assist is {assist}; allowed: a share from 0 to 1.")
        self._assist = self._assist if assist is None else float(assist)
        if mode != self._mode:
            self._demonstration.cut()
            self._grid.pilot.restart()
        self._mode = mode
        self._show_human()
        return {"mode": mode, "assist": self._assist}

    def _reset(self) -> Answer:
        self._begin()
        return {}

    def _set_ghost(self, kind: str, on: bool) -> Answer:
        if kind != "opponent" or self._grid.rival is None:
            raise InputError(f"there is no '{kind}' to be shown or hidden; allowed: opponent, where there is one.")
        self._view.hidden = set() if on else {1}
        return {"kind": kind, "on": bool(on)}

    def _show_human(self) -> None:
        self._view.human = None if self._mode == "ai" else 0

    # --- the channel's thread ---

    def welcome(self) -> dict[str, Any]:
        can = ["stop", *self._doings]
        return {"kind": "racing", "can": can, "status": self.status(), "ghosts": self._grid.ghosts}

    def scene(self, track: int) -> dict[str, Any]:
        return self._view.scene(0)

    def status(self) -> dict[str, Any]:
        world, rival = self._world, self._grid.rival
        last = float(world.last_lap_time[0])
        return {
            "status": "paused" if self._is_paused.is_set() else "running",
            "phase": None,
            "agent_steps": self._tick,
            "seconds": round(self._tick * world.settings.time_step, 2),
            "steps_per_second": round(self._speed / world.settings.time_step, 1),
            "speed": self._speed,
            "explore": None,
            "latest": {},
            "rewards": {},
            "mode": self._mode,
            "assist": self._assist,
            "driver": self._driver,
            "pilot": self._grid.pilot.name,
            "opponent": rival.name if rival is not None else None,
            "laps": self._lap_count,
            "is_waiting": self._is_waiting,
            "last_lap": last if math.isfinite(last) else None,
            "best_lap": self._best,
        }

    def input(self, message: dict[str, Any]) -> None:
        if message.get("is_released"):
            self._hands.release()
        else:
            self._hands.hear(float(message["steer"]), float(message["throttle"]), float(message["brake"]))

    def request(self, message: dict[str, Any], answer: Callable[[Answer], None]) -> None:
        command, by = str(message.get("command")), str(message.get("by", "channel"))
        if command == "stop":
            self.control.stop(by)
            answer({"ok": True})
        elif command in self._doings:
            self.control.ask(Request(command, dict(message.get("arguments") or {}), by, answer))
        else:
            raise unknown_choice("command", command, ["stop", *self._doings])


def session_folder(grid: Grid, request: DriveRequest) -> RunFolder:
    """A folder for what happens in a session, beside those of the runs."""
    name = f"drive-{grid.env.world.tracks[0].name.replace(':', '-')}"
    config = {
        "name": name,
        "track": grid.env.world.tracks[0].name,
        "car": grid.env.config.car,
        "against": request.against,
        "trained_on": grid.trained_on,
        "driver": request.driver,
        "environment": grid.env.config.to_dict(),
    }
    run = RunFolder.create(request.runs_dir / "drives", name, config, is_own=False)
    run.write_manifest(**manifest(config, seed=0))
    return run

"""A driving session: a racing world in real time with a person in one of its cars, reached through a channel."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from paddock.buffers.episodes import Episode
from paddock.control import messages as m
from paddock.control.session import LiveSession
from paddock.core.errors import InputError
from paddock.core.pace import RateLimit
from paddock.core.results import drives_folder
from paddock.experiments.run import RunFolder, manifest
from paddock.racing.drive.corrections import Corrections
from paddock.racing.drive.drivers import HumanInput, PolicyCarDriver
from paddock.racing.drive.race_record import RaceRecord
from paddock.racing.drive.recording import Demonstration, LapRecorder
from paddock.racing.drive.rescue import Rescue
from paddock.racing.drive.setup import DriveRequest, Grid


class DrivingSession(LiveSession):
    """On the grid it waits for the person's foot."""

    kind = "driving session"
    speeds = (0.1, 50.0)

    def __init__(self, grid: Grid, run: RunFolder, request: DriveRequest) -> None:
        super().__init__(run)
        self._grid, self._env, self._world = grid, grid.env, grid.env.world
        self._driver = request.driver
        self._view = grid.env.view
        self._input = HumanInput(grid.env._car)
        self._laps = LapRecorder(grid.env, request.laps_dir, request.driver)
        self._race = RaceRecord(grid.env, drives_folder(run.path), grid.ghosts)
        demonstration = run.path / "demonstration"
        self._demonstration = Demonstration(
            grid.env, grid.observations, grid.actions, grid.ticks_per_decision, demonstration, request.driver
        )
        self._own = Demonstration(
            grid.env, grid.observations, grid.actions, grid.ticks_per_decision, None, grid.pilot.name
        )
        self._rescue = Rescue(self._world, 1, grid.env._car.length) if grid.rival is not None else None
        self._corrections = corrections_of(grid, self._demonstration, run.path)
        if self._corrections is not None:
            self._demonstration.on_episode = self._learn_from
        self._mode, self._assist = request.mode, 0.5
        self._tick, self._sequence, self._lap_count = 0, 0, 0
        self._best: float | None = None
        self._lap_clock = 0.0  # s since the line, a tick ago
        self._snapshots = RateLimit()
        self._is_waiting = True  # on the grid
        self._commands |= {m.DriveMode: self._set_mode, m.ShowGhost: self._show_ghost}
        if grid.rival is not None:
            grid.env.let_drive(self)
        self._show_human()

    # --- the session's own thread ---

    @property
    def period(self) -> float:
        return self._world.settings.time_step

    def run(self) -> None:
        """From the grid on, until it is stopped or has had no viewer for a while."""
        self._race.write()
        self.begin()
        super().run()

    def finish(self) -> dict[str, Any]:
        self._demonstration.cut()
        if self._corrections is not None:
            self._corrections.finish()
        return {"laps": self._lap_count}

    def tick(self) -> None:
        """One step of the world; on the grid it waits for the person's foot."""
        if self._corrections is not None:
            self._corrections.follow()
        self._is_waiting &= self._mode == "manual" and not self._input.is_on_throttle
        if not self._is_waiting:
            self._advance()
        if self.channel.rate > 0.0 and self._snapshots.wait <= 0.0:
            self._snapshots.took(self.channel.rate)
            self._publish()

    def _advance(self) -> None:
        world, step = self._world, self._world.settings.time_step
        slip = float(np.arctan2(world.vy[0], max(float(world.vx[0]), 1.0)))
        by_hand = self._input.drive(step, float(world.vx[0]), slip)
        command = self._blended(by_hand)
        _, reward, _, _, _ = self._env.advance(command[None])
        self._tick += 1
        self._keep(command, float(reward[0]))
        if self._rescue is not None and self._rescue.watch(step):
            assert self._grid.rival is not None
            self._grid.rival.restart()
            self._run.event("opponent_put_back", tick=self._tick)

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
        elif self._corrections is not None and self._mode == "ai":
            self._own.watch(command, reward, is_end=False)
        is_sampled = self._tick % self._grid.ticks_per_decision == 0
        self._laps.watch(is_by_hand=is_by_hand, is_sampled=is_sampled)
        self._race.watch(self._names(), is_sampled=is_sampled)
        for car in np.flatnonzero(world.lap_completed):
            self._announce_lap(int(car))
        if world.lap_rejected[0]:
            self._laps.restart()
            self.channel.send(m.Lap(car=0, lap_time=self._lap_clock, valid=False))
        self._lap_clock = float(world.time[0] - world.lap_start[0])

    def _names(self) -> list[str]:
        """Who drives each car now."""
        own = self._driver if self._mode == "manual" else f"{self._driver}, {self._mode}"
        return [own] if self._grid.rival is None else [own, self._grid.rival.name]

    def _announce_lap(self, car: int) -> None:
        world = self._world
        lap_time = float(world.last_lap_time[car])
        sectors = [float(one) for one in world.last_sector_times[car]]
        reference = self._env.reference.laps[0]
        deltas = {"reference": [a - float(b) for a, b in zip(sectors, reference.sector_times, strict=True)]}
        if car == 0:
            self._lap_count += 1
            self._best = lap_time if self._best is None else min(self._best, lap_time)
            self._run.event(
                "lap", driver=self._names()[0], lap_time=round(lap_time, 4), sectors=[round(one, 4) for one in sectors]
            )
        self.channel.send(m.Lap(car=car, lap_time=lap_time, sectors=sectors, deltas=deltas))

    def _publish(self) -> None:
        self._sequence += 1
        time, cars = self._tick * self._world.settings.time_step, self._view.snapshot(self.channel.cars)
        self.channel.publish_snapshot(m.Snapshot(time=time, sequence=self._sequence, **cars))

    def begin(self) -> None:
        """Back to the grid."""
        self._demonstration.cut()
        self._own.cut()
        self._laps.restart()
        self._race.restart()
        self._input.release()
        self._env.reset(seed=0)
        if self._rescue is not None:
            self._rescue.restart()
        self._is_waiting = True
        for driver in (self._grid.pilot, self._grid.rival):
            if driver is not None:
                driver.restart()

    def _set_mode(self, command: m.DriveMode) -> m.Answer:
        self._assist = self._assist if command.assist is None else command.assist
        if command.mode != self._mode:
            self._hand_over(command.mode)
        self._mode = command.mode
        self._show_human()
        return {"mode": command.mode, "assist": self._assist}

    def _hand_over(self, mode: str) -> None:
        """Another driver has the controls from here on. Where a person takes over from a policy, that is a
        correction; where the policy gets them back, it learns from it."""
        pilot, is_correction = self._grid.pilot, self._mode == "ai" and mode == "manual"
        last_actions = self._demonstration.last_actions.copy()
        self._demonstration.cut()
        if self._corrections is None or not isinstance(pilot, PolicyCarDriver):
            pilot.restart()
            return
        self._own.on_episode = partial(self._corrections.add_own, was_corrected=is_correction)
        self._own.cut()
        if is_correction:
            self._demonstration.correct(pilot.last_actions)
            self._run.event("correction", tick=self._tick, by=self._driver)
        elif self._mode == "manual":
            pilot.take_over(last_actions)
        else:
            pilot.restart()

    def _learn_from(self, episode: Episode) -> None:
        if self._corrections is not None and self._demonstration.is_correction:
            self._corrections.add(episode)

    def _show_ghost(self, command: m.ShowGhost) -> m.Answer:
        if self._grid.rival is None:
            raise InputError(f"this session has no {command.kind}; start one with an opponent.")
        self._view.hidden = set() if command.on else {1}
        return {"kind": command.kind, "on": command.on}

    def _show_human(self) -> None:
        self._view.human = None if self._mode == "ai" else 0

    # --- the channel's thread ---

    def welcome(self) -> m.Welcome:
        return m.Welcome("racing", self.can(), self.status(), self._grid.ghosts)

    def scene(self, track: int) -> dict[str, Any]:
        return self._view.scene(0)

    def status(self) -> m.Status:
        world, rival = self._world, self._grid.rival
        last = float(world.last_lap_time[0])
        return m.Status(
            status="paused" if self.is_paused else "running",
            agent_steps=self._tick,
            seconds=round(self._tick * world.settings.time_step, 2),
            steps_per_second=round(self._speed / world.settings.time_step, 1),
            speed=self._speed,
            mode=self._mode,
            assist=self._assist,
            driver=self._driver,
            pilot=self._grid.pilot.name,
            opponent=rival.name if rival is not None else None,
            laps=self._lap_count,
            is_waiting=self._is_waiting,
            last_lap=last if math.isfinite(last) else None,
            best_lap=self._best,
            corrections=UNSET if self._corrections is None else self._corrections.status,
        )

    def input(self, message: m.DriverInput) -> None:
        if message.is_released:
            self._input.release()
        else:
            self._input.update(message.steer, message.throttle, message.brake)


def corrections_of(grid: Grid, demonstration: Demonstration, folder: Path) -> Corrections | None:
    """What learns from corrections, where the pilot is a policy that was cloned; None where it is not."""
    pilot = grid.pilot
    if not isinstance(pilot, PolicyCarDriver) or not pilot.is_cloned:
        return None
    return Corrections(pilot.actor, demonstration.spec, folder, grid.base.to_dict(), demonstration.time_step)


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

"""The twin's game in lock-step: frames, physics ticks, restarts, countdown, finish. No clock, no sockets."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from paddock.core.errors import InputError, unknown_choice
from paddock.environments.trackmania.packets import FORMATS, Packet
from paddock.environments.trackmania.pad import Button
from paddock.environments.trackmania.screen import Picture
from paddock.environments.trackmania.trajectory import Trajectory, resample
from paddock.environments.trackmania.twin.faults import Fault
from paddock.environments.trackmania.twin.ground import ground_of
from paddock.environments.trackmania.twin.picture import Cockpit
from paddock.sim.cars.car import load_car
from paddock.sim.settings import StartSettings, WorldSettings
from paddock.sim.tracks.sources import load_track
from paddock.sim.world import World

TICKS_PER_SECOND = 100
UP = 10.0  # m, the height of the road
HIGHEST_GEAR = 6.0
UNKNOWN_PACKET = b"PDK?" * 16  # a format that no client knows
STEERING = ("linear", "measured")
EDGES = ("wall", "grass")


@dataclass(frozen=True)
class TwinSettings:
    """What a twin is made with. Rates in Hz, times in s, sizes in pixels."""

    track: str = "default"
    car: str = "arcade"
    width: int = 256
    height: int = 128
    frame_rate: int = 60
    display_delay: int = 0  # frames
    countdown: float = 1.5
    protocol: int = 11  # floats of a packet
    steering: str = "linear"  # how the game bends the stick; "measured": dead up to a half, as a game was seen to do
    edge: str = "wall"
    seed: int = 0
    faults: tuple[Fault, ...] = field(default=())

    def __post_init__(self) -> None:
        _within("frame_rate", self.frame_rate, 30, 120)
        _within("display_delay", self.display_delay, 0, 2)
        _within("width", self.width, 32, 4_096)
        _within("height", self.height, 32, 4_096)
        _within("countdown", self.countdown, 0, 10)
        if self.protocol not in FORMATS:
            raise unknown_choice("protocol", str(self.protocol), [str(floats) for floats in FORMATS])
        if self.steering not in STEERING:
            raise unknown_choice("steering", self.steering, STEERING)
        if self.edge not in EDGES:
            raise unknown_choice("edge", self.edge, EDGES)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"a twin's {name} is {value}; allowed: {low} to {high}.")


class Stage(Enum):
    MENU = "menu"
    COUNTDOWN = "countdown"
    RACE = "race"
    DIALOG = "dialog"  # over a race, or over a finished one
    FINISHED = "finished"


class TwinGame:
    """One car on one track from a standing start to the end of a lap; `frame()` is the only thing that moves it."""

    def __init__(self, settings: TwinSettings) -> None:
        self.settings = settings
        self.track = load_track(settings.track).sized_for(load_car(settings.car).width)
        start = StartSettings(place="flying", at=0.0, speed=(0.0, 0.0))
        rules = WorldSettings(
            control_rate=TICKS_PER_SECOND, substeps=1, edge=settings.edge, laps_from="start", start=start
        )
        self.world = World(self.track, settings.car, settings=rules, seed=settings.seed)
        self._cockpit = Cockpit(ground_of(self.track), settings.width, settings.height)
        self._format = FORMATS[settings.protocol]
        self._faults = list(settings.faults)
        self._refusals = 0
        self.frames = self.restarts = 0
        self.lap_time = math.nan
        self.rumble = 0  # 0 to 255, of the newest frame
        self._buttons = Button(0)
        self._axes = (0.0, 0.0, 0.0)
        self._ticks = 0
        self._was_menu = self._was_dialog = False
        self.stage = Stage.COUNTDOWN
        self._race_ticks = 0  # 10 ms each, negative in the countdown
        self._distance = 0.0  # m driven
        self._is_finished = False
        self._applied = (0.0, 0.0, 0.0)
        self._poses: deque[tuple[float, float, float]] = deque(maxlen=settings.display_delay + 1)
        self._restart()

    @property
    def time(self) -> float:
        """Seconds that the twin has run."""
        return self.frames / self.settings.frame_rate

    def is_faulty(self, kind: str) -> bool:
        """Whether a fault is on now."""
        return any(fault.kind == kind and fault.begins <= self.time < fault.ends for fault in self._faults)

    def add_fault(self, kind: str, seconds: float = math.inf) -> None:
        """Begin a fault now."""
        self._faults.append(Fault(kind, self.time, self.time + seconds))

    def clear_faults(self) -> None:
        self._faults.clear()

    def use_pad(self, buttons: Button, axes: tuple[float, float, float]) -> None:
        """What the pad holds from now on: buttons act as they go down, (gas, brake, steer) at the next tick."""
        if self.is_faulty("pad"):
            return
        pressed = buttons & ~self._buttons
        self._buttons, self._axes = buttons, axes
        if Button.CONFIRM in pressed:
            self._confirm()
        if Button.RESTART in pressed and self.stage in (Stage.COUNTDOWN, Stage.RACE, Stage.FINISHED):
            self._ask_for_restart()

    def frame(self) -> None:
        """The next frame."""
        self.frames += 1
        self._follow_faults()
        due = self.frames * TICKS_PER_SECOND // self.settings.frame_rate
        self.rumble = 0
        while self._ticks < due:
            self._ticks += 1
            self._tick()
        if self._is_restart_due:
            self._restart()
        world = self.world
        self._poses.append((float(world.x[0]), float(world.y[0]), float(world.heading[0])))

    def packet(self) -> bytes | None:
        """What the plugin writes for this frame; None while it writes nothing."""
        if self.stage is Stage.MENU or self.is_faulty("stall"):
            return None
        return UNKNOWN_PACKET if self.is_faulty("protocol") else self._format.pack(self.telemetry())

    def telemetry(self) -> Packet:
        """The numbers of this frame."""
        world = self.world
        heading = float(world.heading[0])
        return Packet(
            number=self.frames,
            received=0,
            speed=math.hypot(float(world.vx[0]), float(world.vy[0])),
            distance=self._distance,
            position=(float(world.x[0]), UP, float(world.y[0])),
            steer=self._applied[2],
            gas=self._applied[0],
            brake=float(self._applied[1] > 0.0),
            is_finished=self._is_finished,
            gear=min(float(world.gear[0]), HIGHEST_GEAR),
            rpm=max(0.0, float(world.rpm[0])),
            direction=(math.cos(heading), 0.0, math.sin(heading)),
            race_time=max(0.0, self._race_ticks / TICKS_PER_SECOND),
        )

    def picture(self) -> Picture:
        """What the screen shows: the frame of `display_delay` frames ago, and what lies over it."""
        if self.stage is Stage.MENU:
            return self._cockpit.panel(4)
        picture = self._cockpit.draw(*self._poses[0])
        return self._cockpit.panel(2, picture) if self.stage is Stage.DIALOG else picture

    def centreline(self) -> Trajectory:
        """The middle of the road from the start to the finish, in the game's coordinates."""
        track = self.track
        around = np.append(np.arange(len(track.x)), 0)
        path = np.stack([track.x[around], np.full(len(around), UP), track.y[around]], axis=1)
        return Trajectory(resample(path), name=track.name)

    def _tick(self) -> None:
        if self.stage is Stage.COUNTDOWN:
            self._race_ticks += 1
            if self._race_ticks >= 0:
                self.stage = Stage.RACE
        elif self.stage is Stage.RACE:
            self._drive()
        else:
            self._applied = (0.0, 0.0, 0.0)

    def _drive(self) -> None:
        world, (gas, brake, steer) = self.world, self._axes
        self._applied = (gas, brake, bent(steer, self.settings.steering))
        # Paddock steers left positive, the game right.
        world.step([[-self._applied[2], min(max(gas - brake, -1.0), 1.0)]])
        self._race_ticks += 1
        self._distance += math.hypot(float(world.vx[0]), float(world.vy[0])) / TICKS_PER_SECOND
        if world.collided[0]:
            self.rumble = max(self.rumble, min(255, 120 + int(10 * world.impact[0])))
        if world.lap_count[0] > 0:
            self.lap_time, self._is_finished = float(world.last_lap_time[0]), True
            self.stage = Stage.DIALOG

    def _confirm(self) -> None:
        if self.stage is Stage.DIALOG:
            self.stage = Stage.FINISHED if self._is_finished else Stage.RACE

    def _ask_for_restart(self) -> None:
        self._refusals += 1
        if self.is_faulty("refuse") or (self.is_faulty("refuse_once") and self._refusals == 1):
            return
        self._is_restart_due = True  # with the next frame, so that its countdown begins on one

    def _restart(self) -> None:
        self.world.reset()
        self._is_restart_due = False
        self.restarts += 1
        self.stage = Stage.COUNTDOWN
        self._race_ticks = -round(self.settings.countdown * TICKS_PER_SECOND)
        self._distance, self._is_finished, self._applied = 0.0, False, (0.0, 0.0, 0.0)
        pose = (float(self.world.x[0]), float(self.world.y[0]), float(self.world.heading[0]))
        self._poses.extend([pose] * (self.settings.display_delay + 1))

    def _follow_faults(self) -> None:
        is_menu, is_dialog = self.is_faulty("menu"), self.is_faulty("dialog")
        if is_menu:
            self.stage = Stage.MENU
        elif self._was_menu:
            self._restart()  # The person has gone back to the race.
        if is_dialog and not self._was_dialog and self.stage in (Stage.RACE, Stage.COUNTDOWN):
            self.stage = Stage.DIALOG
        self._was_menu, self._was_dialog = is_menu, is_dialog


def bent(stick: float, steering: str) -> float:
    """What the game makes of a stick: itself, or nothing up to a half and then ever more, up to full lock."""
    if steering == "linear":
        return stick
    return math.copysign(max(0.0, (abs(stick) - 0.5) / 0.5) ** 2.565, stick)  # 0.06 at two thirds

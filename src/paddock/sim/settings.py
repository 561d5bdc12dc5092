"""The choices of a world and its sensors: frozen records, checked on construction, SI units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.errors import InputError, unknown_choice
from paddock.sim.cars.car import checked_ranges
from paddock.sim.layout import LANES

EDGES = ("grass", "wall", "crash")
OBSTACLE_EFFECTS = ("solid", "crash", "ghost")
STARTS = ("random", "grid", "flying")
LAP_ORIGINS = ("line", "start")
COURSE_KINDS = ("points", "curvature")
CAMERA_VIEWS = ("bonnet", "above")
TELEMETRY = (
    "speed",  # m/s
    "gear",  # 1 to 8, 0 in reverse
    "rpm",
    "yaw_rate",  # rad/s
    "slip",  # rad, angle between nose and motion, left positive
    "steer",  # rad, at the wheels
    "longitudinal_acceleration",  # m/s2
    "lateral_acceleration",  # m/s2
    "last_steer",  # -1 to 1, the action as it reached the car
    "last_throttle",  # -1 to 1
)

# What the instruments of a full-size car read at most. Those not named are exact: the gear and the actions are known.
FULL_READINGS: Mapping[str, float] = {
    "speed": 60.0, "rpm": 12_000.0, "yaw_rate": 4.0, "slip": 0.8, "steer": 0.5,
    "longitudinal_acceleration": 25.0, "lateral_acceleration": 25.0,
}  # fmt: skip


def _require(holds: bool, name: str, given: Any, allowed: str) -> None:
    if not holds:
        raise InputError(f"{name} is {given}; allowed: {allowed}.")


def _choose(kind: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise unknown_choice(kind, given, allowed)


@dataclass(frozen=True)
class Imperfection:
    """What goes wrong between the world and a reading of it. All zero is a perfect sensor, and costs nothing.

    noise: standard deviation, in the sensor's unit (for the camera in grey levels of 255, for telemetry as a share of
    what each instrument reads at most).
    dropout: chance per step that a reading is lost. A lost ray reads its full range; any other sensor keeps
    its last reading as a whole.
    latency: control steps by which readings arrive late.
    """

    noise: float = 0.0
    dropout: float = 0.0
    latency: int = 0

    def __post_init__(self) -> None:
        _require(self.noise >= 0.0, "noise", self.noise, "a number of at least 0")
        _require(0.0 <= self.dropout < 1.0, "dropout", self.dropout, "a chance from 0 to below 1")
        _require(0 <= self.latency <= 20, "latency", self.latency, "0 to 20 control steps")


PERFECT = Imperfection()


@dataclass(frozen=True)
class RaySettings:
    """Distances [m] from the car to the first road edge, obstacle or other car.

    angles: rad from the nose, left positive; or `count` rays spread evenly over `fan` rad, rightmost first.
    """

    count: int = 19
    fan: float = math.pi
    angles: tuple[float, ...] = ()
    range: float = 100.0
    mount: float = 0.0  # m ahead of the centre of gravity
    history: int = 1
    imperfection: Imperfection = PERFECT

    def __post_init__(self) -> None:
        _require(1 <= self.ray_count <= 1080, "count of rays", self.ray_count, "1 to 1080")
        _require(self.range > 0.0, "range of rays", self.range, "a number of metres above 0")
        _require(1 <= self.history <= 16, "history of rays", self.history, "1 to 16 readings")

    @property
    def ray_count(self) -> int:
        """How many rays there are."""
        return len(self.angles) or self.count

    def ray_angles(self) -> NDArray[np.float64]:
        """[R] rad from the nose, left positive."""
        if self.angles:
            return np.array(self.angles, np.float64)
        if self.count == 1:
            return np.zeros(1)
        return np.linspace(-self.fan / 2, self.fan / 2, self.count)


@dataclass(frozen=True)
class CourseSettings:
    """The road ahead at `count` places, evenly spaced in the time to reach them at the present speed.

    kind "points": (forward, left) m of the centreline in the car's frame, and the road's left and right width m:
    [N, count, 4]. kind "curvature": curvature 1/m and the two widths: [N, count, 3].
    """

    count: int = 10
    horizon: float = 3.0  # s to the last point
    least_speed: float = 5.0  # m/s, the spacing never falls below this speed's
    kind: str = "points"
    history: int = 1
    imperfection: Imperfection = PERFECT

    def __post_init__(self) -> None:
        _choose("kind of course", self.kind, COURSE_KINDS)
        _require(1 <= self.count <= 200, "count of course points", self.count, "1 to 200")
        _require(self.horizon > 0.0, "horizon of the course", self.horizon, "seconds above 0")

    @property
    def channels(self) -> int:
        """Numbers per point."""
        return 4 if self.kind == "points" else 3


@dataclass(frozen=True)
class TelemetrySettings:
    """The car's own instruments, in the order of `TELEMETRY`.

    Their noise is a share of what each reads at most, by name in `full`, and `relative_noise` a share of the reading on
    top of it (a wheel of the wrong size); an instrument that is not in `full` has neither.
    """

    history: int = 1
    relative_noise: float = 0.0
    full: Mapping[str, float] = field(default_factory=lambda: dict(FULL_READINGS))
    imperfection: Imperfection = PERFECT

    def __post_init__(self) -> None:
        _require(self.relative_noise >= 0.0, "relative_noise", self.relative_noise, "a share of at least 0")
        for name in self.full:
            _choose("instrument", name, TELEMETRY)


@dataclass(frozen=True)
class CameraSettings:
    """A picture per car, uint8 [N, history, height, width, channels].

    view "bonnet": perspective on the ground plane, `mount_height` m up, pitched down by `pitch` rad.
    view "above": from straight above, nose up, `span` m of ground over the picture's height.
    """

    width: int = 64
    height: int = 64
    view: str = "bonnet"
    colour: bool = True
    field_of_view: float = 1.2  # rad, horizontal
    mount_height: float = 2.2  # m above the ground
    mount: float = 0.3  # m ahead of the centre of gravity
    pitch: float = 0.22  # rad, down
    span: float = 50.0  # m
    view_range: float = 150.0  # m, nothing is drawn beyond
    history: int = 1
    imperfection: Imperfection = PERFECT

    def __post_init__(self) -> None:
        _choose("camera view", self.view, CAMERA_VIEWS)
        for name in ("width", "height"):
            _require(8 <= getattr(self, name) <= 1024, f"camera {name}", getattr(self, name), "8 to 1024 pixels")
        _require(0.1 <= self.field_of_view <= 2.8, "field of view", self.field_of_view, "0.1 to 2.8 rad")

    @property
    def channels(self) -> int:
        """3 for RGB, 1 for grey."""
        return 3 if self.colour else 1


@dataclass(frozen=True)
class StartSettings:
    """Where and how fast an episode begins.

    place "random": anywhere on the lap. "grid": standing behind the line, two by two. "flying": at `at` metres
    after the line. `lateral` is the share of the free half road to spread over, `heading` rad the spread of the
    nose; the speed is uniform in `speed` m/s (a grid start always stands).
    """

    place: str = "random"
    at: float = 0.0
    lateral: float = 0.0
    heading: float = 0.0
    speed: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        _choose("start", self.place, STARTS)
        _require(0.0 <= self.lateral <= 1.0, "lateral spread of starts", self.lateral, "a share from 0 to 1")
        low, high = self.speed
        _require(0.0 <= low <= high, "speed of starts", self.speed, "(low, high) m/s with 0 <= low <= high")


@dataclass(frozen=True)
class WorldSettings:
    """Everything a world can be told apart from its tracks and its cars."""

    control_rate: float = 20.0  # Hz
    substeps: int = 5
    edge: str = "grass"  # beyond the road: grass is slow and slippery, a wall stops, a crash freezes the car
    crash_corners: int = 1  # edge "crash": corners beyond the edge that make a crash
    grass_grip: float = 0.6  # share of the grip
    grass_drag: float = 0.25  # resistance as a share of the weight
    obstacles: str = "solid"
    allow_reverse: bool = True
    gates: int = 24  # per lap, a multiple of `sectors`
    sectors: int = 3
    lap_history: int = 8
    laps_from: str = "line"  # or "start": laps are counted and timed from where the car began
    action_delay: int = 0  # control steps
    action_jitter: int = 0  # up to that many further steps, drawn anew each step
    substep_actions: bool = False  # actions are given for every substep
    group_size: int = 1  # cars that share a road
    contact: bool = True  # cars of a group touch (no meaning for groups of one)
    start: StartSettings = StartSettings()
    randomise: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # factors, drawn at each reset
    random_track: bool = False  # draw one of the tracks at each reset (groups of one only)
    rays: RaySettings | None = None
    course: CourseSettings | None = None
    telemetry: TelemetrySettings | None = None
    camera: CameraSettings | None = None

    def __post_init__(self) -> None:
        _choose("edge", self.edge, EDGES)
        _choose("effect of obstacles", self.obstacles, OBSTACLE_EFFECTS)
        _choose("origin of laps", self.laps_from, LAP_ORIGINS)
        _require(self.control_rate > 0, "control_rate", self.control_rate, "a rate above 0 Hz")
        _require(1 <= self.substeps <= 64, "substeps", self.substeps, "1 to 64")
        _require(1 <= self.crash_corners <= 4, "crash_corners", self.crash_corners, "1 to 4")
        _require(0 < self.grass_grip <= 1, "grass_grip", self.grass_grip, "a share above 0, at most 1")
        _require(self.sectors >= 1, "sectors", self.sectors, "at least 1")
        divides = self.gates >= self.sectors and self.gates % self.sectors == 0
        _require(divides, "gates", self.gates, f"a multiple of the {self.sectors} sectors")
        _require(self.lap_history >= 1, "lap_history", self.lap_history, "at least 1")
        _require(0 <= self.action_delay <= 20, "action_delay", self.action_delay, "0 to 20 control steps")
        _require(0 <= self.action_jitter <= 20, "action_jitter", self.action_jitter, "0 to 20 control steps")
        is_direct = not self.substep_actions or self.action_delay + self.action_jitter == 0
        _require(is_direct, "substep_actions", self.substep_actions, "false with an action_delay or action_jitter")
        _require(1 <= self.group_size <= LANES, "group_size", self.group_size, f"1 to {LANES} cars")
        alone = self.group_size == 1 or not self.random_track
        _require(alone, "random_track", self.random_track, "false when cars race in groups")
        checked_ranges(self.randomise)

    @property
    def time_step(self) -> float:
        """Seconds per control step."""
        return 1.0 / self.control_rate

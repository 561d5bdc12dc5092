"""TrackMania as real-time interfaces: images, pixel lidar, pixel lidar with progress; in TMRL's numbers or scaled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from paddock.environments.realtime.clock import Clock, WallClock
from paddock.environments.trackmania.calibration import SteeringCurve
from paddock.environments.trackmania.images import Resizer, seen
from paddock.environments.trackmania.lidar import BEAMS, DARK, PixelLidar
from paddock.environments.trackmania.link import GameLink, LinkSettings, connect
from paddock.environments.trackmania.packets import Packet
from paddock.environments.trackmania.race import GameError, Race, RaceSettings
from paddock.environments.trackmania.reward import TrackManiaRewardConfig, TrajectoryReward
from paddock.environments.trackmania.screen import Picture
from paddock.environments.trackmania.trajectory import Trajectory

# What the normalised parts are divided by.
FULL_SPEED = 100.0  # m/s
FULL_GEAR = 10.0
FULL_RPM = 10_000.0

OUTCOMES = ("finish", "failure", "lost")
Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class InterfaceSettings:
    """lost_after: s without telemetry that end an episode. threshold: of the lidar. tmrl_numbers: nothing is scaled."""

    link: LinkSettings = field(default_factory=LinkSettings)
    race: RaceSettings = field(default_factory=RaceSettings)
    reward: TrackManiaRewardConfig = field(default_factory=TrackManiaRewardConfig)
    step_time: float = 0.05
    history: int = 4
    image_size: tuple[int, int] | None = (64, 64)  # height, width; None is the window's
    grayscale: bool = True
    threshold: int = DARK
    tmrl_numbers: bool = False
    lost_after: float = 1.0
    curve: SteeringCurve | None = None
    trajectory: Callable[[], Trajectory] | None = None


class TrackManiaInterface:
    """What the three interfaces share. The game is only touched from the first reset on.

    `info` has `outcome` (of `OUTCOMES`, or empty), `progress` (share of the trajectory), `lap_time` s (NaN until the
    finish), `telemetry_age` s, and `reward_terms`.
    """

    observation_names: ClassVar[tuple[str, ...]]

    def __init__(self, settings: InterfaceSettings) -> None:
        self.settings = settings
        self._clock: Clock = WallClock()
        self._link: GameLink | None = None
        self._race: Race | None = None
        self._reward: TrajectoryReward | None = None
        self._weights: dict[str, float] = {}
        self._number = 0
        self._last: Arrays = []
        self._picture: Picture | None = None

    def use_clock(self, clock: Clock) -> None:
        self._clock = clock

    def get_observation_space(self) -> spaces.Tuple:
        raise NotImplementedError

    def get_action_space(self) -> spaces.Box:
        return spaces.Box(-1.0, 1.0, (3,), np.float32)

    def get_default_action(self) -> NDArray[np.float32]:
        return np.zeros(3, np.float32)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        link, race = self._connected()
        packet = race.restart()
        link.pad.rumbled()
        self._number = packet.number
        if self._reward is not None:
            self._reward.reset()
        self._picture = link.screen.grab()
        self._begin(self._picture)
        self._last = self._observation(packet)
        return self._last, self._info(packet, outcome="")

    def send_control(self, control: NDArray[Any] | None) -> None:
        if control is None or self._link is None:
            return
        gas, brake, steer = np.clip(control, -1.0, 1.0).tolist()
        curve = self.settings.curve
        self._link.pad.apply(max(0.0, gas), max(0.0, brake), steer if curve is None else curve.stick_for(steer))

    def get_obs_rew_terminated_info(self) -> tuple[Arrays, float, bool, dict[str, Any]]:
        link, _ = self._connected()
        self._picture = link.screen.grab()
        packet = link.telemetry.wait(self._number, self.settings.lost_after)
        if packet is None:
            newest = link.telemetry.newest
            assert newest is not None
            return self._last, 0.0, True, self._info(newest, outcome="lost")
        # A lap is timed by its first packet of the finish, not by the one that this step reads.
        finished = [one for one in link.telemetry.since(self._number) if one.is_finished]
        packet = finished[0] if finished else packet
        self._number = packet.number
        self._see(self._picture)
        reward, outcome, terms = 0.0, "finish" if packet.is_finished else "", {}
        if self._reward is not None:
            step = self._reward.step(packet, link.pad.rumbled())
            reward, terms = step.reward, dict(step.terms)
            outcome = outcome or ("failure" if step.has_failed else "")
        self._last = self._observation(packet)
        return self._last, reward, bool(outcome), self._info(packet, outcome, terms)

    def wait(self) -> None:
        """An episode is over: let the car roll."""
        self.send_control(self.get_default_action())

    def render(self) -> Picture:
        """The newest picture, red first."""
        assert self._picture is not None, "an environment is reset before it is drawn"
        return np.ascontiguousarray(self._picture[:, :, ::-1])

    def close(self) -> None:
        if self._link is not None:
            self._link.pad.apply(0.0, 0.0, 0.0)
            self._link.close()
            self._link = None

    def set_reward_weight(self, name: str, value: float) -> None:
        """Change what a term of the reward is worth."""
        self._weights[name] = value
        if self._reward is not None:
            self._reward.set_weight(name, value)

    def _connected(self) -> tuple[GameLink, Race]:
        settings = self.settings
        if self._link is None:
            trajectory = settings.trajectory() if settings.trajectory is not None else None
            if trajectory is not None:
                self._reward = TrajectoryReward(trajectory, settings.reward, settings.step_time)
                for name, value in self._weights.items():
                    self._reward.set_weight(name, value)
            self._link = connect(settings.link, self._clock)
            start = None if trajectory is None else tuple(trajectory.points[0].tolist())
            self._race = Race(self._link, settings.race, start)
        if self._race is None:
            raise GameError("the game has not been reset.")
        return self._link, self._race

    def _info(self, packet: Packet, outcome: str, terms: dict[str, float] | None = None) -> dict[str, Any]:
        assert self._link is not None
        assert self._race is not None
        lap_time = self._race.lap_time(packet) if packet.is_finished else float("nan")
        progress = self._reward.share if self._reward is not None else 0.0
        return {
            "outcome": outcome,
            "lap_time": lap_time,
            "progress": progress,
            "speed": packet.speed,
            "position": packet.position,
            "telemetry_age": self._link.telemetry.age,
            "reward_terms": terms or {},
        }

    def _scaled(self, value: float, full: float) -> NDArray[np.float32]:
        return np.array([value if self.settings.tmrl_numbers else value / full], np.float32)

    def _scale(self, high: float, full: float) -> spaces.Box:
        return spaces.Box(0.0, high if self.settings.tmrl_numbers else high / full, (1,), np.float32)

    def _speed_space(self) -> spaces.Box:
        return self._scale(1_000.0, FULL_SPEED)

    def _begin(self, picture: Picture) -> None:
        """Fill histories with the first picture."""
        raise NotImplementedError

    def _see(self, picture: Picture) -> None:
        """Take a further picture into the histories."""
        raise NotImplementedError

    def _observation(self, packet: Packet) -> Arrays:
        raise NotImplementedError


class FullInterface(TrackManiaInterface):
    """Speed, gear, rpm and the last pictures, oldest first: uint8 [history, h, w].

    In colour they are [history, h, w, 3] in TMRL's numbers, and otherwise [3 * history, h, w], as networks read them:
    red, green and blue of the oldest one first.
    """

    observation_names = ("speed", "gear", "rpm", "images")

    def __init__(self, settings: InterfaceSettings) -> None:
        super().__init__(settings)
        size = settings.image_size
        self._resize = None if size is None else Resizer(*size)
        self._images: deque[Picture] = deque(maxlen=settings.history)

    def get_observation_space(self) -> spaces.Tuple:
        settings = self.settings
        size = settings.image_size or (settings.link.height, settings.link.width)
        shape: tuple[int, ...] = (settings.history, *size)
        if not settings.grayscale:
            shape = (*shape, 3) if settings.tmrl_numbers else (3 * settings.history, *size)
        images = spaces.Box(0, 255, shape, np.uint8)
        return spaces.Tuple((self._speed_space(), self._scale(6.0, FULL_GEAR), self._scale(np.inf, FULL_RPM), images))

    def _begin(self, picture: Picture) -> None:
        image = seen(picture, self._resize, self.settings.grayscale)
        self._images.extend([image] * self.settings.history)

    def _see(self, picture: Picture) -> None:
        self._images.append(seen(picture, self._resize, self.settings.grayscale))

    def _observation(self, packet: Packet) -> Arrays:
        numbers = ((packet.speed, FULL_SPEED), (packet.gear, FULL_GEAR), (packet.rpm, FULL_RPM))
        images = np.stack(self._images)
        if not self.settings.grayscale and not self.settings.tmrl_numbers:
            images = np.moveaxis(images, 3, 1).reshape(-1, *images.shape[1:3])
        return [*(self._scaled(value, full) for value, full in numbers), images]


class LidarInterface(TrackManiaInterface):
    """Speed and the last readings of the pixel lidar, oldest first: float32 [history, 19], beams from right to left."""

    observation_names: ClassVar[tuple[str, ...]] = ("speed", "rays")

    def __init__(self, settings: InterfaceSettings) -> None:
        super().__init__(settings)
        self._lidar = PixelLidar(settings.link.height, settings.link.width, settings.threshold)
        self._full = 1.0 if settings.tmrl_numbers else float(self._lidar.samples.max())
        self._rays: deque[NDArray[np.float32]] = deque(maxlen=settings.history)

    def get_observation_space(self) -> spaces.Tuple:
        return spaces.Tuple((self._speed_space(), self._rays_space()))

    def _rays_space(self) -> spaces.Box:
        high = np.inf if self.settings.tmrl_numbers else 1.0
        return spaces.Box(0.0, high, (self.settings.history, BEAMS), np.float32)

    def _begin(self, picture: Picture) -> None:
        self._rays.extend([self._read(picture)] * self.settings.history)

    def _see(self, picture: Picture) -> None:
        self._rays.append(self._read(picture))

    def _read(self, picture: Picture) -> NDArray[np.float32]:
        return self._lidar.read(picture) / np.float32(self._full)

    def _observation(self, packet: Packet) -> Arrays:
        return [self._scaled(packet.speed, FULL_SPEED), np.stack(self._rays)]


class LidarProgressInterface(LidarInterface):
    """Speed, the share of the trajectory that lies behind, and the last readings of the lidar."""

    observation_names = ("speed", "progress", "rays")

    def get_observation_space(self) -> spaces.Tuple:
        return spaces.Tuple((self._speed_space(), spaces.Box(0.0, 1.0, (1,), np.float32), self._rays_space()))

    def _observation(self, packet: Packet) -> Arrays:
        speed, rays = super()._observation(packet)
        share = self._reward.share if self._reward is not None else 0.0
        return [speed, np.array([share], np.float32), rays]


INTERFACES: dict[str, type[TrackManiaInterface]] = {
    "full": FullInterface,
    "lidar": LidarInterface,
    "lidar_progress": LidarProgressInterface,
}

"""`environment=trackmania`: the game or its twin as a vector environment of one copy, in real or virtual time."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from paddock.config.schema import Schema
from paddock.core.errors import InputError
from paddock.environments.base import SingleCopyError
from paddock.environments.realtime.env import CLOCKS, RealTimeConfig, RealTimeVectorEnv
from paddock.environments.realtime.loop import RealTimeLoop
from paddock.environments.trackmania.calibration import load_curve
from paddock.environments.trackmania.interfaces import INTERFACES, InterfaceSettings, TrackManiaInterface
from paddock.environments.trackmania.link import LinkSettings
from paddock.environments.trackmania.race import RaceSettings
from paddock.environments.trackmania.reward import TrackManiaRewardConfig
from paddock.environments.trackmania.trajectory import Trajectory, load_trajectory
from paddock.environments.trackmania.twin.game import TwinGame, TwinSettings

TIME_OUT, LOST, FAILURE, FINISH = "time_out", "lost", "failure", "finish"
RESET_MARGIN = 60.0  # s beyond the pause that a reset may take


class TwinConfig(Schema):
    """What a twin is made with that is started for the environment."""

    track: str = "default"
    car: str = "arcade"
    frame_rate: int = Field(default=60, ge=30, le=120)
    display_delay: int = Field(default=0, ge=0, le=2)
    countdown: float = Field(default=1.5, ge=0, le=10)
    protocol: Literal[11, 14, 33] = 11
    steering: Literal["linear", "measured"] = "linear"
    edge: Literal["wall", "grass"] = "wall"


class TrackManiaConfig(RealTimeConfig):
    """Options of the game, on top of those of any real-time environment."""

    interface: Literal["full", "lidar", "lidar_progress"] = "lidar"
    game: Literal["trackmania", "twin"] = "trackmania"
    port: int | None = Field(default=None, ge=1, le=65_000)
    pad: Literal["gamepad", "keyboard"] = "gamepad"
    window_width: int = Field(default=256, ge=32, le=4_096)
    window_height: int = Field(default=128, ge=32, le=4_096)
    image_width: int | None = Field(default=64, ge=8)
    image_height: int | None = Field(default=64, ge=8)
    grayscale: bool = True
    history: int = Field(default=4, ge=1, le=16)
    lidar_threshold: int = Field(default=55, ge=1, le=255)
    numbers: Literal["normalized", "tmrl"] = "normalized"
    trajectory: str | None = None
    calibration: str | None = None
    reward: TrackManiaRewardConfig = TrackManiaRewardConfig()
    failure_truncates: bool = False
    sleep_at_reset: float = Field(default=1.5, ge=0, le=60)
    reset_retries: int = Field(default=2, ge=0, le=20)
    pause_seconds: float = Field(default=10.0, ge=0)
    lost_after: float = Field(default=1.0, gt=0)
    twin: TwinConfig = TwinConfig()

    @model_validator(mode="after")
    def _check(self) -> TrackManiaConfig:
        if self.game == "trackmania" and self.clock == "virtual":
            raise ValueError("clock=virtual needs game=twin: the game itself lives in real time")
        if (self.image_width is None) != (self.image_height is None):
            raise ValueError("image_width and image_height are both numbers, or both null for the window's size")
        if self.game == "twin" and self.clock == "virtual" and self.port is not None:
            raise ValueError("clock=virtual makes a twin of its own; leave port out")
        if self.interface_args or self.interface_kwargs:
            raise ValueError("interface_args and interface_kwargs belong to environment=realtime; leave them out")
        return self

    def twin_settings(self) -> TwinSettings:
        """Of a twin that is started for this environment."""
        return TwinSettings(width=self.window_width, height=self.window_height, **self.twin.model_dump())

    def link_settings(self) -> LinkSettings:
        """How the game is reached."""
        return LinkSettings(
            self.game, self.port, self.pad, self.window_width, self.window_height, twin=self.twin_settings()
        )

    def interface_settings(self) -> InterfaceSettings:
        """What the interface is made with."""
        size = None if self.image_height is None or self.image_width is None else (self.image_height, self.image_width)
        return InterfaceSettings(
            link=self.link_settings(),
            race=RaceSettings(self.sleep_at_reset, retries=self.reset_retries, pause_seconds=self.pause_seconds),
            reward=self.reward,
            step_time=self.time_step_duration,
            history=self.history,
            image_size=size,
            grayscale=self.grayscale,
            threshold=self.lidar_threshold,
            tmrl_numbers=self.numbers == "tmrl",
            lost_after=self.lost_after,
            curve=None if self.calibration is None else load_curve(Path(self.calibration).expanduser()),
            trajectory=partial(trajectory_of, self),
        )


def trajectory_of(config: TrackManiaConfig) -> Trajectory:
    """The path that the reward is measured along: the given file, or the middle of a twin's own road."""
    if config.trajectory is not None:
        return load_trajectory(Path(config.trajectory).expanduser())
    if config.game == "twin" and config.port is None:
        return TwinGame(config.twin_settings()).centreline()
    raise InputError(
        "the reward needs a trajectory: drive one with `paddock record trajectory FILE` and set "
        "environment.trajectory=FILE."
    )


def make(config: TrackManiaConfig, num_envs: int, render_mode: str | None = None) -> TrackManiaVectorEnv:
    """The game, or its twin, that the configuration names."""
    if num_envs != 1:
        raise SingleCopyError(
            f"TrackMania is there once, and {num_envs} copies are asked for; ask for one, such as by "
            "environment.num_envs=1."
        )
    if config.game == "trackmania" and config.trajectory is None:
        trajectory_of(config)  # raises what is missing before anything is started
    build = partial(INTERFACES[config.interface], config.interface_settings())
    timeout = config.reset_timeout
    patient = config.model_copy(update={"reset_timeout": timeout and max(timeout, config.pause_seconds + RESET_MARGIN)})
    loop = RealTimeLoop(build, patient.loop_settings(), CLOCKS[config.clock](), f"trackmania {config.interface}")
    return TrackManiaVectorEnv(loop, config, render_mode)


class TrackManiaVectorEnv(RealTimeVectorEnv):
    """Adds how an episode ended: `info["outcome"]` is finish, failure, lost or time_out at its end.

    `final_info` has each of them as 0 or 1, `lap_time` s (NaN without a finish) and `progress`. A lost game never
    terminates an episode, and neither does a failure with `failure_truncates`: both truncate.
    """

    def __init__(self, loop: RealTimeLoop, config: TrackManiaConfig, render_mode: str | None = None) -> None:
        names, excludes = config.observation_names, config.exclude_overruns
        super().__init__(loop, names=names, render_mode=render_mode, exclude_overruns=excludes)
        self._failure_truncates = config.failure_truncates
        self._terms: dict[str, float] = {}
        self._last_progress = 0.0

    @property
    def interface(self) -> TrackManiaInterface:
        interface: TrackManiaInterface = self.loop.interface
        return interface

    def set_reward_weight(self, name: str, value: float) -> None:
        """Change what a term of the reward is worth; it counts from the next step."""
        self.interface.set_reward_weight(name, value)

    def reset(self, **options: Any) -> tuple[dict[str, NDArray], dict[str, Any]]:
        self._terms, self._last_progress = {}, 0.0
        observation, info = super().reset(**options)
        return observation, _without_objects(info)

    def step(self, actions: NDArray) -> tuple[dict[str, NDArray], NDArray, NDArray, NDArray, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(actions)
        outcome = str(info["outcome"][0]) if "outcome" in info else ""
        if truncated[0]:
            outcome = LOST if info["realtime"]["reason"][0] else TIME_OUT
        if outcome == LOST or (outcome == FAILURE and self._failure_truncates):
            terminated, truncated = np.zeros(1, bool), np.ones(1, bool)
        terms = info["reward_terms"][0] if "reward_terms" in info else {}
        for name, value in terms.items():
            self._terms[name] = self._terms.get(name, 0.0) + value
        info = _without_objects(info)
        info["reward_terms"] = {name: np.array([value]) for name, value in terms.items()}
        info["outcome"] = np.array([outcome], object)
        self._last_progress = float(info["progress"][0]) if "progress" in info else self._last_progress
        if terminated[0] or truncated[0]:
            info["final_info"] = self._final_info(outcome, info)
        return observation, reward, terminated, truncated, info

    def _final_info(self, outcome: str, info: dict[str, Any]) -> dict[str, Any]:
        lap_time = float(info["lap_time"][0]) if outcome == FINISH else math.nan
        numbers = {name: float(outcome == name) for name in (FINISH, FAILURE, LOST, TIME_OUT)}
        numbers |= {"lap_time": lap_time, "progress": self._last_progress}
        return {
            **{name: np.array([value]) for name, value in numbers.items()},
            "reward_terms": {name: np.array([value]) for name, value in self._terms.items()},
            "realtime": info["final_info"]["realtime"],
        }


def _without_objects(info: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if name not in ("reward_terms",)}

"""The options of the racing environment: one schema for YAML, `gymnasium.make` keywords and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from paddock.config.schema import Schema, Target
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.environments.base import EnvironmentConfig
from paddock.environments.delays import Delays
from paddock.racing.env.rewards import RewardConfig, reward_config
from paddock.sim.layout import LANES

TARGET = "paddock.racing.env.vector.make"
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Metres = Annotated[float, Field(gt=0.0)]


def _reward_by_name(given: Any) -> Any:
    try:
        return reward_config(given)
    except InputError as error:
        raise PydanticCustomError("reward", "{message}", {"message": str(error)}) from error


class Start(Schema):
    """Where and how fast episodes begin. Speeds are shares of the car's top speed."""

    place: Literal["random", "grid", "flying"] = "random"
    at: float = 0.0
    lateral: Share = 0.3
    heading: float = Field(default=0.05, ge=0.0)
    speed: tuple[Share, Share] = (0.0, 0.15)


class Sensing(Schema):
    """What the sensors are, and what goes wrong on the way from them."""

    rays: int | None = Field(default=None, ge=1, le=1080)
    ray_range: float | None = Field(default=None, gt=0.0)
    ray_scale: Literal["linear", "log"] = "linear"
    ray_history: int | None = Field(default=None, ge=1, le=16)
    motion: bool = False
    course_points: int = Field(default=10, ge=1, le=200)
    course_horizon: float = Field(default=3.0, gt=0.0)
    progress: int = Field(default=0, ge=0, le=12)
    camera_size: int = Field(default=64, ge=8, le=1024)
    camera_view: Literal["bonnet", "above"] = "bonnet"
    camera_span: float | None = Field(default=None, gt=0.0)
    camera_colour: bool = True
    camera_history: int = Field(default=1, ge=1, le=16)
    noise: float = Field(default=0.0, ge=0.0)
    relative_noise: float = Field(default=0.0, ge=0.0)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    latency: int = Field(default=0, ge=0, le=20)
    last_actions: int = Field(default=2, ge=0, le=32)


class Opponents(Schema):
    """Other cars on the same road."""

    count: int = Field(default=0, ge=0, le=LANES - 1)
    driver: str = "classical"
    pace: float = Field(default=0.9, gt=0.0, le=1.0)
    contact: bool = True


class Picture(Schema):
    """What `render()` draws."""

    width: int = Field(default=640, ge=64)
    height: int = Field(default=480, ge=64)
    camera: Literal["follow", "north_up", "track"] = "follow"
    rays: bool = False
    line: bool = False
    hud: bool = True
    minimap: bool = True
    ghosts: int = Field(default=0, ge=0)
    frames: int = Field(default=1, ge=1)


class RacingConfig(EnvironmentConfig):
    """Options of the racing environment."""

    target_: Target = Field(default=TARGET, alias="_target_")
    num_envs: int = Field(default=64, ge=1)
    track: str | list[str] = "meadow"
    procedural: int = Field(default=0, ge=0)
    procedural_seed: int = Field(default=0, ge=0)
    procedural_style: Literal["loop", "circuit", "mixed"] = "loop"
    procedural_width: tuple[Metres, Metres] | None = None
    procedural_radius: tuple[Metres, Metres] | None = None
    scale: float | None = Field(default=None, gt=0.0)
    reverse: bool = False
    car: str = "gt"
    car_parameters: dict[str, float] = Field(default_factory=dict)
    observation: Literal["sensors5", "lidar", "lidar_progress", "course", "camera", "full"] = "lidar"
    flat: bool | None = None
    images: bool = True
    privileged: bool = False
    teacher: bool = False
    teacher_pace: float = Field(default=1.0, gt=0.0, le=1.0)
    sensing: Sensing = Sensing()
    action: Literal["steer_throttle", "gas_brake_steer", "discrete"] = "steer_throttle"
    discrete_steer: list[float] = Field(default_factory=lambda: [-1.0, -0.5, 0.0, 0.5, 1.0])
    discrete_throttle: list[float] = Field(default_factory=lambda: [1.0, 0.0, -1.0])
    reward: Annotated[RewardConfig, BeforeValidator(_reward_by_name)] = Field(
        default_factory=lambda: RewardConfig.model_validate(reward_config("baseline"))
    )
    max_episode_steps: int | None = Field(default=2_000, ge=1)
    control_rate: float = Field(default=20.0, gt=0.0)
    substeps: int = Field(default=5, ge=1, le=64)
    edge: Literal["grass", "wall", "crash"] = "grass"
    allow_reverse: bool = False
    obstacles: int = Field(default=0, ge=0)
    obstacle_seed: int = Field(default=0, ge=0)
    obstacle_effect: Literal["solid", "crash", "ghost"] = "solid"
    opponents: Opponents = Opponents()
    start: Start = Start()
    randomise: dict[str, tuple[float, float]] = Field(default_factory=dict)
    action_delay: int = Field(default=0, ge=0, le=20)
    action_jitter: int = Field(default=0, ge=0, le=20)
    delays: Delays = Delays()
    picture: Picture = Picture()

    @model_validator(mode="after")
    def _check_discrete(self) -> RacingConfig:
        for name in ("discrete_steer", "discrete_throttle"):
            values = getattr(self, name)
            if not values or any(not -1.0 <= value <= 1.0 for value in values):
                raise ValueError(f"{name} needs at least one number, each from -1 to 1")
        return self

    @model_validator(mode="after")
    def _check_privileged(self) -> RacingConfig:
        if self.privileged and (self.observation != "full" or self.is_flat):
            raise ValueError(
                "privileged adds named parts to a dict: it needs observation full with pictures, or flat=false"
            )
        return self

    @model_validator(mode="after")
    def _check_delays(self) -> RacingConfig:
        if self.delays.delays_actions and self.action_delay + self.action_jitter:
            raise ValueError(
                "delays (s) and action_delay, action_jitter (control steps) both delay actions; set one of them"
            )
        return self

    @property
    def reward_phases(self) -> Mapping[str, Mapping[str, float]]:
        return self.reward.phases

    @property
    def has_images(self) -> bool:
        """Whether pictures are part of the observation."""
        return self.observation == "camera" or (self.observation == "full" and self.images)

    @property
    def is_flat(self) -> bool:
        """Whether the observation is one vector: as asked for, or wherever there are no pictures."""
        return self.flat if self.flat is not None else not self.has_images

    @property
    def track_scale(self) -> float:
        """What full-size tracks are multiplied by: as given, or 0.1 for a car less than a metre long."""
        return self.scale if self.scale is not None else 0.1 if self.car == "f1tenth" else 1.0


def racing_config(**options: Any) -> RacingConfig:
    """The validated options; a nested group may be given as a mapping, a reward also by name or file."""
    return validate(options, RacingConfig)

"""`environment=racing_realtime`: the racing world in real time, with the observations and rewards of `racing`."""

from __future__ import annotations

import threading
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from pydantic import Field, model_validator

from paddock.config.schema import Target
from paddock.core.errors import InputError
from paddock.core.reading import read_json
from paddock.environments.base import SingleCopyError
from paddock.environments.calls import PLAIN, set_name
from paddock.environments.realtime.clock import Clock, VirtualClock, WallClock
from paddock.environments.realtime.env import RealTimeVectorEnv
from paddock.environments.realtime.loop import LoopSettings, RealTimeLoop
from paddock.racing.env.actions import build_actions
from paddock.racing.env.config import RacingConfig, racing_config
from paddock.racing.env.observations import LAST_ACTIONS, ObservationSet
from paddock.racing.env.opponents import CLASSICAL, PERSON
from paddock.racing.env.rewards import build_rewards
from paddock.racing.env.world import car_of
from paddock.racing.realtime.client import ADDRESS, RacingWorld, RemoteView, WorldHere, WorldProcess

TARGET = "paddock.racing.realtime.racing_realtime.make"
NAME = "racing_realtime"
EPISODE = ("distance", "laps", "best_lap_time", "realtime")  # what an episode's end says, beside return and length


class RacingRealTimeConfig(RacingConfig):
    """Options of the racing environment, and of its clock.

    A time-step lasts 1 / control_rate s, and `max_episode_steps` counts the agent's steps. `delays` lie between the
    agent and the world beyond the time-step that the clock itself takes (`delays.elastic` is what it does anyway).
    process: the world is a process of its own; with a virtual clock it never is. The rest is as in `realtime`.
    """

    target_: Target = Field(default=TARGET, alias="_target_")
    num_envs: Literal[1] = 1
    clock: Literal["wall", "virtual"] = "wall"
    process: bool = True
    # Sensors have a new reading every time-step: a grid that begins anew would see each of them later than before.
    time_step_timeout_factor: float = Field(default=4.0, ge=0)
    stall_timeout: float = Field(default=5.0, gt=0)
    reset_timeout: float | None = Field(default=180.0, gt=0)
    exclude_overruns: bool = False

    @model_validator(mode="after")
    def _check_action(self) -> RacingRealTimeConfig:
        if self.action == "discrete":
            raise ValueError("real-time interfaces take numbers; use action steer_throttle or gas_brake_steer")
        if self.opponents.count and self.opponents.driver == PERSON and not self.process:
            raise ValueError("a person drives in a world that has a process of its own; leave process at true")
        return self

    def in_virtual_time(self, **changes: Any) -> RacingConfig:
        """The same road, car, sensors and delays as options of `racing`: many cars, as fast as the machine computes."""
        values = self.model_dump(include=set(RacingConfig.model_fields) - {"target_", "num_envs"})
        values["opponents"] = self.without_person().opponents
        return racing_config(**{**values, "delays": {**values["delays"], "elastic": True}, **changes})

    def without_person(self) -> RacingRealTimeConfig:
        """The same world without the person's car, for evaluations."""
        others = self.opponents
        if not others.count or others.driver != PERSON:
            return self
        changes = {"count": others.count - 1, "driver": CLASSICAL}
        return self.model_copy(update={"opponents": others.model_copy(update=changes)})

    def loop_settings(self) -> LoopSettings:
        """The real-time loop's part of the options."""
        time_step = 1.0 / self.control_rate
        return LoopSettings(
            time_step_duration=time_step,
            start_obs_capture=time_step,
            time_step_timeout_factor=self.time_step_timeout_factor,
            ep_max_length=self.max_episode_steps,
            act_buf_len=self.sensing.last_actions,
            stall_timeout=self.stall_timeout,
            reset_timeout=self.reset_timeout,
        )


class RacingInterface:
    """The racing world with the methods of rtgym's interfaces. Observes the parts of `racing` but for last actions."""

    probe_options: ClassVar = {"speed": 0.0}  # A standing car shows nothing but the wheels that turn.

    def __init__(self, config: RacingRealTimeConfig) -> None:
        self.config = config
        self._observations = ObservationSet(config, car_of(config), build_actions(config).size)
        space = self._observations.space
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {PLAIN: space}
        parts.pop(LAST_ACTIONS, None)
        self.observation_names, self._space = tuple(parts), spaces.Tuple(list(parts.values()))
        self._action_space = build_actions(config).space
        self._clock: Clock = WallClock()
        self._world: RacingWorld | None = None
        self._starting = threading.Lock()
        self.announced_in: Path | None = None

    def use_clock(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def has_world(self) -> bool:
        """Whether the world was needed yet: an environment that is made for its spaces starts none."""
        return self._world is not None

    @property
    def world(self) -> RacingWorld:
        """The world, begun when it is first needed."""
        with self._starting:
            if self._world is None:
                is_apart = self.config.process and not isinstance(self._clock, VirtualClock)
                self._world = WorldProcess(self.config) if is_apart else WorldHere(self.config, self._clock)
                if self.announced_in is not None and isinstance(self._world, WorldProcess):
                    self._world.announce(self.announced_in)
            return self._world

    def get_observation_space(self) -> spaces.Tuple:
        return self._space

    def get_action_space(self) -> spaces.Box:
        assert isinstance(self._action_space, spaces.Box)
        return self._action_space

    def get_default_action(self) -> NDArray[np.float32]:
        return np.zeros(self.get_action_space().shape, np.float32)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[list[Any], dict[str, Any]]:
        observation, info = self.world.reset(seed, options)
        return [observation[name] for name in self.observation_names], info

    def send_control(self, control: NDArray[Any] | None) -> None:
        if control is not None:
            self.world.send(control)

    def get_obs_rew_terminated_info(self) -> tuple[list[Any], float, bool, dict[str, Any]]:
        observation, reward, terminated, info = self.world.capture()
        return [observation[name] for name in self.observation_names], reward, terminated, info

    def close(self) -> None:
        if self._world is not None:
            self._world.close()


def make(config: RacingRealTimeConfig, num_envs: int, render_mode: str | None = None) -> RacingRealTimeEnv:
    """The racing world in real time, with one car that learns."""
    if num_envs != 1:
        raise SingleCopyError(
            f"environment '{NAME}' is one car in real time, and {num_envs} copies are asked for; ask for one, or train "
            "in environment=racing with the same delays."
        )
    if render_mode is not None:
        raise InputError(f"environment '{NAME}' draws no pictures; film the policy in environment=racing.")
    clock: Clock = VirtualClock() if config.clock == "virtual" else WallClock()
    loop = RealTimeLoop(partial(RacingInterface, config), config.loop_settings(), clock, NAME)
    return RacingRealTimeEnv(RealTimeVectorEnv(loop, exclude_overruns=config.exclude_overruns), config)


class RacingRealTimeEnv(VectorWrapper):
    """Observations as in `racing`, last actions in their place: a policy of one environment drives in the other."""

    def __init__(self, env: RealTimeVectorEnv, config: RacingRealTimeConfig) -> None:
        super().__init__(env)
        self.config = config
        self._inner = env
        self._actions = build_actions(config)
        self._set = ObservationSet(config, car_of(config), self._actions.size)
        self._place = self._set.layout().get(LAST_ACTIONS)
        self.single_observation_space = self._set.space
        self.observation_space = batch_space(self._set.space, 1)
        set_name(self, NAME)

    @property
    def world(self) -> RacingWorld:
        """The world, wherever it is."""
        return self._inner.loop.interface.world

    @property
    def clock(self) -> Clock:
        return self._inner.clock

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term as it is now."""
        if self._inner.loop.interface.has_world:
            return self.world.reward_weights()
        return build_rewards(self.config.reward, 1).weights

    def set_reward_weight(self, name: str, value: float) -> None:
        """Change a reward term's weight; it counts from the next control step of the world."""
        self.world.set_reward_weight(name, value)

    @cached_property
    def view(self) -> RacingWorld | RemoteView:
        """What people see of the car while it drives."""
        world = self.world
        return RemoteView(lambda: world.address, self.config) if isinstance(world, WorldProcess) else world

    def announce(self, folder: Path) -> None:
        """Let viewers in other processes of this user find the world, once it has begun."""
        self._inner.loop.interface.announced_in = folder

    def view_of(self, folder: Path) -> RemoteView:
        """The view of such an environment in another process, which announces its world in `folder`."""
        return RemoteView(lambda: read_json(folder / ADDRESS), self.config)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self._inner.reset(seed=seed, options=options)
        return self._composed(observation), info

    def step(self, actions: Any) -> tuple[Any, NDArray, NDArray, NDArray, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._inner.step(actions)
        if "final_info" in info:
            info["final_info"] = {name: info["final_info"][name] for name in EPISODE if name in info["final_info"]}
        return self._composed(observation), reward, terminated, truncated, info

    def _composed(self, parts: dict[str, NDArray[Any]]) -> Any:
        buffer = parts.pop(LAST_ACTIONS, None)
        if buffer is not None:
            actions = buffer.reshape(self.config.sensing.last_actions, -1)[::-1]  # newest first
            shown = self._actions.record(actions, self._actions.decode(actions))
            if self._place is None or isinstance(self.single_observation_space, spaces.Dict):
                if LAST_ACTIONS in getattr(self.single_observation_space, "spaces", {}):
                    parts[LAST_ACTIONS] = np.ascontiguousarray(shown)[None]
            else:
                parts[PLAIN][0, slice(*self._place)] = shown.ravel()
        is_plain = not isinstance(self.single_observation_space, spaces.Dict)
        return parts[PLAIN] if is_plain else parts


def realtime_config(config: RacingConfig, **changes: Any) -> RacingRealTimeConfig:
    """The real-time twin of a racing environment's options."""
    values = config.model_dump(include=set(RacingConfig.model_fields) - {"target_"})
    return RacingRealTimeConfig.model_validate({**values, "num_envs": 1, **changes})

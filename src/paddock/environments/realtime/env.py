"""A real-time interface as a vector environment of one copy, with named parts and timing in `info`."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from paddock.core.errors import InputError
from paddock.environments.base import EnvironmentConfig, SingleCopyError
from paddock.environments.calls import EXCLUDED, set_name
from paddock.environments.realtime.clock import Clock, VirtualClock, WallClock
from paddock.environments.realtime.interface import LAST_ACTIONS, InterfaceError, dotted, load_interface, part_names
from paddock.environments.realtime.loop import LoopSettings, RealTimeLoop
from paddock.environments.realtime.timing import EpisodeTiming

CLOCKS: dict[str, Callable[[], Clock]] = {"wall": WallClock, "virtual": VirtualClock}
WITHOUT_EFFECT = ("benchmark", "benchmark_polyak", "benchmark_type")  # Timing is in every step's info.


def _with_colon(value: Any) -> Any:
    """`module:Class`, which is how saved files name code; also from a dotted name and from a `_target_`."""
    if isinstance(value, Mapping) and set(value) == {"_target_"}:
        value = value["_target_"]
    if not isinstance(value, str):
        raise ValueError("write it as module:Class, such as my_robot:Interface")
    module, _, name = dotted(value).rpartition(".")
    if not module or not name:
        raise ValueError(f"'{value}' names no class in a module; write it as module:Class, such as my_robot:Interface")
    return f"{module}:{name}"


def _finite(value: Any) -> Any:
    """rtgym writes no limit as infinity."""
    return None if isinstance(value, float) and math.isinf(value) else value


Reference = Annotated[str, BeforeValidator(_with_colon)]
"""Code in a package of a person's own: `module:Name`."""


class RealTimeConfig(EnvironmentConfig):
    """Options of a real-time environment. Those that rtgym has keep its names, and its meanings."""

    num_envs: Literal[1] = 1
    interface: Reference
    interface_args: list[Any] = Field(default_factory=list)
    interface_kwargs: dict[str, Any] = Field(default_factory=dict)
    time_step_duration: float = Field(default=0.05, ge=0)
    start_obs_capture: float = Field(default=0.05, ge=0)
    time_step_timeout_factor: float = Field(default=1.0, ge=0)
    ep_max_length: Annotated[int | None, BeforeValidator(_finite)] = Field(default=None, ge=1)
    act_in_obs: bool = True
    act_buf_len: int = Field(default=1, ge=0)
    reset_act_buf: bool = True
    last_act_on_reset: bool = False
    wait_on_done: bool = False
    act_prepro_func: Reference | None = None
    obs_prepro_func: Reference | None = None
    observation_names: list[str] | None = None
    stall_timeout: float = Field(default=5.0, gt=0)
    reset_timeout: float | None = Field(default=60.0, gt=0)
    exclude_overruns: bool = False
    clock: Literal["wall", "virtual"] = "wall"

    @model_validator(mode="before")
    @classmethod
    def _without_benchmark(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {name: value for name, value in values.items() if name not in WITHOUT_EFFECT}

    def loop_settings(self) -> LoopSettings:
        """The loop's part of the options, with the functions loaded."""
        loaded = {"act_prepro_func": self.act_prepro_func, "obs_prepro_func": self.obs_prepro_func}
        functions: dict[str, Any] = {
            name: None if code is None else load_interface(code) for name, code in loaded.items()
        }
        names = set(LoopSettings.__dataclass_fields__) - set(functions)
        return LoopSettings(**{name: getattr(self, name) for name in names}, **functions)


def make(config: RealTimeConfig, num_envs: int, render_mode: str | None = None) -> RealTimeVectorEnv:
    """The interface that the configuration names, in real time."""
    if num_envs != 1:
        raise SingleCopyError(
            f"environment '{config.interface}' is a world that is there once, and {num_envs} copies are asked for; ask "
            "for one, such as by environment.num_envs=1."
        )
    build = partial(load_interface(config.interface), *config.interface_args, **config.interface_kwargs)
    loop = RealTimeLoop(build, config.loop_settings(), CLOCKS[config.clock](), config.interface)
    return RealTimeVectorEnv(
        loop, names=config.observation_names, render_mode=render_mode, exclude_overruns=config.exclude_overruns
    )


class RealTimeVectorEnv(VectorEnv):
    """One interface as one copy. An episode's end is followed by a step that only resets (next-step autoreset): a reset
    may take seconds, and no transition crosses it.

    Entries of the interface's observation are parts by name; the action buffer is the part `last_actions`, oldest
    first, flat. Every step's `info["realtime"]` has its timing, `final_info["realtime"]` the episode's.
    """

    def __init__(
        self,
        loop: RealTimeLoop,
        *,
        names: Sequence[str] | None = None,
        render_mode: str | None = None,
        exclude_overruns: bool = False,
    ) -> None:
        self._excludes_overruns = exclude_overruns
        self.loop, self.render_mode, self.num_envs = loop, render_mode, 1
        try:
            if render_mode is not None and not hasattr(loop.interface, "render"):
                raise InputError(
                    f"the interface '{loop.name}' draws no pictures; give it a method render() for a video."
                )
            self._names = part_names(names, loop.interface, len(loop.observation_space.spaces))
        except InputError:
            loop.close()
            raise
        parts = dict(zip(self._names, loop.observation_space.spaces, strict=True))
        settings, action = loop.settings, loop.action_space
        if settings.act_in_obs and settings.act_buf_len:
            low, high = (np.tile(bound.ravel(), settings.act_buf_len) for bound in (action.low, action.high))
            parts[LAST_ACTIONS] = spaces.Box(low, high, dtype=action.dtype)
        self.single_observation_space, self.single_action_space = spaces.Dict(parts), action
        self.observation_space = batch_space(self.single_observation_space, 1)
        self.action_space = batch_space(action, 1)
        self.metadata = {
            "autoreset_mode": AutoresetMode.NEXT_STEP,
            "render_modes": ["rgb_array"] if hasattr(loop.interface, "render") else [],
        }
        if settings.time_step_duration:
            self.metadata["render_fps"] = 1.0 / settings.time_step_duration
        self._is_due_to_reset = False
        self._has_begun = False
        self._episode = EpisodeTiming()
        # The thread of an environment that is dropped ends, too; at the interpreter's end it dies by itself.
        weakref.finalize(self, loop.close).atexit = False
        set_name(self, loop.name)

    @property
    def clock(self) -> Clock:
        """What the interface and its agent live by."""
        return self.loop.clock

    # rtgym's names, for code that was written for it.

    @property
    def default_action(self) -> NDArray[Any]:
        """What is sent while an episode begins."""
        return self.loop.default_action

    def set_default_action(self, action: NDArray[Any]) -> None:
        self.loop.set_default_action(action)

    def set_time_step_duration(self, duration: float, factor: float | None = None) -> None:
        self.loop.set_time_step_duration(duration, factor)

    def set_start_obs_capture(self, start: float) -> None:
        self.loop.set_start_obs_capture(start)

    def set_ep_max_length(self, length: int | None) -> None:
        self.loop.set_ep_max_length(length)

    def wait(self) -> None:
        """Let the interface wait; the episode has to be reset afterwards only if it had ended."""
        self.loop.wait()

    def benchmarks(self) -> dict[str, tuple[float, float]]:
        """rtgym's six figures, s: (mean, mean deviation), exponentially weighted over the newest time-steps."""
        return self.loop.durations.polyak()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray], dict[str, Any]]:
        given = seed[0] if isinstance(seed, Sequence) else seed
        self._is_due_to_reset = True  # until it has succeeded
        observation, info = self.loop.reset(seed=given, options=options)
        self._episode, self._is_due_to_reset, self._has_begun = EpisodeTiming(), False, True
        return self._parts(observation), _as_arrays(info)

    def step(self, actions: NDArray) -> tuple[dict[str, NDArray], NDArray, NDArray, NDArray, dict[str, Any]]:
        if self._has_begun and self._is_due_to_reset:
            seen, told = self.reset()
            return seen, np.zeros(1), np.zeros(1, bool), np.zeros(1, bool), told
        try:
            observation, reward, terminated, truncated, info, timing = self.loop.step(actions[0])
        except BaseException:
            self._is_due_to_reset = True
            raise
        self._episode.add(timing)
        told = {**_as_arrays(info), "realtime": timing.as_info()}
        if self._excludes_overruns:
            # The time-step that a reset begins is late by the reset, and a step like any other.
            told[EXCLUDED] = np.array([timing.timed_out and self._episode.steps > 1])
        if terminated or truncated:
            self._is_due_to_reset = True
            summary = self._episode.as_final_info()
            summary["time_step"] = np.array([self.loop.settings.time_step_duration])
            told["final_info"] = {**_as_arrays(info), "realtime": summary}
        return self._parts(observation), np.array([reward]), np.array([terminated]), np.array([truncated]), told

    def render(self) -> tuple[Any, ...] | None:
        """The interface's picture, from the caller's thread."""
        draw = getattr(self.loop.interface, "render", None)
        return None if draw is None else (draw(),)

    def close_extras(self, **_: Any) -> None:
        self.loop.close()

    def _parts(self, observation: tuple[Any, ...]) -> dict[str, NDArray]:
        """The loop's tuple by name, as arrays [1, ...] of the spaces' types."""
        count = len(self._names)
        entries = dict(zip(self._names, observation[:count], strict=False))
        if len(observation) > count:
            entries[LAST_ACTIONS] = np.concatenate([np.ravel(action) for action in observation[count:]])
        parts = self.single_observation_space.spaces  # type: ignore[attr-defined]
        if entries.keys() != parts.keys():
            raise InterfaceError(
                f"the interface '{self.loop.name}' gave {len(observation)} entries of an observation; its spaces have "
                f"{', '.join(parts)}."
            )
        return {name: self._array(name, entry, parts[name])[None] for name, entry in entries.items()}

    def _array(self, name: str, entry: Any, space: spaces.Box) -> NDArray:
        array = np.array(entry, space.dtype)
        if array.shape == space.shape:
            return array
        if array.size == 1 and space.shape in ((), (1,)):  # A plain number, where one number is expected.
            return array.reshape(space.shape)
        raise InterfaceError(
            f"the interface '{self.loop.name}' gave the part '{name}' with the shape {array.shape}; its space has "
            f"{space.shape}."
        )


def _as_arrays(info: Mapping[str, Any] | None) -> dict[str, Any]:
    """An interface's info as a vector environment's: arrays [1]."""
    arrays = {}
    for name, value in (info or {}).items():
        is_number = isinstance(value, bool | int | float | np.generic)
        array = np.array([value]) if is_number else np.empty(1, object)
        if not is_number:
            array[0] = value
        arrays[str(name)] = array
    return arrays

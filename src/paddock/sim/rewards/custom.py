"""A person's own reward function from a file: per car, over all cars at once, or written for DeepRacer.

Whatever goes wrong inside it is told with the file and the line.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddock.core.errors import InputError, did_you_mean
from paddock.core.user_code import load_function
from paddock.sim.rewards.deepracer import deepracer_params
from paddock.sim.rewards.terms import RewardInputs, Values

STYLES = ("auto", "car", "batched", "deepracer")
CAR_KEYS = (
    "progress_gain",
    "speed",
    "lateral",
    "half_width",
    "collided",
    "off_track",
    "lap_completed",
    "top_speed",
)
WORLD_KEYS = ("x", "y", "heading", "vx", "vy", "yaw_rate", "steer", "s", "gear", "rpm")


def load_reward(reference: str, style: str = "auto") -> Callable[[RewardInputs], Values]:
    """A term from `path/to/file.py:function`.

    style: `car` calls it once per car with a dict of numbers, `batched` once with a dict of arrays [N], `deepracer`
    once per car with DeepRacer's `params`; `auto` is `deepracer` for a function named `reward_function`, else `car`.
    """
    if style not in STYLES:
        raise InputError(
            f"reward style '{style}' is unknown.{did_you_mean(style, STYLES)} Allowed: {', '.join(STYLES)}."
        )
    file, separator, name = reference.rpartition(":")
    if not separator or not file.endswith(".py") or not name:
        raise InputError(f"'{reference}' does not name a reward function; write it as path/to/file.py:function_name.")
    function, shown = _find_function(file, name)
    if style == "auto":
        style = "deepracer" if name == "reward_function" else "car"
    guard = _Guard(shown, function)
    if style == "batched":
        return lambda inputs: guard.batch(car_values(inputs), len(inputs.progress_gain))
    build = deepracer_params if style == "deepracer" else _split_cars
    return lambda inputs: guard.per_car(build(inputs))


def car_values(inputs: RewardInputs) -> dict[str, Any]:
    """What a function of a person's own sees, each [N]: the reward inputs, the car's state, both actions, the clock."""
    values: dict[str, Any] = {key: getattr(inputs, key) for key in CAR_KEYS}
    for key in WORLD_KEYS:
        values[key] = getattr(inputs.world, key)
    values["steer_action"], values["throttle_action"] = inputs.action[:, 0], inputs.action[:, 1]
    values["previous_steer_action"] = inputs.previous_action[:, 0]
    values["previous_throttle_action"] = inputs.previous_action[:, 1]
    values["step_time"] = np.full(len(inputs.progress_gain), inputs.step_time, dtype=np.float32)
    return values


def _split_cars(inputs: RewardInputs) -> list[dict[str, Any]]:
    values = {key: np.asarray(value).tolist() for key, value in car_values(inputs).items()}
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


class _Guard:
    """Calls a function and turns what it does wrong into an error that names its line."""

    def __init__(self, file: Path, function: Callable[..., Any]) -> None:
        self.file, self.function = file, function
        self.name = function.__name__
        self.line = inspect.unwrap(function).__code__.co_firstlineno

    def per_car(self, cars: list[dict[str, Any]]) -> Values:
        result = np.empty(len(cars), dtype=np.float32)
        for index, car in enumerate(cars):
            value = self._call(car)
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise self._wrong(f"returned {value!r} ({type(value).__name__})", "a number")
            if not np.isfinite(value):
                raise self._wrong(f"returned {value!r}", "a finite number")
            result[index] = value
        return result

    def batch(self, values: dict[str, Any], count: int) -> Values:
        value = self._call(values)
        try:
            result = np.asarray(value, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise self._wrong(f"returned {type(value).__name__}", f"{count} numbers, one per car") from error
        if result.shape != (count,):
            raise self._wrong(f"returned an array of shape {result.shape}", f"shape ({count},), one number per car")
        if not np.isfinite(result).all():
            bad = int(np.flatnonzero(~np.isfinite(result))[0])
            raise self._wrong(f"returned {result[bad]} for car {bad}", "finite numbers")
        return result

    def _call(self, argument: dict[str, Any]) -> Any:
        try:
            return self.function(argument)
        except (Exception, SystemExit) as error:
            raise InputError(self._explain(error, argument)) from error

    def _explain(self, error: BaseException, given: Mapping[str, Any]) -> str:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _same(frame.filename, self.file)]
        line = frames[-1].lineno if frames else self.line
        message = f"{self.file}, line {line}, in {self.name}: {type(error).__name__}: {error}"
        if isinstance(error, KeyError) and error.args and error.args[0] not in given:
            hint = did_you_mean(str(error.args[0]), given)
            message += f". It is given these keys: {', '.join(sorted(given))}.{hint}"
        return message

    def _wrong(self, did: str, expected: str) -> InputError:
        return InputError(
            f"{self.file}, line {self.line}: {self.name} {did}; a reward function must return {expected}."
        )


def _same(filename: str, file: Path) -> bool:
    return Path(filename).resolve() == file.resolve()


def _find_function(given: str, name: str) -> tuple[Callable[..., Any], Path]:
    """The function, and the file to name in messages."""
    function, file = load_function(given, name, noun="reward file", is_fit=inspect.isfunction)
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(required) != 1:
        line = function.__code__.co_firstlineno
        raise InputError(f"{file}, line {line}: {name} takes {len(required)} arguments; it is called with one dict.")
    return function, file


def without_functions(environment: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The saved options of an environment without reward functions of files, and which were left out.

    Laps are driven and timed without a reward; its functions may be on another machine, or a stranger's.
    """
    reward = environment.get("reward")
    if isinstance(reward, str) and ".py" in reward:
        return {**environment, "reward": {}}, [reward]
    if not isinstance(reward, Mapping) or not reward.get("custom"):
        return dict(environment), []
    custom = reward["custom"]
    names = list(custom) if isinstance(custom, Mapping) else [str(custom)]
    return {**environment, "reward": {**reward, "custom": {}}}, names

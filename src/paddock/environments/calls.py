"""Calls into environments, whose code is not Paddock's: what is waited for, and what went wrong, in a sentence.

Whoever steps an environment for training or evaluation does it through here.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from paddock.core.errors import PaddockError

Result = TypeVar("Result")
GYMNASIUM, NUMPY = (str(Path(module.__file__).parent) for module in (gymnasium, np) if module.__file__)
_SHAPES = "_paddock_shapes"
PLAIN = "observation"
FRAMES = "env_frames"
"""Where `info` says how many simulator ticks a step took, if the environment repeats actions."""
EXCLUDED = "excluded"
"""Where `info` says of which copies, bool [N], a step is not to be learned from."""


class EnvironmentFailure(PaddockError):
    """An environment raised, hung, died or gave what cannot be used. What it raised is the cause."""


class EnvironmentAway(PaddockError):
    """A world that stays away for now: the same call may be made again, best once `is_back()` is true."""

    def __init__(self, sentence: str, is_back: Callable[[], bool]) -> None:
        super().__init__(sentence)
        self.is_back = is_back


class CutOff(BaseException):
    """Raised into a call that does not come back, by whoever waits no longer. No environment catches it by mistake."""


class WorkerError(Exception):
    """What a copy in a process of its own raised; its traceback there is a note."""


@dataclass(frozen=True)
class Pending:
    """A call that has not come back yet. since: s of the monotonic clock."""

    environment: str
    method: str
    since: float


class _Watch:
    """What is waited for right now (environment, method, since), and the longest that any call took."""

    pending: tuple[VectorEnv, str, float] | None = None
    longest = 0.0


_watch = _Watch()


def pending() -> Pending | None:
    """The call that is waited for right now, if there is one."""
    if (waited_for := _watch.pending) is None:
        return None
    env, method, since = waited_for
    return Pending(name_of(env), method, since)


def longest() -> float:
    """s that the longest call so far took."""
    return _watch.longest


def step(env: VectorEnv, action: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """One step of all copies, checked to be of the shapes that the environment's spaces say."""
    observation, reward, terminated, truncated, info = call(env, "step", env.step, action)
    _check_observation(env, "step", observation)
    for name, array in (("reward", reward), ("terminated", terminated), ("truncated", truncated)):
        _check_array(env, "step", name, array, (env.num_envs,))
    return observation, reward, terminated, truncated, info


def reset(env: VectorEnv, **options: Any) -> tuple[Any, dict[str, Any]]:
    """New episodes in all copies, checked likewise."""
    observation, info = call(env, "reset", env.reset, **options)
    _check_observation(env, "reset", observation)
    return observation, info


def as_dict(observation: Any) -> dict[str, np.ndarray]:
    """A vector environment's observation by name; a plain one is named `observation`."""
    return observation if isinstance(observation, dict) else {PLAIN: observation}


def final_observations(info: dict[str, Any], rows: np.ndarray) -> dict[str, np.ndarray]:
    """The last observations of the episodes that ended in this step (same-step autoreset), for the given rows."""
    final = info["final_obs"]
    if isinstance(final, dict):
        return {name: values[rows] for name, values in final.items()}
    if final.dtype != object:
        return {PLAIN: final[rows]}
    # Gymnasium's own vector environments give one object per row that ended.
    parts = [as_dict(final[row]) for row in rows]
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


def frames_of(info: dict[str, Any], decisions: int) -> int:
    """Simulator ticks of one vector step: as many as decisions, unless the environment counts them (`env_frames`)."""
    ended = info.get("final_info", {})
    counts = [source[FRAMES].sum() for source in (info, ended) if FRAMES in source]
    return int(sum(counts)) if counts else decisions


def call(env: VectorEnv, method: str, function: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """What an environment's method gives; whatever it raises becomes a sentence that names the environment."""
    began = time.monotonic()
    _watch.pending = (env, method, began)
    try:
        return function(*arguments, **options)
    except PaddockError:
        raise
    except CutOff as error:
        waited = time.monotonic() - began
        raise EnvironmentFailure(
            f"environment '{name_of(env)}' did not come back from {method} for {waited:.0f} s when the run was asked "
            "to stop; what happened since its newest checkpoint is not saved"
        ) from error
    except (Exception, SystemExit) as error:
        raise EnvironmentFailure(_explained(env, method, error)) from error
    finally:
        _watch.pending = None
        _watch.longest = max(_watch.longest, time.monotonic() - began)


def name_of(env: VectorEnv) -> str:
    """What people know an environment by: its id, or else its class."""
    if (name := getattr(env, "paddock_name", None)) is not None:
        return str(name)
    spec = getattr(env, "spec", None)
    return str(spec.id) if spec is not None else type(env.unwrapped).__name__


def set_name(env: VectorEnv, name: str) -> None:
    env.paddock_name = name  # type: ignore[attr-defined]


def _explained(env: VectorEnv, method: str, error: BaseException) -> str:
    name = name_of(env)
    processes = getattr(env, "processes", None) or []
    if isinstance(error, EOFError | OSError):
        gone = wait([process.sentinel for process in processes], timeout=1.0)
        for process in processes:  # A pipe breaks an instant before its process is gone.
            if process.sentinel in gone:
                process.join(1.0)
    codes = {process.exitcode for process in processes if process.exitcode is not None}
    if codes and isinstance(error, EOFError | OSError):
        return f"a process of environment '{name}' died in {method} (exit code {', '.join(map(str, sorted(codes)))})"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, WorkerError):
        what = str(error)
    if isinstance(error, SystemExit):
        what = f"SystemExit({error.code!r})"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((__file__, NUMPY))
    ]
    if not frames or processes:
        return f"environment '{name}' raised {what} in {method}"
    if frames[-1].filename.startswith(GYMNASIUM) and isinstance(error, ValueError | TypeError | IndexError):
        return f"environment '{name}' gave something in {method} that does not fit its spaces: {what}"
    where = f"{frames[-1].filename}, line {frames[-1].lineno}"
    return f"environment '{name}' raised {what} in {method} ({where})"


def _check_observation(env: VectorEnv, method: str, observation: Any) -> None:
    shapes = getattr(env, _SHAPES, None)
    if shapes is None:
        shapes = _shapes(env.observation_space)
        setattr(env, _SHAPES, shapes)
    if isinstance(shapes, dict):
        if not isinstance(observation, dict) or observation.keys() != shapes.keys():
            found = list(observation) if isinstance(observation, dict) else type(observation).__name__
            raise EnvironmentFailure(
                f"environment '{name_of(env)}' gave the observation {found} in {method}; its space has {list(shapes)}"
            )
        for name, shape in shapes.items():
            _check_array(env, method, f"observation '{name}'", observation[name], shape)
    else:
        _check_array(env, method, "the observation", observation, shapes)


def _check_array(env: VectorEnv, method: str, name: str, array: Any, shape: tuple[int, ...] | None) -> None:
    if isinstance(array, np.ndarray) and array.dtype.kind in "biuf" and (shape is None or array.shape == shape):
        return
    given = f"numbers of shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)[:80]
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biuf":
        given = f"an array of {array.dtype}"
    raise EnvironmentFailure(
        f"environment '{name_of(env)}' gave {given} as {name} in {method}; it has to be an array of shape {shape}"
    )


def _shapes(space: gymnasium.Space) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: part.shape for name, part in space.spaces.items()}
    return space.shape

"""Any Gymnasium environment, several copies side by side, with exact state where the simulator can give it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled, UnregisteredEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import FlattenObservation, TimeLimit
from pydantic import Field

from paddock.core.errors import InputError, did_you_mean
from paddock.core.lazy import require
from paddock.environments.base import EnvironmentConfig

Made = TypeVar("Made", bound=VectorEnv)

# What makes up the state of simulators that have no get_state of their own, beyond random numbers and time limit.
STATE_ATTRIBUTES = {
    "CartPoleEnv": ("state", "steps_beyond_terminated"),
    "PendulumEnv": ("state", "last_u"),
    "AcrobotEnv": ("state",),
    "MountainCarEnv": ("state",),
    "Continuous_MountainCarEnv": ("state",),
    "CartPoleVectorEnv": ("state", "steps", "prev_done", "low", "high"),
}
EXTRAS = {"box2d": "box2d", "ale_py": "atari", "mujoco": "dmc", "minigrid": "minigrid"}
# Families whose environments are only known to Gymnasium once their package is imported.
FAMILIES = {"ALE/": "ale_py", "MiniGrid": "minigrid", "BabyAI": "minigrid"}


class GymConfig(EnvironmentConfig):
    """Options of any Gymnasium environment."""

    id: str
    vectorization: Literal["sync", "async", "custom"] = "sync"
    max_episode_steps: int | None = Field(default=None, ge=1)
    flatten_observation: bool = False
    arguments: dict[str, Any] = Field(default_factory=dict)


def make(config: GymConfig, num_envs: int, render_mode: str | None = None) -> VectorEnv:
    """`num_envs` copies of the environment as one Gymnasium vector environment."""
    for prefix, module in FAMILIES.items():
        if config.id.startswith(prefix):
            require(module, extra=EXTRAS[module], purpose=f"environment '{config.id}'")
    arguments = dict(config.arguments)
    if config.max_episode_steps is not None:
        arguments["max_episode_steps"] = config.max_episode_steps
    if config.vectorization == "custom":
        arguments["vectorization_mode"] = "vector_entry_point"
        made = _explained(config, lambda: gymnasium.make_vec(config.id, num_envs, **arguments))
        return ExactVectorEnv(made) if _can_snapshot(made) else made

    def make_one() -> gymnasium.Env:
        env = gymnasium.make(config.id, render_mode=render_mode, disable_env_checker=True, **arguments)
        return FlattenObservation(env) if config.flatten_observation else env

    makers = [make_one] * num_envs
    if config.vectorization == "async":
        return _explained(config, lambda: AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP))
    env = _explained(config, lambda: SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.SAME_STEP))
    return ExactSyncVectorEnv(makers) if all(_can_snapshot(one) for one in env.envs) else env


class ExactSyncVectorEnv(SyncVectorEnv):
    """Copies in one process whose whole state can be taken and put back."""

    def __init__(self, makers: list[Callable[[], gymnasium.Env]]) -> None:
        super().__init__(makers, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)

    def get_state(self) -> dict[str, Any]:
        return {"copies": [_get_state(env) for env in self.envs]}

    def set_state(self, state: dict[str, Any]) -> None:
        for env, copy in zip(self.envs, state["copies"], strict=True):
            # A reset first: it satisfies the wrappers that insist on one. Its random draw is undone by the state.
            env.reset(seed=0)
            _set_state(env, copy)


class ExactVectorEnv(gymnasium.vector.VectorWrapper):
    """A vector environment written as one, whose whole state can be taken and put back."""

    def get_state(self) -> dict[str, Any]:
        return _get_state(self.env.unwrapped)

    def set_state(self, state: dict[str, Any]) -> None:
        self.env.reset(seed=0)
        _set_state(self.env.unwrapped, state)


def _can_snapshot(env: gymnasium.Env | VectorEnv) -> bool:
    base = env.unwrapped
    has_own = hasattr(base, "get_state") and hasattr(base, "set_state")
    return has_own or type(base).__name__ in STATE_ATTRIBUTES


def _get_state(env: Any) -> dict[str, Any]:
    base = env.unwrapped
    if hasattr(base, "get_state"):
        own = base.get_state()
    else:
        own = {name: _plain(getattr(base, name)) for name in STATE_ATTRIBUTES[type(base).__name__]}
    random = base.np_random.bit_generator.state
    return {"own": own, "random": random, "elapsed": [limit._elapsed_steps for limit in _time_limits(env)]}


def _set_state(env: Any, state: dict[str, Any]) -> None:
    base = env.unwrapped
    if hasattr(base, "set_state"):
        base.set_state(state["own"])
    else:
        for name, value in state["own"].items():
            setattr(base, name, value.copy() if isinstance(value, np.ndarray) else value)
    base.np_random.bit_generator.state = state["random"]
    for limit, elapsed in zip(_time_limits(env), state["elapsed"], strict=True):
        limit._elapsed_steps = elapsed


def _plain(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray | list | tuple) else value


def _time_limits(env: Any) -> list[TimeLimit]:
    found = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            found.append(env)
        env = env.env
    return found


def _explained(config: GymConfig, attempt: Callable[[], Made]) -> Made:
    """Turn what can go wrong while making an environment into one sentence."""
    try:
        return attempt()
    except UnregisteredEnv as error:
        hint = did_you_mean(config.id, gymnasium.registry)
        raise InputError(f"there is no Gymnasium environment '{config.id}'.{hint}") from error
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        extra = next((extra for module, extra in EXTRAS.items() if module in str(error).lower()), None)
        remedy = f"Install it: pip install 'paddock[{extra}]'" if extra else str(error)
        raise InputError(f"environment '{config.id}' needs something that is not installed. {remedy}") from error
    except (TypeError, gymnasium.error.Error) as error:
        raise InputError(f"environment '{config.id}' cannot be made: {error}") from error

"""Any Gymnasium environment, several copies side by side, with exact state where the simulator can give it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

import gymnasium
from gymnasium.error import DependencyNotInstalled, UnregisteredEnv
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import FlattenObservation
from pydantic import Field

from paddock.core import permission
from paddock.core.errors import InputError, PaddockError, did_you_mean
from paddock.core.lazy import require
from paddock.environments.base import EnvironmentConfig, Vectorization
from paddock.environments.calls import set_name
from paddock.environments.copies import vectorize
from paddock.environments.delayed import Delayed, StepDelays
from paddock.environments.snapshots import ExactVectorEnv, can_snapshot
from paddock.environments.wrappers import ActionRepeat

Made = TypeVar("Made", bound=VectorEnv)

EXTRAS = {"box2d": "box2d", "ale_py": "atari", "mujoco": "mujoco", "imageio": "mujoco", "minigrid": "minigrid"}
# Families whose environments are only known to Gymnasium once their package is imported.
FAMILIES = {"ALE/": "ale_py", "MiniGrid": "minigrid", "BabyAI": "minigrid"}


class GymConfig(EnvironmentConfig):
    """Options of any Gymnasium environment."""

    id: str
    vectorization: Vectorization = "sync"
    max_episode_steps: int | None = Field(default=None, ge=1)
    action_repeat: int = Field(default=1, ge=1)
    flatten_observation: bool = False
    delays: StepDelays = StepDelays()
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
        _refuse_wrappers(config)
        arguments["vectorization_mode"] = "vector_entry_point"
        if render_mode is not None:
            arguments["render_mode"] = render_mode
        made = explained(config.id, lambda: gymnasium.make_vec(config.id, num_envs, **arguments))
        return named(ExactVectorEnv(made) if can_snapshot(made.unwrapped) else made, config.id)

    def make_one() -> gymnasium.Env:
        env = gymnasium.make(config.id, render_mode=render_mode, disable_env_checker=True, **arguments)
        if config.action_repeat > 1:
            env = ActionRepeat(env, config.action_repeat)
        if config.delays.is_on:
            env = Delayed(env, config.delays)
        return FlattenObservation(env) if config.flatten_observation else env

    in_processes = config.vectorization == "async"
    return named(explained(config.id, lambda: vectorize(make_one, num_envs, in_processes=in_processes)), config.id)


def _suggestions(name: str) -> str:
    """Ids that are spelt alike; where none is, those that are least unlike, and how to see them all."""
    close = did_you_mean(name, gymnasium.registry)
    if close:
        return close
    bare = {known.rpartition("-v")[0].rpartition("/")[2].lower(): known for known in gymnasium.registry}
    alike = get_close_matches(name.rpartition("-v")[0].lower() or name.lower(), list(bare), n=3, cutoff=0.0)
    listed = ", ".join(bare[one] for one in alike)
    return f" The closest ids: {listed}. All of them: python -c 'import gymnasium; gymnasium.pprint_registry()'"


def named(env: Made, name: str) -> Made:
    """The same environment, with the name that people know it by."""
    set_name(env, name)
    return env


def _refuse_wrappers(config: GymConfig) -> None:
    for option, is_set in (
        ("flatten_observation", config.flatten_observation),
        ("action_repeat", config.action_repeat > 1),
        ("delays", config.delays.is_on),
    ):
        if is_set:
            raise InputError(
                f"environment.{option} changes single copies, which the environment's own vector version does not "
                "have. Set environment.vectorization to sync or async."
            )


def explained(name: str, attempt: Callable[[], Made]) -> Made:
    """Turn what can go wrong while making an environment into one sentence."""
    if ":" in name:  # Gymnasium imports the module before the colon.
        permission.demand(f"the environment's module '{name.partition(':')[0]}'")
    try:
        return attempt()
    except UnregisteredEnv as error:
        raise InputError(f"there is no Gymnasium environment '{name}'.{_suggestions(name)}") from error
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        extra = next((extra for module, extra in EXTRAS.items() if module in str(error).lower()), None)
        remedy = f"Install it: pip install 'paddock[{extra}]'" if extra else str(error)
        raise InputError(f"environment '{name}' needs something that is not installed. {remedy}") from error
    except PaddockError:
        raise
    except (TypeError, gymnasium.error.Error) as error:
        raise InputError(f"environment '{name}' cannot be made: {error}") from error
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename}, line {frame.lineno}"
        raise InputError(f"environment '{name}' cannot be made: {type(error).__name__}: {error} ({where})") from error

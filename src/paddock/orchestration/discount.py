"""`gamma: auto`: the discount from the length of an episode, before a run starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium.vector import SyncVectorEnv, VectorEnv

from paddock.config.schema import TargetSchema, instantiate
from paddock.config.validate import validate
from paddock.core.errors import InputError
from paddock.orchestration.budget import AUTO, NOT_MADE
from paddock.orchestration.schema import ExperimentConfig

GAMMA = "gamma"
WITHOUT_LIMIT = 0.99
SHORTEST, LONGEST = 0.95, 0.995


def with_discount(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    """Values of a configuration in which every `gamma: auto` is a number. The number becomes part of the run."""
    if not _asks(values):
        return dict(values)
    config = validate(_settled(values, WITHOUT_LIMIT), ExperimentConfig, origins).environment
    if config.target_.startswith(NOT_MADE):
        raise InputError("gamma: auto needs an environment that can be made to look at; give a number.")
    return _settled(values, discount(episode_length(config)))


def discount(steps: int | None) -> float:
    """That of TD-MPC2 (arXiv:2310.16828): what comes after a fifth of an episode weighs 1/e, within bounds."""
    return WITHOUT_LIMIT if steps is None else round(min(max(1.0 - 5.0 / steps, SHORTEST), LONGEST), 4)


def episode_length(config: TargetSchema) -> int | None:
    """Decisions after which an environment truncates an episode; None where it does not say."""
    frames = getattr(config, "max_episode_steps", None)
    if frames is None:
        if getattr(config, "vectorization", None) == "async":  # A copy in another process does not show its limit.
            config = config.model_copy(update={"vectorization": "sync"})
        environment = instantiate(config, 1, None)
        try:
            frames = _limit(environment)
        finally:
            environment.close()
    return None if frames is None else -(-frames // getattr(config, "action_repeat", 1))


def _limit(environment: VectorEnv) -> int | None:
    one: Any = environment.envs[0] if isinstance(environment, SyncVectorEnv) else environment
    spec = getattr(one, "spec", None)
    return None if spec is None else spec.max_episode_steps


def _asks(values: Any) -> bool:
    children = values.items() if isinstance(values, Mapping) else ()
    return any((name == GAMMA and value == AUTO) or _asks(value) for name, value in children)


def _settled(values: Mapping[str, Any], number: float) -> dict[str, Any]:
    settled: dict[str, Any] = {}
    for name, value in values.items():
        settled[name] = _settled(value, number) if isinstance(value, Mapping) else value
        if name == GAMMA and value == AUTO:
            settled[name] = number
    return settled

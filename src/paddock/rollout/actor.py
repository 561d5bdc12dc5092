"""Policies as something that acts: what collects, is evaluated, broadcast, and exported without pickle or config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from paddock.config.schema import TargetSchema, instantiate, validate_target
from paddock.core.errors import InputError, unknown_choice
from paddock.core.files import write_synced
from paddock.core.permission import UntrustedError
from paddock.core.reading import DamagedError, read_json
from paddock.core.specs import Spec
from paddock.core.trust import checked

POLICY_FORMAT = 1
Observation = dict[str, Tensor]
ActorState = dict[str, Tensor] | None


class ActorModule(nn.Module):
    """A policy that can be carried away: it knows its parts, their configs and the environment's Spec.

    Actions live in the policy's own range: [-1, 1] for a bounded Box, whatever the environment's bounds are.
    """

    def __init__(self, config: TargetSchema, parts: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.parts = nn.ModuleDict(dict(parts))
        self.spec = spec
        self._center, self._reach = _range_of(spec)

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        """Observation parts [N, ...] and recurrent state to actions [N, ...] and the next state."""
        raise NotImplementedError

    def initial_state(self, n: int) -> ActorState:
        """The recurrent state of `n` fresh episodes; None where the policy has no memory."""
        return None

    def to_environment(self, action: Tensor) -> np.ndarray:
        """Policy actions as the environment takes them: scaled to its bounds and clipped."""
        array = action.cpu().numpy()
        if self._reach is None:
            return array
        return np.clip(array, -1.0, 1.0) * self._reach + self._center

    def predict(
        self, observation: Any, state: ActorState = None, *, deterministic: bool = True
    ) -> tuple[np.ndarray, ActorState]:
        """For people: a NumPy observation of one or many copies, to the environment's action and the next state."""
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        is_single = all(np.shape(part) == self.spec.observation[name].shape for name, part in parts.items())
        tensors = {name: torch.as_tensor(np.asarray(part), device=self.device) for name, part in parts.items()}
        if is_single:
            tensors = {name: part.unsqueeze(0) for name, part in tensors.items()}
        with torch.inference_mode():
            action, state = self.act(tensors, state, deterministic=deterministic)
        actions = self.to_environment(action)
        return (actions[0] if is_single else actions), state

    @property
    def device(self) -> torch.device:
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    def save(self, folder: Path, environment: dict[str, Any] | None = None) -> None:
        """Write `policy.safetensors` and `policy.json`; `environment` says where it was trained, for who evaluates."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.contiguous() for name, value in self.state_dict().items() if isinstance(value, Tensor)}
        description = {
            "format": POLICY_FORMAT,
            "actor": self.config.to_dict(),
            "parts": {name: config_of(part).to_dict() for name, part in self.parts.items()},
            "spec": self.spec.to_dict(),
            "environment": environment,
        }
        write_synced(folder / "policy.safetensors", save(tensors))
        write_synced(folder / "policy.json", json.dumps(description, indent=2).encode())


def read_description(folder: Path) -> dict[str, Any]:
    """What `policy.json` says."""
    try:
        description = read_json(folder / "policy.json")
    except DamagedError as error:
        raise InputError(f"'{folder}' is not a saved policy: policy.json cannot be read: {error.reason}.") from error
    if not isinstance(description, dict) or description.get("format") != POLICY_FORMAT:
        raise InputError(f"the policy in '{folder}' is not of format {POLICY_FORMAT}, which this Paddock reads.")
    return description


def load_policy(folder: Path | str, *, trusts: bool = False) -> ActorModule:
    """The policy that `ActorModule.save` wrote, ready to act. trusts: it may run the code that it names."""
    folder = Path(folder)
    description = read_description(folder)
    used = {name: description.get(name) for name in ("actor", "parts")}
    try:
        tensors = load_file(folder / "policy.safetensors")
        spec = Spec.from_dict(description["spec"])
        with checked(folder, description, used=used, trusts=trusts):
            parts = {name: instantiate(validate_target(part), spec) for name, part in description["parts"].items()}
            actor = instantiate(validate_target(description["actor"]), parts, spec)
            actor.load_state_dict(tensors)
    except UntrustedError:
        raise
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"the policy in '{folder}' cannot be read: {error}") from error
    return actor.eval()


class PolicyActorConfig(TargetSchema):
    """Which components the actor is made of, by name; those it `carries` only travel with it."""

    policy: str
    normalizer: str
    carries: list[str] = Field(default_factory=list)


class PolicyActor(ActorModule):
    """Normalise the observation, ask the policy network for a distribution, sample it or take its mode."""

    def __init__(self, config: PolicyActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.policy, config.normalizer, *config.carries), spec)
        self._policy, self._normalizer = config.policy, config.normalizer
        self._is_recurrent = getattr(components[config.policy], "is_recurrent", False)

    def initial_state(self, n: int) -> ActorState:
        policy: Any = self.parts[self._policy]
        return policy.initial_state(n) if self._is_recurrent else None

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        seen = self.parts[self._normalizer](observation)
        policy: Any = self.parts[self._policy]
        if self._is_recurrent:
            state = state or self.initial_state(next(iter(seen.values())).shape[0])
            distribution, state = policy.step(seen, state)
        else:
            distribution = policy(seen)
        return (distribution.mode() if deterministic else distribution.sample()), state


class RandomActorConfig(TargetSchema):
    """Nothing to choose."""


class RandomActor(ActorModule):
    """Uniformly random actions: seed data, and the floor of every comparison."""

    def __init__(self, config: RandomActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, {}, spec)

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        n = next(iter(observation.values())).shape[0]
        action = self.spec.action
        if action.choices is not None:
            return torch.randint(action.choices, (n,)), state
        return torch.rand(n, *action.shape) * 2 - 1, state


def config_of(part: nn.Module) -> TargetSchema:
    """The configuration a component was built from; every component keeps it as `config`."""
    assert isinstance(part.config, TargetSchema), part
    return part.config


def pick(components: Mapping[str, nn.Module], *names: str) -> dict[str, nn.Module]:
    """The named components, or an error that lists what there is."""
    for name in names:
        if name not in components:
            raise unknown_choice("component (in controllers)", name, components)
    return {name: components[name] for name in names}


def _range_of(spec: Spec) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Centre and reach of a bounded Box; None where actions are choices or without bounds."""
    action = spec.action
    if action.is_discrete or action.low is None or action.high is None:
        return None, None
    low, high = action.bounds()
    return (high + low) / 2, (high - low) / 2

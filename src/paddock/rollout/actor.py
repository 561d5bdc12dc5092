"""Policies as something that acts: what collects, is evaluated, broadcast, and exported without pickle or config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from paddock.config.renamed import rename
from paddock.config.schema import TargetSchema, instantiate, validate_target
from paddock.core.errors import InputError, unknown_choice
from paddock.core.files import write_synced
from paddock.core.permission import UntrustedError
from paddock.core.reading import DamagedError, read_json
from paddock.core.specs import ArraySpec, Spec
from paddock.core.trust import checked
from paddock.environments.calls import as_dict

POLICY_FORMAT = 1
EXTRA_STATE = "._extra_state"  # of a component: what belongs to the episodes under way, and to no policy
SINGLE = -1  # in place of a number of copies: one, with no axis for it
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

    def watch(self, environment: VectorEnv) -> None:
        """The environment that it is about to act in. Policies know it by its observations alone; a driver that
        reads the simulator's state takes it from here."""

    @property
    def is_packed(self) -> bool:
        """Whether it acts by a compiled kernel, whose results differ from torch's in rounding."""
        return False

    def pack(self) -> None:
        """Act by that kernel from now on, as another actor of the same networks does."""
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
        arrays, is_single = read_observation(observation, self.spec.only(self.reads))
        tensors = {name: torch.as_tensor(array, device=self.device) for name, array in arrays.items()}
        copies = next(iter(tensors.values())).shape[0]
        if state is not None and (before := next(iter(state.values())).shape[0]) != copies:
            raise InputError(
                f"the policy remembers {before} copies, and the observation is of {copies}. Begin with agent.reset(), "
                "or with a state of None."
            )
        with torch.inference_mode():
            state = self.initial_state(copies) if state is None else state
            action, state = self.act(tensors, state, deterministic=deterministic)
        actions = self.to_environment(action)
        return (actions[0] if is_single else actions), state

    @property
    def reads(self) -> list[str] | None:
        """Names of the observation's parts that it needs in order to act; None for all of them."""
        return None

    def forget(self, state: dict[str, Tensor], begins: np.ndarray) -> dict[str, Tensor]:
        """The recurrent state where the copies [N] that `begins` marks start a new episode."""
        fresh = self.initial_state(len(begins))
        assert fresh is not None, "a policy without a memory has nothing to forget"
        mask = torch.from_numpy(np.asarray(begins, bool)).to(self.device)
        return {
            name: torch.where(mask.view(-1, *[1] * (values.dim() - 1)), fresh[name], values)
            for name, values in state.items()
        }

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


def read_observation(observation: Any, spec: Spec) -> tuple[dict[str, np.ndarray], bool]:
    """The parts that `spec` names as arrays [N, ...], and whether the observation was of one copy, without the N.

    What does not fit is refused with what is expected and what was given.
    """
    arrays = {name: _as_array(part) for name, part in as_dict(observation).items()}
    copies = {_copies(arrays[name], part) if name in arrays else None for name, part in spec.observation.items()}
    if len(copies) != 1 or None in copies:
        expected = ", ".join(f"{name} {part.shape} {part.dtype}" for name, part in spec.observation.items())
        given = ", ".join(f"{name} {array.shape} {array.dtype}" for name, array in arrays.items()) or "nothing"
        raise InputError(
            f"the observation does not fit this policy. It reads: {expected}; given: {given}. N copies at once have N "
            "in front of these shapes. paddock.load(FOLDER).make_env() makes the environment that a policy was trained "
            "in."
        )
    is_single = copies == {SINGLE}
    parts = {name: arrays[name].astype(part.dtype, copy=False) for name, part in spec.observation.items()}
    return {name: array[None] if is_single else array for name, array in parts.items()}, is_single


def _as_array(part: Any) -> np.ndarray:
    try:
        return np.asarray(part)
    except (ValueError, TypeError):  # Lists of different lengths, say.
        return np.asarray(None)


def _copies(array: np.ndarray, part: ArraySpec) -> int | None:
    """N of an array [N, ...], SINGLE where there is no N in front, None where the array cannot be such a part."""
    numbers = "biuf" if np.dtype(part.dtype).kind == "f" else "biu"  # Pictures are whole numbers.
    if array.dtype.kind not in numbers:
        return None
    if array.shape == part.shape:
        return SINGLE
    return array.shape[0] if array.ndim and array.shape[1:] == part.shape else None


def read_description(folder: str | Path) -> dict[str, Any]:
    """What `policy.json` says."""
    folder = Path(folder)
    try:
        description = read_json(folder / "policy.json")
    except DamagedError as error:
        raise InputError(f"'{folder}' is not a saved policy: policy.json cannot be read: {error.reason}.") from error
    if not isinstance(description, dict) or description.get("format") != POLICY_FORMAT:
        raise InputError(f"the policy in '{folder}' is not of format {POLICY_FORMAT}, which this Paddock reads.")
    return rename(description)[0]


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


def load_weights(actor: ActorModule, folder: Path) -> None:
    """Put a saved policy's weights into a living actor of the same networks; otherwise nothing is changed."""
    here = actor.state_dict()
    passing = {name: value for name, value in here.items() if name.endswith(EXTRA_STATE)}
    saved = {name: value for name, value in load_policy(folder).state_dict().items() if not name.endswith(EXTRA_STATE)}
    saved |= passing
    misfits = sorted(name for name in here.keys() | saved.keys() if _shape(here.get(name)) != _shape(saved.get(name)))
    if misfits:
        in_saved, in_actor = (_shape(values.get(misfits[0])) or "not there" for values in (saved, here))
        raise InputError(
            f"the policy in '{folder.name}' does not fit this run: '{misfits[0]}' is {in_saved} in it and {in_actor} "
            "here. Load one that was trained with the same networks."
        )
    actor.load_state_dict(saved)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(getattr(value, "shape", ())) if value is not None else None


class PolicyActorConfig(TargetSchema):
    """Which components the actor is made of, by name; those in `saved_with` are only saved with it."""

    policy: str
    normalizer: str
    saved_with: list[str] = Field(default_factory=list)


class PolicyActor(ActorModule):
    """Normalise the observation, ask the policy network for a distribution, sample it or take its mode."""

    def __init__(self, config: PolicyActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.policy, config.normalizer, *config.saved_with), spec)
        self._policy, self._normalizer = config.policy, config.normalizer
        self._is_recurrent = getattr(components[config.policy], "is_recurrent", False)

    @property
    def reads(self) -> list[str] | None:
        return getattr(config_of(self.parts[self._policy]), "parts", None)

    def initial_state(self, n: int) -> ActorState:
        policy: Any = self.parts[self._policy]
        return policy.initial_state(n) if self._is_recurrent else None

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        policy: Any = self.parts[self._policy]
        if self._is_recurrent:
            seen = self.parts[self._normalizer](observation)
            state = state or self.initial_state(next(iter(seen.values())).shape[0])
            distribution, state = policy.step(seen, state)
        else:
            distribution = self._distribution(observation)
        return (distribution.mode() if deterministic else distribution.sample()), state

    @property
    def is_packed(self) -> bool:
        return getattr(self.parts[self._policy], "is_packed", False)

    def pack(self) -> None:
        policy: Any = self.parts[self._policy]
        policy.pack()

    def log_prob(self, observation: Observation, action: Tensor) -> Tensor:
        """Of actions [N, ...] at observation parts [N, ...], for a policy without a memory: [N]."""
        return self._distribution(observation).log_prob(action)

    def _distribution(self, observation: Observation) -> Any:
        policy, normalizer = self.parts[self._policy], self.parts[self._normalizer]
        if (of_unscaled := getattr(policy, "of_unscaled", None)) is not None:
            return of_unscaled(observation, normalizer)
        return policy(normalizer(observation))


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

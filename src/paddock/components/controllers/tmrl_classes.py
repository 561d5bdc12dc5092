"""Classes of a person's own that have TMRL's shape, as components: an `ActorModule` and a `TrainingAgent`.

They are named by `module:Class` and loaded by the rules of a `_target_`: their package has to be a plugin.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.attributes import get_attributes, set_attributes
from paddock.config.schema import TargetSchema, load_target
from paddock.core.errors import InputError, PaddockError
from paddock.core.reading import read_bytes
from paddock.core.specs import Spec
from paddock.core.tuples import as_tuple, box, observation_space, order_of

LARGEST_FILE = 512 * 2**20  # bytes that an actor saves itself to


class TmrlClassConfig(TargetSchema):
    """kind: `module:Class`. arguments: beyond the spaces and the device. observation_order: of the tuple's parts; null
    as they are. obs_preprocessor: `module:function` of one observation's tuple."""

    kind: str = Field(pattern=r"^[\w.]+:\w+$")
    arguments: dict[str, Any] = Field(default_factory=dict)
    observation_order: list[str] | None = None
    obs_preprocessor: str | None = Field(default=None, pattern=r"^[\w.]+:\w+$")


class AgentConfig(TmrlClassConfig):
    """device: the device that the agent gets to learn on."""

    device: str = "cpu"


def load_class(name: str) -> Any:
    """What `module:Class` names."""
    return load_target(name.replace(":", "."))


class _TmrlPart(nn.Module):
    """What both have in common: tuples as the class reads them."""

    config: TmrlClassConfig
    preprocess: Callable[[tuple], tuple] | None = None

    def bind(self, config: TmrlClassConfig, spec: Spec, needed: tuple[str, ...]) -> Any:
        """Prepare for a class that has to have certain methods, and give the class."""
        self.config, self.spec = config, spec
        self.order = order_of(spec, config.observation_order)
        if config.obs_preprocessor is not None:
            self.preprocess = load_class(config.obs_preprocessor)
        kind = load_class(config.kind)
        if missing := [name for name in needed if not callable(getattr(kind, name, None))]:
            raise InputError(f"'{config.kind}' has no {', no '.join(missing)}, which TMRL's classes have.")
        return kind

    def make(self, kind: Any, arguments: Mapping[str, Any]) -> Any:
        """An object of the class, with the spaces that every class of TMRL's gets."""
        seen, action = observation_space(self.spec, self.order), box(self.spec.action)
        try:
            return kind(observation_space=seen, action_space=action, **arguments)
        except TypeError as error:
            raise InputError(f"'{self.config.kind}' cannot be made: {error}.") from error

    def single(self, observation: Mapping[str, Tensor], row: int) -> tuple[np.ndarray, ...]:
        """One observation as the class reads it."""
        parts = {name: observation[name][row].cpu().numpy() for name in self.order}
        entries = as_tuple(parts, self.spec, self.order)
        return entries if self.preprocess is None else self.preprocess(entries)

    def batched(self, observation: Mapping[str, Tensor], device: torch.device | str) -> tuple[Tensor, ...]:
        """Observations [N, ...] as a tuple of tensors [N, ...]."""
        if self.preprocess is None:
            return tuple(part.to(device) for part in as_tuple(observation, self.spec, self.order))
        count = len(observation[self.order[0]])
        return collated([self.single(observation, row) for row in range(count)], device)


class ActorPart(_TmrlPart):
    """An `ActorModule` of a person's own: `act(obs, test=False)`, `save(path)`, `load(path, device)`.

    A torch module's weights are those of this component. Any other actor is kept as the bytes that it saves.
    """

    def __init__(self, config: TmrlClassConfig, spec: Spec) -> None:
        super().__init__()
        kind = self.bind(config, spec, ("act",))
        made = self.make(kind, config.arguments)
        self.module = made if isinstance(made, nn.Module) else None
        self.plain: Any = None if isinstance(made, nn.Module) else made

    @property
    def actor(self) -> Any:
        return self.plain if self.module is None else self.module

    def act(self, observation: tuple[np.ndarray, ...], *, test: bool) -> np.ndarray:
        """The action of one observation, in the environment's units."""
        actor: Any = self.actor
        with torch.no_grad():
            if hasattr(actor, "act_"):
                action = actor.act_(observation, test=test)
            elif self.module is not None:
                device = next((one.device for one in self.module.parameters()), torch.device("cpu"))
                action = actor.act(collated([observation], device), test=test)
            else:
                action = actor.act(observation, test=test)
        found = np.asarray(action.cpu() if isinstance(action, Tensor) else action, np.float32)
        if found.size != self.spec.action.size:
            raise PaddockError(
                f"'{self.config.kind}'.act gave an action of shape {found.shape}; the environment takes "
                f"{self.spec.action.shape}."
            )
        return found.reshape(self.spec.action.shape)

    def follow(self, actor: Any) -> None:
        """Take over the weights of an agent's actor, as TMRL's workers do."""
        if isinstance(actor, nn.Module) and isinstance(self.actor, nn.Module):
            self.actor.load_state_dict(actor.state_dict())
        else:
            self.set_extra_state(_saved(actor))

    def get_extra_state(self) -> Tensor:
        return torch.zeros(0, dtype=torch.uint8) if isinstance(self.actor, nn.Module) else _saved(self.actor)

    def set_extra_state(self, state: Tensor) -> None:
        if state.numel() and not isinstance(self.actor, nn.Module):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "actor.tmod"
                path.write_bytes(state.numpy().tobytes())
                self.plain = self.plain.load(str(path), "cpu") or self.plain


class AgentPart(_TmrlPart):
    """A `TrainingAgent` of a person's own: `train(batch)` to a dictionary of floats, `get_actor()`.

    A checkpoint holds its attributes: networks, optimizers, tensors, plain values; or what its `get_state()` gives.
    """

    config: AgentConfig

    def __init__(self, config: AgentConfig, spec: Spec) -> None:
        super().__init__()
        kind = self.bind(config, spec, ("train", "get_actor"))
        # In a tuple: the agent's networks are its own, not parts of this component that a phase could freeze.
        self._held = (self.make(kind, {"device": config.device, **config.arguments}),)

    @property
    def agent(self) -> Any:
        return self._held[0]

    def get_extra_state(self) -> dict[str, Any]:
        return get_attributes(self.agent)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        set_attributes(self.agent, state)


def collated(samples: list[tuple[Any, ...]], device: torch.device | str) -> tuple[Tensor, ...]:
    """Tuples of arrays as one tuple of tensors with the samples in front."""
    return tuple(
        torch.from_numpy(np.stack([np.asarray(entry) for entry in column])).to(device)
        for column in zip(*samples, strict=True)
    )


def _saved(actor: Any) -> Tensor:
    """The bytes that an actor saves itself to."""
    if not callable(getattr(actor, "save", None)):
        raise InputError(f"{type(actor).__name__} is no torch module, so it needs save(path) and load(path, device).")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "actor.tmod"
        actor.save(str(path))
        return torch.from_numpy(np.frombuffer(read_bytes(path, limit=LARGEST_FILE), np.uint8).copy())

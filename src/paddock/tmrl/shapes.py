"""The classes that TMRL's users derive from, in the same shape and without TMRL.

`from paddock.tmrl.shapes import TorchActorModule, TrainingAgent, TorchMemory` takes the place of TMRL's imports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from paddock.components.controllers.tmrl_classes import collated
from paddock.tmrl.torch_files import read_torch_file


class ActorModule(ABC):
    """A policy. It saves and loads itself in a way of its own, JSON for example."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    @abstractmethod
    def save(self, path: str) -> None:
        """Write the policy to a file."""

    @abstractmethod
    def load(self, path: str, device: str) -> Any:
        """Read what `save` wrote; returns the policy."""

    def to_device(self, device: str) -> Any:
        return self

    @abstractmethod
    def act(self, obs: Any, test: bool = False) -> np.ndarray:
        """The action of one observation, a tuple; without noise if `test`."""

    def act_(self, obs: Any, test: bool = False) -> np.ndarray:
        return self.act(obs, test=test)


class TorchActorModule(ActorModule, nn.Module, ABC):
    """A policy of torch: `act` gets tensors with one observation in front, and its file is a `.tmod`."""

    def __init__(self, observation_space: Any, action_space: Any, device: str = "cpu") -> None:
        nn.Module.__init__(self)
        ActorModule.__init__(self, observation_space, action_space)
        self.device = device

    def save(self, path: str) -> None:
        torch.save(self.state_dict(), path)

    def load(self, path: str, device: str) -> Self:
        self.load_state_dict(read_torch_file(Path(path)))
        return self.to_device(device)

    def to_device(self, device: str) -> Self:
        self.device = device
        return self.to(device)

    def act_(self, obs: Any, test: bool = False) -> np.ndarray:
        with torch.no_grad():
            return self.act(collated([obs], self.device), test=test)


class TrainingAgent(ABC):
    """What learns: from a batch `(previous observation, action, reward, observation, terminated, truncated)`."""

    def __init__(self, observation_space: Any, action_space: Any, device: str) -> None:
        self.observation_space, self.action_space, self.device = observation_space, action_space, device

    @abstractmethod
    def train(self, batch: tuple[Any, ...]) -> dict[str, float]:
        """One update; returns what is worth logging."""

    @abstractmethod
    def get_actor(self) -> ActorModule:
        """The policy that acts."""


class TorchMemory(ABC):
    """A replay memory of Python objects, `data` in columns; whole episodes are appended."""

    def __init__(
        self,
        device: str = "cpu",
        nb_steps: int = 1,
        sample_preprocessor: Any = None,
        memory_size: int = 1_000_000,
        batch_size: int = 256,
    ) -> None:
        self.device, self.nb_steps, self.sample_preprocessor = device, nb_steps, sample_preprocessor
        self.memory_size, self.batch_size = int(memory_size), batch_size
        self.data: list[list[Any]] = []

    @abstractmethod
    def append_buffer(self, buffer: Any) -> None:
        """Take `buffer.memory`: samples `(action, observation, reward, terminated, truncated, info)` of an episode."""

    @abstractmethod
    def __len__(self) -> int:
        """Transitions that can be drawn."""

    @abstractmethod
    def get_transition(self, item: int) -> tuple[Any, ...]:
        """Previous observation, action, reward, observation, terminated, truncated, info."""

    def append(self, buffer: Any) -> None:
        if len(buffer):
            self.append_buffer(buffer)

    def __getitem__(self, item: int) -> tuple[Any, ...]:
        found = self.get_transition(item)
        return (found if self.sample_preprocessor is None else self.sample_preprocessor(*found))[:6]

    def sample(self) -> tuple[Any, ...]:
        """`batch_size` transitions, uniformly and with replacement."""
        return self.collate([self[int(item)] for item in torch.randint(len(self), (self.batch_size,))], self.device)

    def collate(self, batch: list[tuple[Any, ...]], device: str) -> tuple[Any, ...]:
        """Transitions as one batch of tensors; observations stay tuples."""
        previous, action, reward, observation, terminated, truncated = zip(*batch, strict=True)
        numbers = (
            torch.as_tensor(np.asarray(one, np.float32), device=device) for one in (reward, terminated, truncated)
        )
        rewards, ends, cuts = numbers
        actions: Tensor = torch.from_numpy(np.stack(action)).to(device)
        return collated(list(previous), device), actions, rewards, collated(list(observation), device), ends, cuts


Memory = TorchMemory

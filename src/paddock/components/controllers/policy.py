"""Policies and value functions: a network chosen by config, and a head sized by the environment's Spec."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.actions import Categorical, Gaussian
from paddock.components.controllers.mean_init import start_mean_at
from paddock.components.networks.building import build_network, is_recurrent, unroll
from paddock.components.networks.mlp import encode, flatten_observation, linear
from paddock.components.networks.packed import PackedMLP
from paddock.components.normalizers import ObservationNormalizer
from paddock.config.schema import Part, TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec

State = dict[str, Tensor] | None


class PolicyConfig(TargetSchema):
    """Options of a stochastic policy."""

    parts: list[str] | None = Field(default=None, min_length=1)
    auxiliary_targets: list[str] | None = Field(default=None, min_length=1)
    network: Part
    log_std_init: float = 0.0
    log_std_gain: float = Field(default=1.0, gt=0)
    mean_init: list[float] | None = None
    head_gain: float = Field(default=0.01, gt=0)


class StochasticPolicy(nn.Module):
    """A distribution over actions: categorical where actions are choices, else Gaussian with a free log_std."""

    def __init__(self, config: PolicyConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.network = build_network(config.network, spec.only(config.parts), may_be_recurrent=True)
        self.is_recurrent = is_recurrent(self.network)
        self.is_discrete = spec.action.is_discrete
        outputs = spec.action.choices if spec.action.choices is not None else spec.action.size
        self.head = linear(self.network.outputs, outputs, gain=config.head_gain)
        start_mean_at(self.head, config.mean_init, outputs, squashed=False)
        self.auxiliary_targets = config.auxiliary_targets
        if config.auxiliary_targets is not None:
            if self.is_recurrent:
                raise InputError("a recurrent policy cannot have auxiliary_targets; leave the option out.")
            targets = sum(part.size for part in spec.only(config.auxiliary_targets).observation.values())
            # Checkpoints hold it under this name.
            self.guess_head = linear(self.network.outputs, targets, gain=1.0)
        if not self.is_discrete:
            # Adam moves every number at one pace; the gain lets the spread of actions go faster than the weights.
            self.log_std = nn.Parameter(torch.full((outputs,), config.log_std_init / config.log_std_gain))
        self._packed: PackedMLP | None = None

    @property
    def is_packed(self) -> bool:
        """Whether `of_unscaled` computes by the compiled kernel."""
        return self._packed is not None

    def pack(self) -> PackedMLP:
        """Let `of_unscaled` compute by the compiled kernel from now on; the network has to fit it."""
        if self._packed is None:
            self._packed = PackedMLP(self.network, self.head, None if self.is_discrete else self.log_std)
        return self._packed

    def forward(self, observation: dict[str, Tensor]) -> Gaussian | Categorical:
        """Observation parts [B, ...] to a distribution over actions [B, A] or [B]."""
        return self._distribution(encode(self.network, chosen(observation, self.config.parts)))

    def of_unscaled(self, observation: dict[str, Tensor], normalizer: ObservationNormalizer) -> Gaussian | Categorical:
        """As forward, of an observation that is not normalised yet."""
        if self._packed is None or torch.is_grad_enabled():
            return self(normalizer(observation))
        seen = chosen(observation, self.config.parts)
        return self._distribution_of(self._packed(seen, normalizer.scaling(self.config.parts)))

    def forward_with_aux(self, observation: dict[str, Tensor]) -> tuple[Gaussian | Categorical, Tensor]:
        """As forward, and the auxiliary loss [B]: the squared error of the predicted `auxiliary_targets` [B, ...]."""
        features = encode(self.network, chosen(observation, self.config.parts))
        target = flatten_observation(chosen(observation, self.config.auxiliary_targets))
        return self._distribution(features), (self.guess_head(features) - target).square().mean(-1)

    def initial_state(self, n: int) -> State:
        """The memory of `n` fresh episodes; None where there is none."""
        return self.network.initial_state(n) if self.is_recurrent else None

    def step(self, observation: dict[str, Tensor], state: State) -> tuple[Gaussian | Categorical, State]:
        """As forward, with a memory to take along."""
        features, state = self.network(chosen(observation, self.config.parts), state)
        return self._distribution(features), state

    def unroll(
        self, observation: dict[str, Tensor], state: State, is_first: Tensor
    ) -> tuple[Gaussian | Categorical, State]:
        """Sequences [B, T, ...] to distributions over [B, T, ...], and the memory after them."""
        features, state = unroll(self.network, chosen(observation, self.config.parts), state, is_first)
        return self._distribution(features), state

    def _distribution(self, features: Tensor) -> Gaussian | Categorical:
        return self._distribution_of(self.head(features))

    def _distribution_of(self, outputs: Tensor) -> Gaussian | Categorical:
        return Categorical(outputs) if self.is_discrete else Gaussian(outputs, self.config.log_std_gain * self.log_std)


class ValueConfig(TargetSchema):
    """Options of a state-value function."""

    parts: list[str] | None = Field(default=None, min_length=1)
    network: Part
    head_gain: float = Field(default=1.0, gt=0)


class ValueFunction(nn.Module):
    """The expected return of a state."""

    def __init__(self, config: ValueConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.network = build_network(config.network, spec.only(config.parts), may_be_recurrent=True)
        self.is_recurrent = is_recurrent(self.network)
        self.head = linear(self.network.outputs, 1, gain=config.head_gain)
        self._packed: PackedMLP | None = None

    def pack(self) -> PackedMLP:
        """Let `of_unscaled` compute by the compiled kernel from now on; the network has to fit it."""
        if self._packed is None:
            self._packed = PackedMLP(self.network, self.head)
        return self._packed

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Observation parts [B, ...] to values [B]."""
        return self.head(encode(self.network, chosen(observation, self.config.parts))).squeeze(-1)

    def of_unscaled(self, observation: dict[str, Tensor], normalizer: ObservationNormalizer) -> Tensor:
        """As forward, of an observation that is not normalised yet."""
        if self._packed is None or torch.is_grad_enabled():
            return self(normalizer(observation))
        seen = chosen(observation, self.config.parts)
        return self._packed(seen, normalizer.scaling(self.config.parts)).squeeze(-1)

    def initial_state(self, n: int) -> State:
        """The memory of `n` fresh episodes; None where there is none."""
        return self.network.initial_state(n) if self.is_recurrent else None

    def step(self, observation: dict[str, Tensor], state: State) -> tuple[Tensor, State]:
        """As forward, with a memory to take along."""
        if not self.is_recurrent:
            return self(observation), None
        features, state = self.network(chosen(observation, self.config.parts), state)
        return self.head(features).squeeze(-1), state

    def unroll(self, observation: dict[str, Tensor], state: State, is_first: Tensor) -> tuple[Tensor, State]:
        """Sequences [B, T, ...] to values [B, T], and the memory after them."""
        features, state = unroll(self.network, chosen(observation, self.config.parts), state, is_first)
        return self.head(features).squeeze(-1), state


def chosen(observation: dict[str, Tensor], parts: list[str] | None) -> dict[str, Tensor]:
    """The parts of these names, or all of them."""
    return observation if parts is None else {name: observation[name] for name in parts}

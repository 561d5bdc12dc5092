"""A policy that sees the last few observations and gives a whole chunk of the next actions.

Shapes: B samples, H observations (oldest first), F features of one, T actions of a chunk, A numbers of an action.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from paddock.components.actions import vector_size
from paddock.components.generators.protocol import Committed, Generator
from paddock.components.networks.building import build_network
from paddock.components.networks.chunks import ChunkSizes
from paddock.components.networks.images import split_parts
from paddock.components.networks.mlp import encode, flatten_observation
from paddock.components.ranges import FARTHEST, FARTHEST_STANDARD, MinMaxRange
from paddock.config.schema import Part, TargetSchema, instantiate
from paddock.core.errors import InputError
from paddock.core.specs import Spec


class ChunkPolicyConfig(TargetSchema):
    """history: H. horizon: T. prefix: how many actions of a chunk may be given, because an earlier chunk has committed
    to them; 0 for none. generator: how chunks are made. network: what makes them; the same one serves all generators.
    encoder: a network that reads each observation, such as a CNN; null for numbers as they are. reads: parts of the
    observation that are seen; null for all of them. scaling: of observations, `min_max` to [-1, 1], or `standard` to
    mean 0 and standard deviation 1, where rare extremes would leave little room for what is usual."""

    history: int = Field(default=2, ge=1)
    horizon: int = Field(default=16, ge=1)
    prefix: int = Field(default=0, ge=0)
    generator: Part
    network: Part
    encoder: Part | None = None
    reads: list[str] | None = None
    scaling: Literal["min_max", "standard"] = "min_max"

    @model_validator(mode="after")
    def _check(self) -> ChunkPolicyConfig:
        if self.prefix >= self.horizon:
            raise ValueError(f"prefix = {self.prefix} leaves nothing of horizon = {self.horizon} to be chosen")
        return self


class ChunkPolicy(nn.Module):
    """Observations (by `scaling`) and actions (to [-1, 1]) are normalised by what was demonstrated; what that takes is
    saved with the policy."""

    is_fitted: Tensor

    def __init__(self, config: ChunkPolicyConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        seen = spec.only(config.reads)
        if split_parts(seen)[0] and config.encoder is None:
            raise InputError(
                "the observation has images; a policy over chunks needs an encoder for them, such as a CNN."
            )
        farthest = FARTHEST if config.scaling == "min_max" else FARTHEST_STANDARD
        floats = {name: part.shape for name, part in seen.observation.items() if part.dtype.startswith("float")}
        self.ranges = nn.ModuleDict({name: MinMaxRange(shape, farthest) for name, shape in floats.items()})
        self.size = vector_size(spec.action)
        self.action_range = MinMaxRange((self.size,))
        self.register_buffer("is_fitted", torch.tensor(False))
        self.names = list(seen.observation)
        self.encoder = None if config.encoder is None else build_network(config.encoder, seen)
        plain = sum(part.size for part in seen.observation.values())
        self.features = plain if self.encoder is None else int(self.encoder.outputs)
        marks = 1 if config.prefix else 0  # One input a step: whether its action is given.
        sizes = ChunkSizes(config.horizon, self.size + marks, self.size, config.history, self.features)
        self.network = instantiate(config.network, sizes)
        self.generator: Generator = instantiate(config.generator)

    def fit(self, observation: dict[str, tuple[Tensor, Tensor]], action: tuple[Tensor, Tensor]) -> None:
        """Take what becomes -1 and 1 of each observed number by part, and of each number of an action's vector."""
        for name, span in self.ranges.items():
            assert isinstance(span, MinMaxRange)
            span.fit(*observation[name])
        self.action_range.fit(*action)
        self.is_fitted.fill_(True)

    def see(self, observation: dict[str, Tensor]) -> Tensor:
        """Features [B, F] of one observation each; parts [B, ...]."""
        parts = {
            name: self.ranges[name](observation[name]) if name in self.ranges else observation[name]
            for name in self.names
        }
        return flatten_observation(parts) if self.encoder is None else encode(self.encoder, parts)

    def condition(self, observation: dict[str, Tensor]) -> Tensor:
        """Features [B, H, F] of histories; parts [B, H, ...]."""
        history = self.config.history
        merged = {name: observation[name].flatten(0, 1) for name in self.names}
        return self.see(merged).unflatten(0, (-1, history))

    def predict(self, chunk: Tensor, time: Tensor, condition: Tensor, committed: Committed) -> Tensor:
        """The network's answer [B, T, A] to a chunk [B, T, A] at a time [B]; given actions stand in their places."""
        shown = committed.put_into(chunk)
        if self.config.prefix:
            shown = torch.cat([shown, committed.mask.to(shown)], -1)
        return self.network(shown, time, condition)

    def plan(self, condition: Tensor, given: Tensor, count: Tensor, *, deterministic: bool) -> Tensor:
        """Chunks [B, T, A] of actions in the policy's range, for features [B, H, F].

        given: [B, T, A] actions of which the first `count` [B] (at most `prefix`) stay as they are. A deterministic
        chunk begins with no noise.
        """
        committed = committed_prefix(self.action_range(given), count)
        shape = (len(condition), self.config.horizon, self.size)
        noise = condition.new_zeros(shape) if deterministic else torch.randn(shape, device=condition.device)
        chunk = self.generator.generate(
            lambda inputs, time: self.predict(inputs, time, condition, committed), noise, committed
        )
        return given.where(committed.mask, self.action_range.inverse(chunk))


def committed_prefix(actions: Tensor, count: Tensor) -> Committed:
    """The first `count` [B] actions of chunks [B, T, A]."""
    places = torch.arange(actions.shape[1], device=actions.device)
    return Committed(actions, (places < count.unsqueeze(-1)).unsqueeze(-1))

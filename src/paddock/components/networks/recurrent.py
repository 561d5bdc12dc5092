"""Networks with a memory: an encoder, an LSTM or GRU over time, a perceptron.

Shapes: B sequences, T steps, S the memory's size. State is a dict of [B, S], zeros where an episode begins.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.networks.building import build_network
from paddock.components.networks.mlp import MLP, MLPConfig, encode, flatten_observation
from paddock.config.schema import Part
from paddock.core.specs import Spec

State = dict[str, Tensor]


class RecurrentConfig(MLPConfig):
    """Options of a recurrent network; without an `encoder` the memory reads the observation as one vector."""

    cell: Literal["lstm", "gru"] = "lstm"
    size: int = Field(default=64, ge=1)
    encoder: Part | None = None


class Recurrent(nn.Module):
    """What is seen and what was, to features [..., outputs] and the next state."""

    reads_parts = True
    is_recurrent = True

    def __init__(self, config: RecurrentConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.outputs = config.hidden[-1]
        self.encoder = None if config.encoder is None else build_network(config.encoder, spec)
        inputs = sum(part.size for part in spec.observation.values())
        if self.encoder is not None:
            inputs = self.encoder.outputs
        self.memory = nn.LSTM(inputs, config.size) if config.cell == "lstm" else nn.GRU(inputs, config.size)
        if config.orthogonal:
            for name, parameter in self.memory.named_parameters():
                nn.init.zeros_(parameter) if "bias" in name else nn.init.orthogonal_(parameter)
        self.joined = MLP(config, config.size)

    def initial_state(self, n: int) -> State:
        """Of `n` fresh episodes."""
        device = next(self.parameters()).device
        names = ("hidden", "cell") if self.config.cell == "lstm" else ("hidden",)
        return {name: torch.zeros(n, self.config.size, device=device) for name in names}

    def forward(self, observation: dict[str, Tensor], state: State) -> tuple[Tensor, State]:
        """One step: parts [B, ...] to features [B, F]."""
        remembered, state = self._remember(self._encoded(observation).unsqueeze(0), state)
        return self.joined(remembered.squeeze(0)), state

    def unroll(self, observation: dict[str, Tensor], state: State, is_first: Tensor) -> tuple[Tensor, State]:
        """Whole sequences: parts [B, T, ...] to features [B, T, F]; `is_first` [B, T] is where memory begins anew."""
        batch, length = is_first.shape
        merged = self._encoded({name: part.flatten(0, 1) for name, part in observation.items()})
        encoded = merged.unflatten(0, (batch, length)).transpose(0, 1)
        # Between two steps at which anybody begins anew, time is one call.
        begins = sorted({0, *is_first.any(0).nonzero().flatten().tolist()})
        pieces = []
        for start, stop in zip(begins, [*begins[1:], length], strict=True):
            keep = ~is_first[:, start].unsqueeze(-1)
            remembered, state = self._remember(encoded[start:stop], {name: part * keep for name, part in state.items()})
            pieces.append(remembered)
        return self.joined(torch.cat(pieces).transpose(0, 1)), state

    def _encoded(self, observation: dict[str, Tensor]) -> Tensor:
        return flatten_observation(observation) if self.encoder is None else encode(self.encoder, observation)

    def _remember(self, encoded: Tensor, state: State) -> tuple[Tensor, State]:
        """[T, B, inputs] to [T, B, S]."""
        before = tuple(part.unsqueeze(0).contiguous() for part in state.values())
        remembered, after = self.memory(encoded, before if len(before) == 2 else before[0])
        after = after if isinstance(after, tuple) else (after,)
        return remembered, {name: part.squeeze(0) for name, part in zip(state, after, strict=True)}

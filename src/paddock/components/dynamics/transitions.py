"""The deterministic step of a latent state: what was, the stochastic part and the action, to what is now.

Shapes: T steps, B sequences, D numbers of the deterministic part, S of the stochastic one, A of the action. What does
not depend on the step before is computed for all steps in one go by `prepare`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paddock.components.networks.activations import Activation, tanh
from paddock.components.networks.dense import (
    BlockLinear,
    Norm,
    dense_layer,
    make_norm,
    normed_activation,
    scaled_linear,
    truncated_normal,
)


class GRUTransition(nn.Module):
    """Stochastic part and action through one layer into a gated recurrent unit that is normalised as a whole
    (arXiv:2010.02193)."""

    def __init__(self, deter: int, stoch: int, action: int, hidden: int, *, activation: Activation, norm: Norm) -> None:
        super().__init__()
        self.from_action = scaled_linear(action, hidden)
        self.from_stoch = nn.Linear(stoch, hidden, bias=False)
        self.joined = nn.Sequential(*normed_activation(hidden, activation, norm))
        self.gates = nn.Sequential(scaled_linear(hidden + deter, 3 * deter), *make_norm(3 * deter, norm))

    def prepare(self, action: Tensor) -> Tensor:
        """[..., A] to [..., hidden]."""
        return self.from_action(action)

    def forward(self, deter: Tensor, stoch: Tensor, prepared: Tensor) -> Tensor:
        """[B, D], [B, S] and one step of what was prepared, to [B, D]."""
        joined = self.joined(torch.addmm(prepared, stoch, self.from_stoch.weight.T))
        return gated(self.gates(torch.cat([joined, deter], -1)).chunk(3, -1), deter)


class BlockTransition(nn.Module):
    """A gated recurrent unit with block-diagonal weights, each block of which reads everything once
    (DreamerV3 of 2024: many numbers remembered at the cost of few)."""

    def __init__(
        self, deter: int, stoch: int, action: int, hidden: int, blocks: int, *, activation: Activation, norm: Norm
    ) -> None:
        super().__init__()
        self.blocks = blocks
        self.from_deter = nn.Sequential(*dense_layer(deter, hidden, activation, norm))
        self.from_stoch = nn.Sequential(*dense_layer(stoch, hidden, activation, norm))
        self.from_action = nn.Sequential(*dense_layer(action, hidden, activation, norm))
        # One layer over [own block, all of deter, stoch, action], the weights of each part apart.
        self.own = BlockLinear(blocks, deter, deter, bias=False)
        self.shared = nn.Linear(2 * hidden, deter, bias=False)
        self.shared_action = scaled_linear(hidden, deter)
        self._scale_as_one(deter // blocks, hidden)
        self.joined = nn.Sequential(*normed_activation(deter, activation, norm))
        self.gates = BlockLinear(blocks, deter, 3 * deter, bias=True)

    def prepare(self, action: Tensor) -> Tensor:
        """[..., A] to [..., D]: all that the action adds."""
        return self.shared_action(self.from_action(action))

    def forward(self, deter: Tensor, stoch: Tensor, prepared: Tensor) -> Tensor:
        """[B, D], [B, S] and one step of what was prepared, to [B, D]."""
        everything = torch.cat([self.from_deter(deter), self.from_stoch(stoch)], -1)
        own = self.own(deter).transpose(0, 1).flatten(1)
        joined = self.joined(torch.addmm(prepared, everything, self.shared.weight.T) + own)
        before = deter.unflatten(-1, (self.blocks, -1)).transpose(0, 1)
        return gated(self.gates(joined).chunk(3, -1), before).transpose(0, 1).flatten(1)

    def _scale_as_one(self, block: int, hidden: int) -> None:
        for weight in (self.own.weight, self.shared.weight, self.shared_action.weight):
            truncated_normal(weight.data, block + 3 * hidden)


def gated(gates: list[Tensor] | tuple[Tensor, ...], before: Tensor) -> Tensor:
    """A gated step from raw gates (reset, candidate, update); it begins by remembering more than it takes in."""
    reset, candidate, update = gates
    candidate = tanh(reset.sigmoid() * candidate)
    return torch.lerp(before, candidate, (update - 1).sigmoid())

"""MLPs over latent vectors as TD-MPC builds them: normed layers, SimNorm, and stacks of many as one batched network.

SimNorm (arXiv:2310.16828, Sec. 3.1) keeps a latent on simplices: groups of numbers that are positive and sum to 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.networks.mlp import ACTIVATIONS, Activation
from paddock.components.networks.stacked import StackedLinear, StackedNorm
from paddock.config.schema import Schema


class MishFunction(torch.autograd.Function):
    """x tanh(softplus(x)) by one sigmoid: with q = sigmoid(-x) it is x (2 / (1 + q^2) - 1), which never overflows.
    torch's own takes four times as long on a processor, a third of the product of matrices before it."""

    @staticmethod
    def forward(context: Any, inputs: Tensor) -> Tensor:
        negative = -inputs
        falling = negative.sigmoid()
        context.save_for_backward(inputs, falling)
        return _mish(inputs, negative, falling)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        inputs, falling = context.saved_tensors
        gate = 2 / torch.addcmul(falling.new_ones(()), falling, falling) - 1
        slope = (1 - gate.square()).mul_(inputs).mul_(1 - falling).add_(gate)
        return slope.mul_(gradient)


def mish(inputs: Tensor) -> Tensor:
    """x tanh(softplus(x)), arXiv:1908.08681."""
    if torch.is_grad_enabled() and inputs.requires_grad:
        return MishFunction.apply(inputs)
    negative = -inputs
    return _mish(inputs, negative, negative.sigmoid())


def _mish(inputs: Tensor, negative: Tensor, falling: Tensor) -> Tensor:
    return torch.addcdiv(negative, inputs, torch.addcmul(falling.new_ones(()), falling, falling), value=2)


class Mish(nn.Module):
    """`mish` as a layer."""

    def forward(self, inputs: Tensor) -> Tensor:
        return mish(inputs)


def sim_norm(inputs: Tensor, group: int) -> Tensor:
    """Softmax within groups of `group` numbers of vectors [..., L].

    Numbers L / group apart make a group: which ones belong together is a matter of numbering, and softmax over an axis
    that is not the last one is twenty times as fast on a processor.
    """
    return inputs.unflatten(-1, (group, -1)).softmax(-2).flatten(-2)


class SimNorm(nn.Module):
    """`sim_norm` as a layer."""

    def __init__(self, group: int) -> None:
        super().__init__()
        self.group = group

    def forward(self, inputs: Tensor) -> Tensor:
        return sim_norm(inputs, self.group)


class LatentMLPConfig(Schema):
    """Hidden layers, and how they are made. `norm`: layer normalisation after every linear layer, after the first, or
    none. `weight_std`: weights begin as a normal of this deviation; null is orthogonal."""

    hidden: list[int] = Field(min_length=1)
    activation: Activation = "mish"
    first_activation: Activation | None = None
    norm: Literal["all", "first", "none"] = "all"
    weight_std: float | None = Field(default=0.02, gt=0)

    def is_normed(self, layer: int) -> bool:
        return self.norm == "all" or (self.norm == "first" and layer == 0)

    def activation_of(self, layer: int) -> nn.Module:
        name = self.first_activation if layer == 0 and self.first_activation else self.activation
        return Mish() if name == "mish" else ACTIVATIONS[name]()


def hidden_normed(inputs: int, config: LatentMLPConfig, *, dropout: float = 0.0) -> list[nn.Module]:
    """Linear, dropout (of the first layer only), layer norm, activation, in this order, for each hidden layer."""
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise([inputs, *config.hidden])):
        layers.append(normed_linear(before, after, config.weight_std))
        if dropout and index == 0:
            layers.append(nn.Dropout(dropout))
        if config.is_normed(index):
            layers.append(nn.LayerNorm(after))
        layers.append(config.activation_of(index))
    return layers


def latent_mlp(inputs: int, config: LatentMLPConfig, outputs: int, *, zero: bool = False) -> nn.Sequential:
    """Vectors [..., inputs] to [..., outputs], linear at the end; `zero`: the last weights begin at 0."""
    last = normed_linear(config.hidden[-1], outputs, config.weight_std)
    if zero:
        nn.init.zeros_(last.weight)
    return nn.Sequential(*hidden_normed(inputs, config), last)


def normed_linear(inputs: int, outputs: int, std: float | None) -> nn.Linear:
    """A linear layer without a bias at first, whose weights have this deviation; None is orthogonal."""
    layer = nn.Linear(inputs, outputs)
    initialize(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


def initialize(weight: Tensor, std: float | None) -> None:
    """Fill a weight: a normal of deviation `std`, cut far out at 2, or an orthogonal matrix."""
    if std is None:
        nn.init.orthogonal_(weight)
    else:
        nn.init.trunc_normal_(weight, std=std)


class StackedLatentMLP(nn.Module):
    """`ensemble_size` MLPs over the same vectors: [B, inputs] to [ensemble_size, B, outputs]; last weights are 0."""

    def __init__(
        self, config: LatentMLPConfig, ensemble_size: int, inputs: int, outputs: int, *, dropout: float
    ) -> None:
        super().__init__()
        self.ensemble_size, self.dropout = ensemble_size, dropout
        sizes = [inputs, *config.hidden]
        self.hidden = nn.ModuleList(StackedLinear(ensemble_size, *pair) for pair in pairwise(sizes))
        self.norms = nn.ModuleDict(
            {str(n): StackedNorm(ensemble_size, size) for n, size in enumerate(config.hidden) if config.is_normed(n)}
        )
        self.activations = nn.ModuleList(config.activation_of(n) for n in range(len(config.hidden)))
        self.head = StackedLinear(ensemble_size, sizes[-1], outputs)
        for layer in [*self.hidden, self.head]:
            for weight in layer.weight.data:
                initialize(weight, config.weight_std)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.head.weight)

    def forward(self, inputs: Tensor, chosen: Tensor | None = None, *, drops: bool = False) -> Tensor:
        """With `chosen` [K] only those members answer: [K, B, outputs]. `drops`: with dropout, as while learning."""
        ensemble_size = self.ensemble_size if chosen is None else len(chosen)
        features = inputs.expand(ensemble_size, *inputs.shape)
        for index, layer in enumerate(self.hidden):
            features = layer(features, chosen)
            if drops and index == 0 and self.dropout:
                features = functional.dropout(features, self.dropout)
            if str(index) in self.norms:
                features = self.norms[str(index)](features, chosen)
            features = self.activations[index](features)
        return self.head(features, chosen)

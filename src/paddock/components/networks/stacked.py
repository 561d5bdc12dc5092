"""Many MLPs of one shape as one: their weights are stacked, so that a layer of all is one batched product."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.networks.fused import FusedReLU, can_fuse
from paddock.components.networks.mlp import MLPConfig, activation_after_linear


class StackedLinear(nn.Module):
    """`ensemble_size` linear layers; inputs [ensemble_size, B, inputs] to [ensemble_size, B, outputs]."""

    def __init__(self, ensemble_size: int, inputs: int, outputs: int, *, gain: float | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(ensemble_size, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(ensemble_size, 1, outputs))
        for weight, bias in zip(self.weight.data, self.bias.data, strict=True):
            if gain is not None:
                nn.init.orthogonal_(weight, gain)
            else:  # As nn.Linear begins: both uniform within 1 / sqrt(inputs).
                reach = 1 / math.sqrt(inputs)
                nn.init.uniform_(weight, -reach, reach)
                nn.init.uniform_(bias, -reach, reach)

    def forward(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        """With `chosen` [K] only those members are asked, for inputs [K, B, inputs]."""
        weight, bias = (self.weight, self.bias) if chosen is None else (self.weight[chosen], self.bias[chosen])
        if weight.shape[-1] == 1:  # Matrix kernels are several times slower for a single column than this.
            return (inputs * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
        return torch.bmm(inputs, weight).add_(bias)  # In place: memory for large results is slow to come by.


class StackedNorm(nn.Module):
    """Layer normalisation with a scale and an offset for each member; [ensemble_size, B, size]."""

    def __init__(self, ensemble_size: int, size: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(ensemble_size, 1, size))
        self.offset = nn.Parameter(torch.zeros(ensemble_size, 1, size))

    def forward(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        scale, offset = (self.scale, self.offset) if chosen is None else (self.scale[chosen], self.offset[chosen])
        return torch.addcmul(offset, scale, functional.layer_norm(inputs, inputs.shape[-1:]))


class StackedMLP(nn.Module):
    """`ensemble_size` MLPs over the same vectors: [B, inputs] to [ensemble_size, B, outputs], linear at the end."""

    def __init__(
        self, config: MLPConfig, ensemble_size: int, inputs: int, outputs: int, *, head_gain: float | None
    ) -> None:
        super().__init__()
        self.ensemble_size = ensemble_size
        gain = math.sqrt(2) if config.orthogonal else None
        sizes = [inputs, *config.hidden]
        self.hidden = nn.ModuleList(StackedLinear(ensemble_size, *pair, gain=gain) for pair in pairwise(sizes))
        self.norms = nn.ModuleList(StackedNorm(ensemble_size, size) for size in config.hidden if config.layer_norm)
        self.head = StackedLinear(ensemble_size, sizes[-1], outputs, gain=head_gain)
        self.activation = activation_after_linear(config.activation)
        self.is_fusible = config.activation == "relu" and not config.layer_norm

    def forward(self, inputs: Tensor, chosen: Tensor | None = None, *, learns: bool = True) -> Tensor:
        """With `chosen` [K] only those members answer: [K, B, outputs]. Unless it `learns`, gradients are for the
        inputs alone."""
        if self.is_fusible and can_fuse(inputs):
            return FusedReLU.apply(inputs, learns and self.head.weight.requires_grad, *self._parameters_of(chosen))
        ensemble_size = self.ensemble_size if chosen is None else len(chosen)
        features = inputs.expand(ensemble_size, *inputs.shape)
        for index, layer in enumerate(self.hidden):
            features = layer(features, chosen)
            if len(self.norms):
                features = self.norms[index](features, chosen)
            features = self.activation(features)
        return self.head(features, chosen)

    def _parameters_of(self, chosen: Tensor | None) -> list[Tensor]:
        """Weight and bias of every layer in turn."""
        parameters = [part for layer in (*self.hidden, self.head) for part in (layer.weight, layer.bias)]
        return parameters if chosen is None else [part[chosen] for part in parameters]

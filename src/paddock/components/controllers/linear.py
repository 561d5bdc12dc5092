"""The controller of World Models (Sec. 3.3, arXiv:1803.10122): a linear map from features to actions, small enough to
be evolved; optionally with one hidden layer. Many candidates act at once by one batched product a layer.

Shapes: P candidates, S states of each, F features, A numbers of an action's vector, W parameters in all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from paddock.components.actions import vector_size
from paddock.components.dynamics.mdn_world_model import Reads, feature_size
from paddock.components.networks.mlp import tanh
from paddock.config.schema import Part, TargetSchema
from paddock.core.specs import Spec


class LinearControllerConfig(TargetSchema):
    """What the controller reads: the latent and, by `reads`, the memory's output, nothing else, or the latent of the
    step before. hidden: width of one hidden layer of tanh; 0 for a linear map."""

    representation: Part
    memory: Part
    reads: Reads = "memory"
    hidden: int = Field(default=0, ge=0)


class LinearController(nn.Module):
    """Features [..., F] to action vectors [..., A]: numbers by tanh, or one choice of A. It begins at zero."""

    def __init__(self, config: LinearControllerConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.is_discrete = spec.action.is_discrete
        representation, memory = (_anything(part) for part in (config.representation, config.memory))
        inputs = feature_size(representation.latent_size(spec), memory.size, config.reads)
        widths = [inputs, config.hidden] if config.hidden else [inputs]
        sizes = [*widths, vector_size(spec.action)]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, features: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            features = tanh(layer(features))
        return self._action(self.layers[-1](features))

    def act_as(self, candidates: Tensor, features: Tensor) -> Tensor:
        """Actions [P, S, A] of candidates [P, W] for features [P, S, F]."""
        start = 0
        layers: list[Any] = list(self.layers)
        for layer in layers:
            inputs, outputs = int(layer.in_features), int(layer.out_features)
            stop = start + inputs * outputs
            weight = candidates[:, start:stop].view(-1, outputs, inputs)
            bias = candidates[:, stop : stop + outputs].unsqueeze(1)
            features = torch.baddbmm(bias, features, weight.transpose(1, 2))
            features = features if layer is layers[-1] else tanh(features)
            start = stop + outputs
        assert start == candidates.shape[1], f"{candidates.shape[1]} parameters given, the controller has {start}"
        return self._action(features)

    @property
    def parameter_count(self) -> int:
        """W."""
        return sum(parameter.numel() for parameter in self.parameters())

    def get_vector(self) -> Tensor:
        """All parameters as one vector [W]: of each layer the weight, then the bias."""
        return parameters_to_vector(self.parameters()).detach()

    def set_vector(self, vector: Tensor) -> None:
        """Put parameters [W] in place."""
        vector_to_parameters(vector.to(self.get_vector()), self.parameters())

    def _action(self, outputs: Tensor) -> Tensor:
        if self.is_discrete:
            return functional.one_hot(outputs.argmax(-1), outputs.shape[-1]).float()
        return tanh(outputs)


def _anything(part: TargetSchema) -> Any:
    return part

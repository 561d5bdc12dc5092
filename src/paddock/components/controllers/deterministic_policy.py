"""A deterministic policy over the features of a world model; gradients flow through what it chooses."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import vector_size
from paddock.components.networks.mlp import MLP, MLPConfig, linear
from paddock.core.errors import InputError
from paddock.core.specs import Spec


class DeterministicPolicyConfig(MLPConfig):
    """Options of a deterministic policy; `inputs` is the number of features, `mean_init` the first action."""

    inputs: int = Field(ge=1)
    mean_init: list[float] | None = None


class DeterministicPolicy(nn.Module):
    """Features [..., F] to action vectors [..., A]: numbers by tanh, or one choice of A.

    A choice is the likeliest one, with the gradient of the probabilities (straight through, arXiv:1308.3432).
    """

    def __init__(self, config: DeterministicPolicyConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.is_discrete = spec.action.is_discrete
        self.network = MLP(config, config.inputs)
        self.head = linear(self.network.outputs, vector_size(spec.action), gain=0.01)
        if config.mean_init is not None:
            self._start_from(config.mean_init)

    def forward(self, features: Tensor) -> Tensor:
        outputs = self.head(self.network(features))
        if not self.is_discrete:
            return outputs.tanh()
        chances = outputs.softmax(-1)
        chosen = functional.one_hot(outputs.argmax(-1), outputs.shape[-1])
        return chosen + (chances - chances.detach())

    def _start_from(self, action: list[float]) -> None:
        """Begin near this action: an agent that already leans the right way explores there."""
        size = self.head.out_features
        if self.is_discrete or len(action) != size or any(abs(number) >= 1 for number in action):
            raise InputError(f"mean_init = {action}; it is for continuous actions, {size} numbers between -1 and 1.")
        with torch.no_grad():
            self.head.bias.copy_(torch.tensor(action).atanh())

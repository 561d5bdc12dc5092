"""A deterministic policy over the features of a world model; gradients flow through what it chooses."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import vector_size
from paddock.components.controllers.mean_init import start_mean_at
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
        if self.is_discrete and config.mean_init is not None:
            raise InputError(f"mean_init = {config.mean_init}; it is for continuous actions, and these are choices.")
        start_mean_at(self.head, config.mean_init, self.head.out_features, squashed=True)

    def forward(self, features: Tensor) -> Tensor:
        outputs = self.head(self.network(features))
        if not self.is_discrete:
            return outputs.tanh()
        chances = outputs.softmax(-1)
        chosen = functional.one_hot(outputs.argmax(-1), outputs.shape[-1])
        return chosen + (chances - chances.detach())

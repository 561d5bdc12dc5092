"""One encoder for observations of several kinds: a network for images, another for the vector of the rest, joined."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from paddock.components.networks.building import build_network
from paddock.components.networks.images import split_parts
from paddock.components.networks.mlp import MLP, MLPConfig, encode
from paddock.config.schema import Part
from paddock.core.errors import InputError
from paddock.core.specs import Spec


class MultiInputConfig(MLPConfig):
    """Which network reads the images, which one the vector of all other numbers, and the MLP that joins them."""

    images: Part
    vector: Part


class MultiInput(nn.Module):
    """Observation parts to features [B, outputs]."""

    reads_parts = True

    def __init__(self, config: MultiInputConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.outputs = config.hidden[-1]
        images, vector = split_parts(spec)
        if not images or not vector:
            raise InputError(
                "a multi-input network needs images and other numbers in the observation; "
                f"there are {len(images)} and {len(vector)} parts of them. Use a CNN or an MLP here."
            )
        self._names = {"pictures": list(images), "numbers": vector}  # Checkpoints hold the networks under these names.
        self.networks = nn.ModuleDict()
        for kind, network in (("pictures", config.images), ("numbers", config.vector)):
            self.networks[kind] = build_network(network, spec.only(self._names[kind]))
        sizes: list[Any] = [network.outputs for network in self.networks.values()]
        self.joined = MLP(config, sum(sizes))

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        features = [
            encode(network, {name: observation[name] for name in self._names[kind]})
            for kind, network in self.networks.items()
        ]
        return self.joined(torch.cat(features, -1))

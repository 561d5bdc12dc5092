"""Features back to the observation they stand for, part by part, and how far off that is."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from paddock.components.networks.dense import dense, scaled_linear
from paddock.components.networks.mlp import unflatten_observation
from paddock.components.representation_learners.encoders import (
    ImageLayout,
    ObservationEncoder,
    ObservationNetConfig,
    image_activation,
)
from paddock.core.specs import Spec

Predictions = dict[str, Tensor]
VECTOR = "numbers"


class ObservationDecoder(nn.Module):
    """Features [N, inputs] to predictions: each picture, and all numbers as one vector, as the encoder sees them."""

    def __init__(self, config: ObservationNetConfig, inputs: int, spec: Spec, encoder: ObservationEncoder) -> None:
        super().__init__()
        self.config = config
        self.spec = spec
        self.layouts, self.numbers = encoder.layouts, encoder.numbers
        self.seen = [encoder]  # In a list, so that it is not registered as a part of the decoder.
        last = config.units if config.layers else inputs
        if self.numbers:
            count = sum(spec.observation[name].size for name in self.numbers)
            self.perceptron = nn.Sequential(dense(inputs, config), scaled_linear(last, count))
        self.pictures = nn.ModuleDict({name: self._painter(layout, inputs) for name, layout in self.layouts.items()})

    def forward(self, features: Tensor) -> Predictions:
        predictions = {name: part(features) for name, part in self.pictures.items()}
        if self.numbers:
            predictions[VECTOR] = self.perceptron(features)
        return predictions

    def loss(self, predictions: Predictions, observation: dict[str, Tensor]) -> Tensor:
        """[N]: squared errors, summed over everything that is seen."""
        errors = [
            (predictions[name] - layout.to_network(observation[name])).square().flatten(1).sum(1)
            for name, layout in self.layouts.items()
        ]
        if self.numbers:
            errors.append((predictions[VECTOR] - self.seen[0].vector(observation)).square().sum(-1))
        return torch.stack(errors).sum(0)

    def to_observation(self, predictions: Predictions) -> dict[str, Tensor]:
        """Predictions as observation parts [N, ...], in the observation's own units."""
        parts = {name: layout.from_network(predictions[name]) for name, layout in self.layouts.items()}
        if self.numbers:
            shapes = {name: self.spec.observation[name].shape for name in self.numbers}
            parts |= unflatten_observation(self.seen[0].from_vector(predictions[VECTOR]), shapes)
        return {name: parts[name] for name in self.spec.observation}

    def _painter(self, layout: ImageLayout, inputs: int) -> nn.Module:
        shapes = layout.shapes(self.config.depth)[::-1]
        smallest = shapes[0]
        layers: list[nn.Module] = [scaled_linear(inputs, math.prod(smallest)), nn.Unflatten(1, smallest)]
        layers += image_activation(smallest[0], self.config.activation, self.config.norm)
        for before, after in pairwise(shapes):
            layers.append(nn.ConvTranspose2d(before[0], after[0], 4, 2, 1))
            if after is not shapes[-1]:
                layers += image_activation(after[0], self.config.activation, self.config.norm)
        return nn.Sequential(*layers, nn.Sigmoid())

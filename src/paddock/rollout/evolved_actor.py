"""Acting with an autoencoder, a memory and a small controller; and many candidates of that controller side by side.

Shapes: N environments, P candidates of S environments each (N = P S), W numbers of a controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from paddock.components.controllers.linear import LinearController
from paddock.components.dynamics.mdn_world_model import MDNWorldModel
from paddock.components.dynamics.rssm import Latent
from paddock.core.specs import Spec
from paddock.rollout.actor import pick
from paddock.rollout.model_actors import ModelActor, ModelActorConfig


class EvolvedActorConfig(ModelActorConfig):
    """The components by name: `world_model` is the memory. samples_latent: act upon a draw of the latent, as in the
    paper, in place of its mean."""

    world_model: str = "memory"
    representation: str = "vae"
    controller: str = "controller"
    samples_latent: bool = False


class EvolvedActor(ModelActor):
    """What is seen and what is remembered, to the controller's action."""

    config: EvolvedActorConfig

    def __init__(self, config: EvolvedActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.representation, config.world_model, config.controller), spec)
        memory: Any = self.parts[config.world_model]
        self._model = MDNWorldModel(
            self.parts[config.representation],
            memory,
            reads=self.controller.config.reads,
            samples_latent=config.samples_latent,
        )
        self._candidates: Tensor | None = None

    @property
    def world_model(self) -> MDNWorldModel:
        return self._model

    @property
    def controller(self) -> LinearController:
        controller: Any = self.parts[self.config.controller]
        return controller

    @contextmanager
    def acting_as(self, candidates: Tensor) -> Iterator[None]:
        """Inside, the environments are shared out among candidates [P, W]: the first S are the first one's."""
        self._candidates = candidates
        try:
            yield
        finally:
            self._candidates = None

    def choose(
        self, latent: Latent, state: dict[str, Tensor], *, deterministic: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return self.decide(self._model.features(latent)), {}

    def decide(self, features: Tensor) -> Tensor:
        """Action vectors [N, A] for features [N, F]."""
        if self._candidates is None:
            return self.controller(features)
        grouped = features.unflatten(0, (len(self._candidates), -1))
        return self.controller.act_as(self._candidates, grouped).flatten(0, 1)

"""A world model: what is seen into latents, latents on into the future, and what they say of the world.

This is the protocol that controllers, planners and diagnostics use; anything with the same methods will do for them.
Shapes, time first: T steps, B sequences, A numbers of an action (a choice among A is one-hot), F features.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.actions import vector_size
from paddock.components.dynamics.rssm import RSSM, Latent, RSSMConfig
from paddock.components.learning import is_frozen
from paddock.components.networks.heads import ContinueHead, NumberHead, NumberHeadConfig
from paddock.components.networks.mlp import DenseConfig
from paddock.components.representation_learners.autoencoder import (
    ObservationDecoder,
    ObservationEncoder,
    ObservationEncoderConfig,
    ObservationNetConfig,
)
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec

Observation = dict[str, Tensor]


class WorldModelConfig(TargetSchema):
    """The parts of a world model."""

    rssm: RSSMConfig
    encoder: ObservationEncoderConfig
    decoder: ObservationNetConfig
    reward: NumberHeadConfig
    continue_: DenseConfig = Field(alias="continue")


class WorldModel(nn.Module):
    """A recurrent state-space model with an encoder, a decoder, and heads for reward and continuation."""

    def __init__(self, config: WorldModelConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.spec = spec
        self.encoder = ObservationEncoder(config.encoder, spec)
        self.rssm = RSSM(config.rssm, self.encoder.outputs, vector_size(spec.action))
        self.decoder = ObservationDecoder(config.decoder, config.rssm.features, spec, self.encoder)
        self.reward = NumberHead(config.reward, config.rssm.features)
        # Checkpoints hold it under this name.
        self.goes_on = ContinueHead(config.continue_, config.rssm.features)

    def initial(self, batch: int) -> Latent:
        """What is known before anything was seen: dict of [B, ...]."""
        return self.rssm.initial(batch)

    def learn_scale(self, observation: Observation) -> None:
        """Take parts [T, B, ...] into what numbers are standardized by, if they are."""
        if is_frozen(self):
            return
        self.encoder.learn_scale({name: part.flatten(0, 1) for name, part in observation.items()})

    def observe(self, latent: Latent, action: Tensor, observation: Observation, is_first: Tensor) -> Latent:
        """The latent after seeing parts [B, ...], to which the action [B, A] led; `is_first` [B] forgets what was."""
        return self.rssm.observe(latent, self.encoder(observation), action, is_first)

    def observe_sequence(
        self, observation: Observation, action: Tensor, is_first: Tensor, before: Latent | None = None
    ) -> Latent:
        """Latents [T, B, ...] for parts [T, B, ...], the actions [T, B, A] that led there and `is_first` [T, B].

        Beside `deter` and `stoch` they hold `posterior` and `prior` [T, B, P], for `kl`.
        """
        batch = is_first.shape[1]
        embedding = self.encoder({name: part.flatten(0, 1) for name, part in observation.items()})
        before = self.initial(batch) if before is None else before
        return self.rssm.observe_sequence(before, embedding.unflatten(0, (-1, batch)), action, is_first)

    def kl(self, latents: Latent) -> tuple[Tensor, Tensor]:
        """[T, B] each: the KL that the dynamics have to learn, and that the representation may give up; see RSSM."""
        return self.rssm.kl(latents)

    def imagine_step(self, latent: Latent, action: Tensor, temperature: float = 1.0) -> Latent:
        """Where an action [B, A] leads, drawn from what the model believes, at a temperature."""
        return self.rssm.imagine_step(latent, action, temperature)

    def features(self, latent: Latent) -> Tensor:
        """[..., F]: a latent as one vector."""
        return torch.cat([latent["deter"], latent["stoch"]], -1)

    def predict_reward(self, latent: Latent) -> Tensor:
        """[...]: the reward that comes with this latent, in the environment's units."""
        return self.reward.predict(self.reward(self.features(latent)))

    def predict_continue(self, latent: Latent) -> Tensor:
        """[...]: the chance that the episode does not terminate here."""
        return self.goes_on(self.features(latent)).sigmoid()

    def decode(self, latent: Latent) -> Observation:
        """The observation that a latent [B, ...] stands for, part by part, in the observation's own units."""
        return self.decoder.to_observation(self.decoder(self.features(latent)))

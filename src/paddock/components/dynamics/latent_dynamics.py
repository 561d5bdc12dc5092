"""A small deterministic world model: encoder, dynamics, reward and decoder, each an MLP over one latent vector.

Shapes, time first: T steps, B sequences, L numbers of the latent state, A of an action's vector, D of an observation.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import vector_size
from paddock.components.dynamics.rssm import Latent
from paddock.components.dynamics.world_model import Observation
from paddock.components.learning import is_frozen
from paddock.components.networks.images import split_parts
from paddock.components.networks.mlp import Activation, flatten_observation, plain_mlp, unflatten_observation
from paddock.components.normalizers import RunningMoments
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec

LIMIT = 10.0  # deviations that an observation may be off its mean
STATE = "state"


class LatentModelConfig(TargetSchema):
    """Sizes: the latent state, and the hidden layers of each part; without `continue` nothing is taken to end."""

    latent: int = Field(default=32, ge=1)
    encoder: list[int] = Field(default=[64])
    dynamics: list[int] = Field(default=[64])
    reward: list[int] = Field(default=[32])
    decoder: list[int] = Field(default=[64])
    continue_: list[int] | None = Field(default=None, alias="continue")
    activation: Activation = "relu"


class LatentModel(nn.Module):
    """Follows the protocol of world models (docs/world_models.md). The latent state is what the encoder makes of the
    newest observation: there is no memory, so an observation has to tell enough by itself.

    Observations are brought to unit scale by running moments, which `learn_scale` teaches.
    """

    def __init__(self, config: LatentModelConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.spec = spec
        if images := list(split_parts(spec)[0]):
            raise InputError(
                f"the small latent model reads a vector, and {', '.join(images)} is an image. "
                "Choose an observation without images, or a workflow whose model reads images."
            )
        numbers, latent = sum(part.size for part in spec.observation.values()), config.latent
        actions = vector_size(spec.action)
        self.scale = RunningMoments((numbers,), min_std=1e-2)
        self.encoder = plain_mlp([numbers, *config.encoder, latent], config.activation)
        self.dynamics = plain_mlp([latent + actions, *config.dynamics, latent], config.activation)
        self.reward = plain_mlp([latent, *config.reward, 1], config.activation)
        self.decoder = plain_mlp([latent, *config.decoder, numbers], config.activation)
        self.goes_on = None  # Checkpoints hold it under this name.
        if config.continue_ is not None:
            self.goes_on = plain_mlp([latent, *config.continue_, 1], config.activation)

    def initial(self, batch: int) -> Latent:
        """The latent state before anything was seen."""
        return {STATE: torch.zeros(batch, self.config.latent, device=self.scale.mean.device)}

    def observe(self, latent: Latent, action: Tensor, observation: Observation, is_first: Tensor) -> Latent:
        """The latent state [B, L] of what is seen now; what was before plays no part."""
        return {STATE: self._bounded(self.encoder(self.scaled(observation)))}

    def observe_sequence(self, observation: Observation, action: Tensor, is_first: Tensor) -> Latent:
        """Latent states [T, B, L] of sequences [T, B, ...]."""
        return {STATE: self._bounded(self.encoder(self.scaled(observation, leading=2)))}

    def imagine_step(self, latent: Latent, action: Tensor) -> Latent:
        """The latent state after an action [..., A]; the network gives the change."""
        state = latent[STATE]
        return {STATE: self._bounded(state + self.dynamics(torch.cat([state, action], -1)))}

    def features(self, latent: Latent) -> Tensor:
        return latent[STATE]

    def predict_reward(self, latent: Latent) -> Tensor:
        """[...]: the reward that came with the state."""
        return self.reward(latent[STATE]).squeeze(-1)

    def predict_continue(self, latent: Latent) -> Tensor:
        """[...]: the chance that an episode goes on after the state."""
        if self.goes_on is None:
            return torch.ones_like(latent[STATE][..., 0])
        return self.goes_on(latent[STATE]).squeeze(-1).sigmoid()

    def _bounded(self, state: Tensor) -> Tensor:
        """Zero mean and unit deviation over the latent's numbers: a policy cannot dream itself out of what is known."""
        return functional.layer_norm(state, (self.config.latent,))

    def continue_loss(self, latent: Latent, terminated: Tensor) -> Tensor:
        """[...]: the cross-entropy of the chance that an episode goes on, to whether it did; 0 where none is given."""
        if self.goes_on is None:
            return torch.zeros_like(latent[STATE][..., 0])
        logit = self.goes_on(latent[STATE]).squeeze(-1)
        return functional.binary_cross_entropy_with_logits(logit, (~terminated).float(), reduction="none")

    def decode(self, latent: Latent) -> Observation:
        """Observation parts [..., *shape] in their own units."""
        shapes = {name: part.shape for name, part in self.spec.observation.items()}
        return unflatten_observation(self.scale.inverse(self.decoder(latent[STATE])), shapes)

    def scaled(self, observation: Observation, leading: int = 1) -> Tensor:
        """Observation parts as one vector [..., D] at unit scale."""
        return self.scale(flatten_observation(observation, leading)).clamp(-LIMIT, LIMIT)

    def learn_scale(self, observation: Observation) -> None:
        """Take parts [T, B, ...] into what numbers are standardized by."""
        if is_frozen(self):
            return
        self.scale.update(flatten_observation(observation, leading=2))

    @property
    def knows_scale(self) -> bool:
        """Whether anything was seen yet."""
        return bool(self.scale.count > 0)

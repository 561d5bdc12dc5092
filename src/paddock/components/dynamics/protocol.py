"""What a world model is to controllers, planners and diagnostics; anything with these methods will do for them.

Shapes: B environments or sequences, T steps, A numbers of an action's vector (a choice among A is one-hot), F features.
A latent is a dict of tensors [B, ...] whose names are the model's own business.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from paddock.components.dynamics.imagination import Imagination
from paddock.components.dynamics.rssm import Latent

Observation = dict[str, Tensor]


class WorldModel(Imagination, Protocol):
    """What is seen into latents, latents on into the future, and what they say of the world."""

    def initial(self, batch: int) -> Latent:
        """The latent of `batch` episodes before anything was seen: [B, ...]."""

    def observe(self, latent: Latent, action: Tensor, observation: Observation, is_first: Tensor) -> Latent:
        """The latent [B, ...] after parts [B, ...] were seen, to which the action [B, A] led from the latent before;
        where `is_first` [B], an episode begins and what was before is forgotten."""

    def observe_sequence(self, observation: Observation, action: Tensor, is_first: Tensor) -> Latent:
        """Latents [T, B, ...] of sequences, as `observe` gives them step by step: parts [T, B, ...], the actions
        [T, B, A] that led to them and `is_first` [T, B]."""

    def imagine_step(self, latent: Latent, action: Tensor) -> Latent:
        """Where an action [B, A] leads: a latent [B, ...]."""

    def features(self, latent: Latent) -> Tensor:
        """[..., F]: a latent as one vector, which policies and values read."""

    def predict_reward(self, latent: Latent) -> Tensor:
        """[...]: the reward that comes with a latent, in the environment's units."""

    def predict_continue(self, latent: Latent) -> Tensor:
        """[...]: the chance that the episode does not terminate there."""

    def decode(self, latent: Latent) -> Observation:
        """The observation that a latent [B, ...] stands for: parts [B, ...] in their own units."""

    def learn_scale(self, observation: Observation) -> None:
        """Learn from parts [T, B, ...] what numbers are standardized by, if they are."""

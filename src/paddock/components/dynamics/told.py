"""Task-oriented latent dynamics (TOLD, arXiv:2203.04955, and arXiv:2310.16828): a world model without a decoder, which
keeps what rewards and values depend on.

Shapes, time first: T steps, B sequences, L numbers of the latent, A of an action's vector.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import vector_size
from paddock.components.dynamics.rssm import Latent
from paddock.components.networks.latent_mlp import LatentMLPConfig, SimNorm, latent_mlp
from paddock.components.networks.number_coding import NumberCoding, NumberCodingConfig
from paddock.components.representation_learners.latent_encoder import LatentEncoder, LatentEncoderConfig
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec

Observation = dict[str, Tensor]
STATE, REWARD = "state", "reward"
Ends = Literal["soft", "threshold", "ignore"]


class TOLDConfig(TargetSchema):
    """The parts. `simnorm`: numbers in a group of the latent, null for a latent without bounds. `ends`: a predicted end
    weighs what follows by its chance (`soft`), cuts it off (`threshold`), or plays no part (`ignore`, no head)."""

    latent: int = Field(ge=1)
    simnorm: int | None = Field(default=8, ge=2)
    encoder: LatentEncoderConfig
    dynamics: LatentMLPConfig
    reward: LatentMLPConfig
    continue_: LatentMLPConfig = Field(alias="continue")
    ends: Ends = "soft"
    coding: NumberCodingConfig = NumberCodingConfig()

    @model_validator(mode="after")
    def _check(self) -> TOLDConfig:
        if self.simnorm is not None and self.latent % self.simnorm:
            raise ValueError(f"latent = {self.latent} cannot be split into groups of simnorm = {self.simnorm}")
        return self


class TOLD(nn.Module):
    """Follows the protocol of world models (docs/world_models.md). A latent is what the encoder makes of the newest
    observation; the reward of an imagined step is of the latent that it began from and of its action."""

    def __init__(self, config: TOLDConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.spec = spec
        inputs = config.latent + vector_size(spec.action)
        self.encoder = LatentEncoder(config.encoder, spec, config.latent, config.simnorm)
        self.dynamics = latent_mlp(inputs, config.dynamics, config.latent)
        if config.simnorm is not None:
            self.dynamics.extend([nn.LayerNorm(config.latent), SimNorm(config.simnorm)])
        self.coding = NumberCoding(config.coding)
        self.reward = latent_mlp(inputs, config.reward, self.coding.outputs, zero=True)
        self.goes_on = None if config.ends == "ignore" else latent_mlp(config.latent, config.continue_, 1)

    def initial(self, batch: int) -> Latent:
        """The latent before anything was seen."""
        device = next(self.parameters()).device
        return {STATE: torch.zeros(batch, self.config.latent, device=device), REWARD: torch.zeros(batch, device=device)}

    def observe(self, latent: Latent, action: Tensor, observation: Observation, is_first: Tensor) -> Latent:
        """The latent [B, L] of what is seen now; what was before plays no part."""
        state = self.encoder(observation)
        return {STATE: state, REWARD: torch.zeros_like(state[..., 0])}

    def observe_sequence(self, observation: Observation, action: Tensor, is_first: Tensor) -> Latent:
        """Latents [T, B, L] of sequences [T, B, ...]."""
        state = self.encode_sequence(observation)
        return {STATE: state, REWARD: torch.zeros_like(state[..., 0])}

    def encode_sequence(self, observation: Observation, *, augments: bool = False) -> Tensor:
        """[T, B, L] of parts [T, B, ...]; `augments`: images are shifted at random, as while learning."""
        lead = next(iter(observation.values())).shape[:2]
        flat = self.encoder({name: part.flatten(0, 1) for name, part in observation.items()}, augments=augments)
        return flat.unflatten(0, lead)

    def imagine_step(self, latent: Latent, action: Tensor) -> Latent:
        """The latent after an action [..., A], and the reward on the way there."""
        inputs = torch.cat([latent[STATE], action], -1)
        return {STATE: self.dynamics(inputs), REWARD: self.coding.predict(self.reward(inputs))}

    def imagine_first(self, latent: Latent, actions: Tensor) -> Latent:
        """As `imagine_step` for N actions [B, N, A] at each latent [B, L], to latents [B * N, L]: what the first layers
        make of the latent is computed once for all actions."""
        state, size = latent[STATE], self.config.latent

        def follow(network: nn.Sequential) -> Tensor:
            first, *others = network
            assert isinstance(first, nn.Linear)
            of_state = functional.linear(state, first.weight[:, :size], first.bias)
            hidden = (of_state.unsqueeze(1) + functional.linear(actions, first.weight[:, size:])).flatten(0, 1)
            for layer in others:
                hidden = layer(hidden)
            return hidden

        return {STATE: follow(self.dynamics), REWARD: self.coding.predict(follow(self.reward))}

    def features(self, latent: Latent) -> Tensor:
        return latent[STATE]

    def predict_reward(self, latent: Latent) -> Tensor:
        """[...]: the reward that came with the imagined step; 0 of a latent that was observed."""
        return latent[REWARD]

    def predict_continue(self, latent: Latent) -> Tensor:
        """[...]: what is left of what follows: a chance, 0 or 1, or always 1."""
        if self.goes_on is None:
            return torch.ones_like(latent[REWARD])
        logit = self.goes_on(latent[STATE]).squeeze(-1)
        return logit.sigmoid() if self.config.ends == "soft" else (logit > 0).float()

    def continue_loss(self, state: Tensor, terminated: Tensor) -> Tensor:
        """[...]: the cross-entropy of the chance that an episode goes on at states [..., L]; 0 without a head."""
        if self.goes_on is None:
            return torch.zeros_like(state[..., 0])
        logit = self.goes_on(state).squeeze(-1)
        return functional.binary_cross_entropy_with_logits(logit, (~terminated).float(), reduction="none")

    def decode(self, latent: Latent) -> Observation:
        """Nothing: there is no decoder. Diagnostics compare latents instead."""
        return {}

    def learn_scale(self, observation: Observation) -> None:
        """Nothing is standardized."""

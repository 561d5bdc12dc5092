"""The recurrent state-space model (arXiv:1811.04551): a deterministic memory and a stochastic part that is guessed from
it (the prior) or found from it and what is seen (the posterior).

Shapes, time first: T steps, B sequences, D deterministic numbers, S stochastic ones, E of what is seen, A of an action.
A latent is a dict of `deter` [..., D] and `stoch` [..., S].
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.dynamics.stochastic import CategoricalLatent, GaussianLatent
from paddock.components.dynamics.transitions import BlockTransition, GRUTransition
from paddock.components.networks.activations import Activation
from paddock.components.networks.dense import DenseConfig, Norm, dense, normed_activation, scaled_linear
from paddock.config.schema import Schema

Latent = dict[str, Tensor]


class RSSMConfig(Schema):
    """Sizes and kinds. `groups` of `classes` are one-hot choices; with the Gaussian kind there are `groups` numbers."""

    deter: int = Field(ge=1)
    hidden: int = Field(ge=1)
    stochastic: Literal["categorical", "gaussian"] = "categorical"
    groups: int = Field(ge=1)
    classes: int = Field(ge=2)
    unimix: float = Field(default=0.01, ge=0, lt=1)
    cell: Literal["gru", "block_gru"] = "block_gru"
    blocks: int = Field(default=8, ge=1)
    prior_layers: int = Field(default=2, ge=1)
    activation: Activation = "silu"
    norm: Norm = "rms"

    @model_validator(mode="after")
    def _check(self) -> RSSMConfig:
        if self.cell == "block_gru" and self.deter % self.blocks:
            raise ValueError(f"deter {self.deter} cannot be cut into {self.blocks} blocks; it has to be a multiple")
        return self

    def make_stochastic(self) -> CategoricalLatent | GaussianLatent:
        if self.stochastic == "gaussian":
            return GaussianLatent(self.groups)
        return CategoricalLatent(self.groups, self.classes, self.unimix)

    @property
    def features(self) -> int:
        """Numbers of a latent, deterministic and stochastic part together."""
        return self.deter + self.make_stochastic().size


class RSSM(nn.Module):
    """Latents from what is seen and done, and from what is done alone."""

    def __init__(self, config: RSSMConfig, embedding: int, action: int) -> None:
        super().__init__()
        self.config = config
        self.stochastic = config.make_stochastic()
        activation, norm = config.activation, config.norm
        sizes = (config.deter, self.stochastic.size, action, config.hidden)
        self.transition: GRUTransition | BlockTransition
        if config.cell == "gru":
            self.transition = GRUTransition(*sizes, activation=activation, norm=norm)
        else:
            self.transition = BlockTransition(*sizes, config.blocks, activation=activation, norm=norm)
        layers = DenseConfig(layers=config.prior_layers, units=config.hidden, activation=activation, norm=norm)
        self.prior = nn.Sequential(dense(config.deter, layers), scaled_linear(config.hidden, self.stochastic.outputs))
        self.seen = scaled_linear(config.deter + embedding, config.hidden)
        self.posterior = nn.Sequential(
            *normed_activation(config.hidden, activation, norm),
            scaled_linear(config.hidden, self.stochastic.outputs),
        )

    def initial(self, batch: int) -> Latent:
        """Zeros: what is known before anything was seen."""
        device = self.seen.weight.device
        sizes = {"deter": self.config.deter, "stoch": self.stochastic.size}
        return {name: torch.zeros(batch, size, device=device) for name, size in sizes.items()}

    def observe(self, before: Latent, embedding: Tensor, action: Tensor, is_first: Tensor) -> Latent:
        """Posterior latents for one step: [B, E], the action [B, A] that led there, `is_first` [B]."""
        latents = self.observe_sequence(before, embedding[None], action[None], is_first[None], with_prior=False)
        return {name: latents[name][0] for name in before}

    def observe_sequence(
        self, before: Latent, embedding: Tensor, action: Tensor, is_first: Tensor, *, with_prior: bool = True
    ) -> Latent:
        """Posterior latents for [T, B, E], actions [T, B, A] that led there and `is_first` [T, B], from `before` [B].

        Only the memory and the posterior are in the loop. Besides `deter` and `stoch` there are the raw outputs
        `posterior`, and `prior` if asked for, both [T, B, P].
        """
        keep = (~is_first).to(embedding.dtype).unsqueeze(-1)
        begins = is_first.any(1).tolist()
        # Taken apart once: the gradient of an index would be as long as the whole sequence, at every step.
        prepared = self.transition.prepare(action * keep).unbind()
        from_deter, from_seen = self.seen.weight.split([self.config.deter, embedding.shape[-1]], 1)
        seen = functional.linear(embedding, from_seen, self.seen.bias).unbind()
        noise = self.stochastic.noise(*is_first.shape, device=embedding.device)
        deter, stoch = before["deter"], before["stoch"]
        steps: dict[str, list[Tensor]] = {"deter": [], "stoch": [], "posterior": []}
        for t, begins_anew in enumerate(begins):
            if begins_anew:
                deter, stoch = deter * keep[t], stoch * keep[t]
            deter = self.transition(deter, stoch, prepared[t])
            outputs = self.posterior(torch.addmm(seen[t], deter, from_deter.T))
            stoch = self.stochastic.draw(outputs, noise[t])
            for name, value in zip(steps, (deter, stoch, outputs), strict=True):
                steps[name].append(value)
        latents = {name: torch.stack(values) for name, values in steps.items()}
        if with_prior:
            latents["prior"] = self.prior(latents["deter"])
        return latents

    def imagine_step(self, before: Latent, action: Tensor) -> Latent:
        """Where an action [B, A] leads, drawn from the prior."""
        deter = self.transition(before["deter"], before["stoch"], self.transition.prepare(action))
        noise = self.stochastic.noise(len(deter), device=deter.device)
        return {"deter": deter, "stoch": self.stochastic.draw(self.prior(deter), noise)}

    def kl(self, latents: Latent) -> tuple[Tensor, Tensor]:
        """[T, B] each: KL of the posterior from the prior, with the gradient to the prior alone (what the dynamics
        have to learn), and with the gradient to the posterior alone (what the representation may give up)."""
        posterior, prior = latents["posterior"], latents["prior"]
        dynamics = self.stochastic.kl(posterior.detach(), prior)
        representation = self.stochastic.kl(posterior, prior.detach())
        return dynamics, representation

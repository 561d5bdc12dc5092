"""The recurrent state-space model (arXiv:1811.04551): a deterministic memory and a stochastic part that is guessed from
it (the prior) or found from it and what is seen (the posterior).

Shapes, time first: T steps, B sequences, D deterministic numbers, S stochastic ones, E of what is seen, A of an action.
A latent is a dict of `deter` [..., D] and `stoch` [..., S].
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import draw_normal, draw_uniform
from paddock.components.networks.mlp import (
    Activation,
    BlockLinear,
    DenseConfig,
    Norm,
    dense,
    dense_layer,
    make_norm,
    normed_activation,
    scaled_linear,
    tanh,
    truncated_normal,
)
from paddock.config.schema import Schema

MIN_STD = 0.1
Latent = dict[str, Tensor]


class CategoricalLatent:
    """`groups` independent choices among `classes`, one-hot; raw outputs are logits of the same layout.

    All groups' first classes come first, then their second ones: the sums over the few classes then run over many
    groups side by side, which is several times faster than the other way round.
    `unimix` of every probability is uniform, so that no choice ever becomes impossible (arXiv:2301.04104).
    """

    def __init__(self, groups: int, classes: int, unimix: float) -> None:
        self.classes = classes
        self.unimix = unimix
        self.size = self.outputs = groups * classes

    def noise(self, *shape: int, device: torch.device) -> Tensor:
        """For `draw`: exponential draws, by which the largest ratio is a sample (the Gumbel-max trick). Rows of a batch
        are along the last axis of `shape`."""
        uniform = draw_uniform((*shape, self.size), device, axis=len(shape) - 1)
        return uniform.log_().neg_()  # Much faster than `exponential_`.

    def warmed(self, outputs: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """What to `draw` from at a temperature: logits are divided by it."""
        return outputs / temperature, noise

    def draw(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """[..., size] one-hot, with the probabilities' gradient (straight through)."""
        probabilities = self._probabilities(outputs)
        ratio = probabilities.detach() / noise.unflatten(-1, (self.classes, -1))
        drawn = (ratio == ratio.amax(-2, keepdim=True)).to(outputs.dtype)
        if probabilities.requires_grad:
            drawn = drawn + (probabilities - probabilities.detach())
        return drawn.flatten(-2)

    def mode(self, outputs: Tensor) -> Tensor:
        """[..., size] one-hot: the likeliest classes."""
        logits = outputs.unflatten(-1, (self.classes, -1))
        chosen = logits.argmax(-2, keepdim=True)
        return torch.zeros_like(logits).scatter_(-2, chosen, 1.0).flatten(-2)

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        """[...]: Kullback-Leibler divergence of the first from the second, both raw outputs [..., outputs]."""
        log_first, log_second = self._probabilities(first).log(), self._probabilities(second).log()
        return (log_first.exp() * (log_first - log_second)).sum((-2, -1))

    def _probabilities(self, outputs: Tensor) -> Tensor:
        plain = outputs.unflatten(-1, (self.classes, -1)).softmax(-2)
        return (1 - self.unimix) * plain + self.unimix / self.classes


class GaussianLatent:
    """`size` independent normal numbers; raw outputs [..., 2 * size] are means and what becomes deviations."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.outputs = 2 * size

    def noise(self, *shape: int, device: torch.device) -> Tensor:
        return draw_normal((*shape, self.size), device, axis=len(shape) - 1)

    def warmed(self, outputs: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """What to `draw` from at a temperature: variances are multiplied by it."""
        return outputs, noise * math.sqrt(temperature)

    def draw(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """[..., size], with the gradient of mean and std."""
        mean, std = self._moments(outputs)
        return torch.addcmul(mean, std, noise)

    def mode(self, outputs: Tensor) -> Tensor:
        """[..., size]: the means."""
        return outputs.chunk(2, -1)[0]

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        """[...]: Kullback-Leibler divergence of the first from the second, both raw outputs [..., outputs]."""
        (mean, std), (other_mean, other_std) = self._moments(first), self._moments(second)
        ratio = std / other_std
        distance = (mean - other_mean) / other_std
        return (0.5 * (ratio.square() + distance.square() - 1) - ratio.log()).sum(-1)

    def _moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = outputs.chunk(2, -1)
        return mean, functional.softplus(raw.contiguous()) + MIN_STD  # Over rows with gaps it takes ten times as long.


class GRUTransition(nn.Module):
    """Stochastic part and action through one layer into a gated recurrent unit that is normalised as a whole
    (arXiv:2010.02193)."""

    def __init__(self, deter: int, stoch: int, action: int, hidden: int, *, activation: Activation, norm: Norm) -> None:
        super().__init__()
        self.from_action = scaled_linear(action, hidden)
        self.from_stoch = nn.Linear(stoch, hidden, bias=False)
        self.joined = nn.Sequential(*normed_activation(hidden, activation, norm))
        self.gates = nn.Sequential(scaled_linear(hidden + deter, 3 * deter), *make_norm(3 * deter, norm))

    def prepare(self, action: Tensor) -> Tensor:
        """[..., A] to [..., hidden]."""
        return self.from_action(action)

    def forward(self, deter: Tensor, stoch: Tensor, prepared: Tensor) -> Tensor:
        """[B, D], [B, S] and one step of what was prepared, to [B, D]."""
        joined = self.joined(torch.addmm(prepared, stoch, self.from_stoch.weight.T))
        both = torch.cat([joined, deter.to(joined.dtype)], -1)  # Half the width stays half the width.
        return gated(self.gates(both).chunk(3, -1), deter)


class BlockTransition(nn.Module):
    """A gated recurrent unit with block-diagonal weights, each block of which reads everything once
    (DreamerV3 of 2024: many numbers remembered at the cost of few)."""

    def __init__(
        self, deter: int, stoch: int, action: int, hidden: int, blocks: int, *, activation: Activation, norm: Norm
    ) -> None:
        super().__init__()
        self.blocks = blocks
        self.from_deter = nn.Sequential(*dense_layer(deter, hidden, activation, norm))
        self.from_stoch = nn.Sequential(*dense_layer(stoch, hidden, activation, norm))
        self.from_action = nn.Sequential(*dense_layer(action, hidden, activation, norm))
        # One layer over [own block, all of deter, stoch, action], the weights of each part apart.
        self.own = BlockLinear(blocks, deter, deter, bias=False)
        self.shared = nn.Linear(2 * hidden, deter, bias=False)
        self.shared_action = scaled_linear(hidden, deter)
        self._scale_as_one(deter // blocks, hidden)
        self.joined = nn.Sequential(*normed_activation(deter, activation, norm))
        self.gates = BlockLinear(blocks, deter, 3 * deter, bias=True)

    def prepare(self, action: Tensor) -> Tensor:
        """[..., A] to [..., D]: all that the action adds."""
        return self.shared_action(self.from_action(action))

    def forward(self, deter: Tensor, stoch: Tensor, prepared: Tensor) -> Tensor:
        """[B, D], [B, S] and one step of what was prepared, to [B, D]."""
        everything = torch.cat([self.from_deter(deter), self.from_stoch(stoch)], -1)
        own = self.own(deter).transpose(0, 1).flatten(1)
        sum_ = torch.addmm(prepared, everything, self.shared.weight.T)
        joined = self.joined(sum_.add_(own) if not torch.is_grad_enabled() else sum_ + own)
        before = deter.unflatten(-1, (self.blocks, -1)).transpose(0, 1)
        return gated(self.gates.parts(joined, 3), before).transpose(0, 1).flatten(1)

    def _scale_as_one(self, block: int, hidden: int) -> None:
        for weight in (self.own.weight, self.shared.weight, self.shared_action.weight):
            truncated_normal(weight.data, block + 3 * hidden)


def gated(gates: list[Tensor] | tuple[Tensor, ...], before: Tensor) -> Tensor:
    """A gated step from raw gates (reset, candidate, update); it begins by remembering more than it takes in."""
    reset, candidate, update = (gate.to(before.dtype) for gate in gates)  # Products may be of half the width.
    if not torch.is_grad_enabled():  # In place: nothing is needed for a gradient.
        candidate = reset.sigmoid_().mul_(candidate).mul_(2).sigmoid_().mul_(2).sub_(1)
        return torch.lerp(before, candidate, update.sub_(1).sigmoid_())
    candidate = tanh(reset.sigmoid() * candidate)
    return torch.lerp(before, candidate, (update - 1).sigmoid())


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

    def imagine_step(self, before: Latent, action: Tensor, temperature: float = 1.0) -> Latent:
        """Where an action [B, A] leads, drawn from the prior at a temperature; at 0 its mode."""
        deter = self.transition(before["deter"], before["stoch"], self.transition.prepare(action))
        prior = self.prior(deter)
        if temperature == 0:
            return {"deter": deter, "stoch": self.stochastic.mode(prior).to(deter.dtype)}
        noise = self.stochastic.noise(len(deter), device=deter.device)
        if temperature != 1.0:
            prior, noise = self.stochastic.warmed(prior, noise, temperature)
        return {"deter": deter, "stoch": self.stochastic.draw(prior, noise)}

    def kl(self, latents: Latent) -> tuple[Tensor, Tensor]:
        """[T, B] each: KL of the posterior from the prior, with the gradient to the prior alone (what the dynamics
        have to learn), and with the gradient to the posterior alone (what the representation may give up)."""
        posterior, prior = latents["posterior"], latents["prior"]
        dynamics = self.stochastic.kl(posterior.detach(), prior)
        representation = self.stochastic.kl(posterior, prior.detach())
        return dynamics, representation

"""The memory of World Models (Sec. 3.2, arXiv:1803.10122): an LSTM over latents and actions whose output is a mixture
of normals for the next latent, and what comes with it: the reward, and whether the episode ends.

Shapes: N states or [T, B] of sequences, L latent numbers, A of an action's vector, H of the memory, K components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from paddock.components.actions import vector_size
from paddock.components.networks.mlp import plain_mlp
from paddock.config.schema import Part, TargetSchema
from paddock.core.specs import Spec

LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
MIN_LOG_STD, MAX_LOG_STD = -5.0, 4.0  # A density cannot grow without end around a latent that never changes.


class MDNRNNConfig(TargetSchema):
    """Sizes of the memory. representation: the configuration of what it reads latents of.

    mixture: `factored` has a mixture of K normals for each latent number, as in the paper; `joint` has one mixture of
    K normals over the whole latent. heads: width of a hidden layer through which reward and end are read off the
    output and the next latent; 0 reads them off the output alone, as in the paper. dropout: of the LSTM's output before
    the mixture, in training and in dreams (arXiv:2109.08342).
    """

    representation: Part
    size: int = Field(default=256, ge=1)
    components: int = Field(default=5, ge=1)
    mixture: Literal["factored", "joint"] = "factored"
    heads: int = Field(default=0, ge=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)


@dataclass(frozen=True)
class Mixture:
    """Normals over the next latent [..., L]: `log_weight` [..., L, K] (factored) or [..., 1, K] (joint), `mean` and
    `log_std` [..., L, K]."""

    log_weight: Tensor
    mean: Tensor
    log_std: Tensor

    @property
    def is_joint(self) -> bool:
        return self.log_weight.shape[-2] == 1 and self.mean.shape[-2] > 1

    def log_prob(self, latent: Tensor) -> Tensor:
        """[...]: the log-density of latents [..., L], summed over the numbers."""
        scaled = (latent.unsqueeze(-1) - self.mean) * (-self.log_std).exp()
        each = -0.5 * scaled.square() - self.log_std - LOG_SQRT_TWO_PI
        if self.is_joint:
            each = each.sum(-2, keepdim=True)
        return (self.log_weight + each).logsumexp(-1).sum(-1)

    def sample(self, temperature: float = 1.0) -> Tensor:
        """[..., L]: at a temperature the logarithms of the weights are divided by it, and variances multiplied."""
        logits = self.log_weight / max(temperature, 1e-6)
        uniform = torch.rand_like(logits).clamp_(min=1e-12)
        chosen = (logits - (-uniform.log()).log()).argmax(-1, keepdim=True)  # the Gumbel-max trick
        chosen = chosen.expand(*self.mean.shape[:-1], 1)
        mean, log_std = self.mean.gather(-1, chosen).squeeze(-1), self.log_std.gather(-1, chosen).squeeze(-1)
        return torch.addcmul(mean, log_std.exp() * math.sqrt(temperature), torch.randn_like(mean))

    def expected(self) -> Tensor:
        """[..., L]: the mean of the mixture."""
        return (self.log_weight.exp() * self.mean).sum(-1)


class MDNRNN(nn.Module):
    """An LSTM cell over [latent, action], and heads on its output."""

    def __init__(self, config: MDNRNNConfig, spec: Spec) -> None:
        super().__init__()
        self.config = config
        self.latent_size: int = config.representation.latent_size(spec)  # type: ignore[attr-defined]
        self.cell = nn.LSTMCell(self.latent_size + vector_size(spec.action), config.size)
        with torch.no_grad():  # Remember from the beginning: a forget gate with a bias of 1.
            self.cell.bias_ih.zero_()
            self.cell.bias_hh.zero_()
            self.cell.bias_ih[config.size : 2 * config.size] = 1.0
        weights = 1 if config.mixture == "joint" else self.latent_size
        self._sizes = [weights * config.components, *[self.latent_size * config.components] * 2]
        self.mixture_head = nn.Linear(config.size, sum(self._sizes))
        self.reward_head, self.end_head = self._head(), self._head()

    def initial(self, batch: int) -> tuple[Tensor, Tensor]:
        """Output and cell [N, H] before anything happened."""
        zeros = torch.zeros(batch, self.config.size, device=self.mixture_head.weight.device)
        return zeros, zeros

    def step(self, latent: Tensor, action: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Output and cell after an action [N, A] upon a latent [N, L]."""
        return self.cell(torch.cat([latent, action], -1), state)

    def unroll(self, latent: Tensor, action: Tensor, is_first: Tensor) -> Tensor:
        """Outputs [T, B, H] after each of latents [T, B, L] and actions [T, B, A]; where `is_first` [T, B], the memory
        is empty before the step."""
        inputs = torch.cat([latent, action], -1)
        state, outputs, keep = self.initial(inputs.shape[1]), [], (~is_first).float().unsqueeze(-1)
        for step, kept in zip(inputs.unbind(), keep.unbind(), strict=True):
            state = self.cell(step, (state[0] * kept, state[1] * kept))
            outputs.append(state[0])
        return torch.stack(outputs)

    def mixture(self, output: Tensor) -> Mixture:
        """What the next latent may be, by the memory's output [..., H]."""
        raw = self.mixture_head(self._dropped(output))
        weight, mean, log_std = (
            part.unflatten(-1, (-1, self.config.components)) for part in raw.split(self._sizes, -1)
        )
        return Mixture(weight.log_softmax(-1), mean, log_std.clamp(MIN_LOG_STD, MAX_LOG_STD))

    def reward(self, output: Tensor, following: Tensor) -> Tensor:
        """[...]: the reward that comes with the next latent [..., L]."""
        return self.reward_head(self._read(output, following)).squeeze(-1)

    def end(self, output: Tensor, following: Tensor) -> Tensor:
        """[...]: the logit that the episode terminates with the next latent [..., L]."""
        return self.end_head(self._read(output, following)).squeeze(-1)

    def _head(self) -> nn.Module:
        config = self.config
        if not config.heads:
            return nn.Linear(config.size, 1)
        return plain_mlp([config.size + self.latent_size, config.heads, 1], "elu")

    def _read(self, output: Tensor, following: Tensor) -> Tensor:
        return torch.cat([output, following], -1) if self.config.heads else output

    def _dropped(self, output: Tensor) -> Tensor:
        return functional.dropout(output, self.config.dropout) if self.config.dropout else output


def mdn_losses(
    memory: MDNRNN,
    latent: Tensor,
    action: Tensor,
    reward: Tensor,
    terminated: Tensor,
    is_first: Tensor,
    *,
    end_weight: float,
    is_counted: Tensor | None = None,
) -> dict[str, Tensor]:
    """[]: the negative log-density of each next latent number, the squared error of its reward, and the cross-entropy
    of its end, in which ends count `end_weight` times. All rows [T, B, ...]; a step into a first row counts nothing,
    nor one that `is_counted` [T, B] excludes."""
    output = memory.unroll(latent[:-1], action[:-1], is_first[:-1])
    is_step = ~is_first[1:] if is_counted is None else ~is_first[1:] & is_counted[1:]
    mask = is_step.float()
    count = mask.sum().clamp(min=1)
    log_prob = memory.mixture(output).log_prob(latent[1:]) / latent.shape[-1]
    error = (memory.reward(output, latent[1:]) - reward[1:]).square()
    ends = terminated[1:].float()
    entropy = functional.binary_cross_entropy_with_logits(memory.end(output, latent[1:]), ends, reduction="none")
    entropy = entropy * (1 + (end_weight - 1) * ends)
    values = {"latent": -log_prob, "reward": error, "end": entropy}
    return {name: (value * mask).sum() / count for name, value in values.items()}

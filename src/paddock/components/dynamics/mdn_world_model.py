"""An autoencoder and a memory as one world model, by the protocol that controllers and dreams use (protocol.py).

Shapes: B environments, L latent numbers, H of the memory, A of an action's vector, F features.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from paddock.components.dynamics.mdn_rnn import MDNRNN
from paddock.components.dynamics.rssm import Latent
from paddock.components.representation_learners.conv_vae import sample_latent

Observation = dict[str, Tensor]
Reads = Literal["memory", "nothing", "earlier_latent"]
LATENT, EARLIER, HIDDEN, CELL, BEGUN = "latent", "earlier", "hidden", "cell", "begun"


class MDNWorldModel:
    """What a representation sees, carried on by an MDN-RNN. It owns neither of them.

    A latent state holds `latent` [B, L], the one before it (`earlier`), the memory's `hidden` and `cell` [B, H] as they
    were *before* the latent was seen, and whether anything was seen yet (`begun` [B, 1]). Its features are the latent
    and, by `reads`, the memory's output, nothing, or the earlier latent.
    """

    def __init__(self, representation: Any, memory: MDNRNN, *, reads: Reads, samples_latent: bool) -> None:
        self.representation, self.memory = representation, memory
        self.reads, self.samples_latent = reads, samples_latent

    def initial(self, batch: int) -> Latent:
        """The latent state before anything was seen."""
        hidden, cell = self.memory.initial(batch)
        zeros = hidden.new_zeros(batch, self.memory.latent_size)
        return {LATENT: zeros, EARLIER: zeros, HIDDEN: hidden, CELL: cell, BEGUN: hidden.new_zeros(batch, 1)}

    def observe(self, latent: Latent, action: Tensor, observation: Observation, is_first: Tensor) -> Latent:
        """The latent state after parts [B, ...] were seen, to which the action [B, A] led."""
        return self._receive(latent, action, self.read(*self.representation.encode(observation)), is_first)

    def observe_sequence(self, observation: Observation, action: Tensor, is_first: Tensor) -> Latent:
        """Latent states [T, B, ...] of sequences [T, B, ...]."""
        flat = {name: part.flatten(0, 1) for name, part in observation.items()}
        seen = self.read(*self.representation.encode(flat)).unflatten(0, is_first.shape)
        return self.follow(seen, action, is_first)

    def follow(self, seen: Tensor, action: Tensor, is_first: Tensor) -> Latent:
        """Latent states [T, B, ...] of latents [T, B, L] that are known, and the actions [T, B, A] that led to them."""
        state, states = self.initial(is_first.shape[1]), []
        for step in range(len(is_first)):
            state = self._receive(state, action[step], seen[step], is_first[step])
            states.append(state)
        return {name: torch.stack([each[name] for each in states]) for name in state}

    def read(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        """What is acted upon: the mean, or a draw."""
        return sample_latent(mean, log_variance) if self.samples_latent else mean

    def imagine_step(self, latent: Latent, action: Tensor, temperature: float = 1.0) -> Latent:
        """Where an action [B, A] leads, drawn from the mixture at a temperature."""
        hidden, cell = self.memory.step(latent[LATENT], action, (latent[HIDDEN], latent[CELL]))
        drawn = self.memory.mixture(hidden).sample(temperature)
        begun = torch.ones_like(latent[BEGUN])
        return {LATENT: drawn, EARLIER: latent[LATENT], HIDDEN: hidden, CELL: cell, BEGUN: begun}

    def features(self, latent: Latent) -> Tensor:
        """[..., F]: what a controller reads."""
        if self.reads == "nothing":
            return latent[LATENT]
        return torch.cat([latent[LATENT], latent[HIDDEN if self.reads == "memory" else EARLIER]], -1)

    def predict_reward(self, latent: Latent) -> Tensor:
        """[...]: the reward that came with a latent, as the memory expected it."""
        return self.memory.reward(latent[HIDDEN], latent[LATENT])

    def predict_continue(self, latent: Latent) -> Tensor:
        """[...]: the chance that the episode did not terminate there."""
        return torch.sigmoid(-self.memory.end(latent[HIDDEN], latent[LATENT]))

    def decode(self, latent: Latent) -> Observation:
        """Observation parts [B, ...] in their own units."""
        return self.representation.decode(latent[LATENT])

    def learn_scale(self, observation: Observation) -> None:
        """Take parts [T, B, ...] into what numbers are standardized by."""
        self.representation.learn_scale({name: part.flatten(0, 1) for name, part in observation.items()})

    def _receive(self, latent: Latent, action: Tensor, seen: Tensor, is_first: Tensor) -> Latent:
        keep = (~is_first).float().unsqueeze(-1) * latent[BEGUN]
        if self.reads == "memory":
            hidden, cell = self.memory.step(latent[LATENT], action, (latent[HIDDEN], latent[CELL]))
        else:  # Nothing reads it, and it is most of what acting costs.
            hidden, cell = latent[HIDDEN], latent[CELL]
        return {
            LATENT: seen,
            EARLIER: latent[LATENT] * keep,
            HIDDEN: hidden * keep,
            CELL: cell * keep,
            BEGUN: torch.ones_like(latent[BEGUN]),
        }


def feature_size(latent_size: int, memory_size: int, reads: Reads) -> int:
    """F: numbers that `MDNWorldModel.features` gives."""
    return latent_size + {"memory": memory_size, "nothing": 0, "earlier_latent": latent_size}[reads]

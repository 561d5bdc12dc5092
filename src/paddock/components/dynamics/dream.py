"""Many episodes side by side inside a world model: a dream that is stepped like an environment.

Shapes: B dreams, A numbers of an action's vector, F features.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal

import torch
from torch import Tensor

from paddock.components.dynamics.rssm import Latent
from paddock.core.errors import InputError

Ends = Literal["threshold", "sampled", "never"]


class Dream:
    """A world model (protocol.py) as something that begins at given latents and is stepped by actions.

    temperature: how uncertain the model's draws are, where it draws; 1 is as learned. ends: an episode is over where
    its end is the likelier outcome (`threshold`), by a draw (`sampled`), or not at all.
    """

    def __init__(self, model: Any, *, temperature: float = 1.0, ends: Ends = "threshold") -> None:
        self.model, self.temperature, self.ends = model, temperature, ends
        self._warmed = "temperature" in inspect.signature(model.imagine_step).parameters
        if not self._warmed and temperature != 1.0:
            raise InputError(
                f"temperature = {temperature}: {type(model).__name__} draws nothing in its dreams, so it has no "
                "temperature. Leave it at 1.0."
            )

    def step(self, latent: Latent, action: Tensor) -> tuple[Latent, Tensor, Tensor]:
        """Where an action vector [B, A] leads, the reward [B] that comes with it, and where the episode ends, bool [B].

        Nothing stops a dream that is over: it is the caller's to begin anew.
        """
        if self._warmed:
            latent = self.model.imagine_step(latent, action, temperature=self.temperature)
        else:
            latent = self.model.imagine_step(latent, action)
        goes_on = self.model.predict_continue(latent)
        return latent, self.model.predict_reward(latent), self._ended(goes_on)

    def _ended(self, goes_on: Tensor) -> Tensor:
        if self.ends == "never":
            return torch.zeros_like(goes_on, dtype=torch.bool)
        return goes_on < (torch.rand_like(goes_on) if self.ends == "sampled" else 0.5)


def replaced(latent: Latent, rows: Tensor, fresh: Latent) -> Latent:
    """A latent [B, ...] in which the given rows [K] are those of another one [K, ...]."""
    return {name: part.index_copy(0, rows, fresh[name]) for name, part in latent.items()}


def repeated(latent: Latent, times: int) -> Latent:
    """[times * B, ...]: every latent state once, then all of them again."""
    return {name: part.repeat(times, *[1] * (part.dim() - 1)) for name, part in latent.items()}

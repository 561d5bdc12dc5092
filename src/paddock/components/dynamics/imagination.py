"""Returns of action sequences under a world model: what makes a model into something a planner can call.

Shapes: B environments, N candidates, H steps, A numbers in an action's vector. A latent is a dict of tensors [B, ...].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor

from paddock.components.dynamics.rssm import Latent

Ends = Literal["soft", "ignore"]


class Imagination(Protocol):
    """The part of a world model that imagining needs; the whole protocol is told in docs/world_models.md."""

    def imagine_step(self, latent: Latent, action: Tensor) -> Latent: ...

    def predict_reward(self, latent: Latent) -> Tensor: ...

    def predict_continue(self, latent: Latent) -> Tensor: ...


def score_by(
    model: Imagination,
    latent: Latent,
    *,
    gamma: float,
    value: Callable[[Latent], Tensor] | None = None,
    ends: Ends = "soft",
    temperature: float = 1.0,
) -> Callable[[Tensor], Tensor]:
    """A planner's question, candidates [B, N, H, A] to returns [B, N], answered by imagining from `latent`."""
    return partial(imagined_return, model, latent, gamma=gamma, value=value, ends=ends, temperature=temperature)


def imagined_return(
    model: Imagination,
    latent: Latent,
    actions: Tensor,
    *,
    gamma: float,
    value: Callable[[Latent], Tensor] | None = None,
    ends: Ends = "soft",
    temperature: float = 1.0,
) -> Tensor:
    """[B, N]: discounted rewards of sequences [B, N, H, A], each as likely as the episode is to get there.

    With `value` what comes after the horizon counts, too. With `ends` ignored the model is not asked whether the
    episode continues. A `temperature` is for models that draw their latents. All candidates of all environments are
    one batch.
    """
    batch, count = actions.shape[:2]
    imagine_first = getattr(model, "imagine_first", None)  # Of a model that knows what the candidates have in common.
    if imagine_first is None:
        latent = {name: part.repeat_interleave(count, 0) for name, part in latent.items()}
    total = torch.zeros(batch * count, device=actions.device)
    weight = torch.ones_like(total)
    imagine: Callable[..., Latent] = model.imagine_step
    if temperature != 1.0:
        imagine = partial(imagine, temperature=temperature)
    for step, action in enumerate(actions.flatten(0, 1).unbind(1)):
        if step == 0 and imagine_first is not None:
            latent = imagine_first(latent, actions[:, :, 0])
        else:
            latent = imagine(latent, action)
        total = total + weight * model.predict_reward(latent)
        weight = weight * gamma
        if ends == "soft":
            weight = weight * model.predict_continue(latent)
    if value is not None:
        total = total + weight * value(latent)
    return total.view(batch, count)

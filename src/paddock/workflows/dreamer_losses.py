"""Dreamer's losses as functions: what a world model learns from sequences, what policy and value learn from dreams.

Shapes: B sequences, T steps, H imagined steps, N = B * T states that are imagined from, F features, A action numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paddock.components.controllers.latent_control import Distribution
from paddock.components.distributions import SquashedGaussian
from paddock.components.return_computers.td_lambda import lambda_returns

Losses = dict[str, Tensor]
Sample = dict[str, Any]


def shift_actions(batch: Sample, device: torch.device) -> Sample:
    """Rows [B, T + 1, ...] as what was seen and the action that led there, [B, T, ...].

    A row holds the action taken upon its observation and the reward that came with it, so only the action moves: the
    first row lends it, and is itself not seen.
    """
    later = {name: batch[name][:, 1:].to(device) for name in ("reward", "is_first", "terminated", "truncated")}
    return {
        "observation": {name: part[:, 1:].to(device) for name, part in batch["observation"].items()},
        "action": batch["action"][:, :-1].to(device),
        "reward": later["reward"],
        "is_first": later["is_first"],
        "is_last": later["terminated"] | later["truncated"],
        "continue": (~later["terminated"]).float(),
    }


def world_model_losses(
    model: Any, latents: dict[str, Tensor], sample: Sample, *, free_nats: float, free_mean: bool
) -> tuple[Losses, Tensor]:
    """Eq. 2 and 3, arXiv:2301.04104: predictions of what is seen and paid, and the two sides of the KL,
    whose mean is the second result."""
    features = model.features(latents).flatten(0, 1)
    seen = {name: part.flatten(0, 1) for name, part in sample["observation"].items()}
    dynamics, representation = model.kl(latents)
    losses = {
        "observation": model.decoder.loss(model.decoder(features), seen).mean(),
        "reward": model.reward.loss(model.reward(features), sample["reward"].flatten()).mean(),
        "continue": model.goes_on.loss(model.goes_on(features), sample["continue"].flatten()).mean(),
        "dynamics": apply_free_nats(dynamics, free_nats, of_mean=free_mean),
        "representation": apply_free_nats(representation, free_nats, of_mean=free_mean),
    }
    return losses, dynamics.detach().mean()


def apply_free_nats(kl: Tensor, nats: float, *, of_mean: bool) -> Tensor:
    """[]: the mean of KLs [...], of which so many nats cost nothing: of every one, or of their mean."""
    return kl.mean().clamp(min=nats) if of_mean else kl.clamp(min=nats).mean()


def weighted_sum(losses: Losses, scales: dict[str, float]) -> Tensor:
    """[]: the losses, each times its scale."""
    assert losses.keys() == scales.keys(), f"losses {sorted(losses)} and scales {sorted(scales)} are not the same"
    return torch.stack([scales[name] * loss for name, loss in losses.items()]).sum()


def imagined_returns(
    reward: Tensor, continues: Tensor, value: Tensor, *, gamma: float, lambda_: float
) -> tuple[Tensor, Tensor]:
    """Returns [H, N] of imagined states, and how much each counts [H, N].

    Rewards [H, N] come with the state after each action; `continues` and `value` [H + 1, N] are of all states.
    What comes after an episode's likely end counts as much less.
    """
    discount = gamma * continues[1:]
    returns = lambda_returns(reward, value[1:], discount, value[-1], lambda_=lambda_)
    weight = torch.cat([continues[:1], continues[0] * discount[:-1].cumprod(0)])
    return returns, weight


def replay_returns(sample: Sample, bootstrap: Tensor, *, gamma: float, lambda_: float) -> tuple[Tensor, Tensor]:
    """Returns [T - 1, B] along real sequences, with imagined returns [B, T] for what follows, and which count."""
    is_last = sample["is_last"].T.float()
    discount = gamma * sample["continue"].T[1:]
    carried = lambda_ * (1 - is_last[1:])
    reward, value = sample["reward"].T[1:], bootstrap.T
    return lambda_returns(reward, value[1:], discount, value[-1], lambda_=carried), 1 - is_last[:-1]


def policy_loss(
    distribution: Distribution, action: Tensor, advantage: Tensor, weight: Tensor, *, entropy_coef: float
) -> tuple[Tensor, Tensor]:
    """REINFORCE with a price on predictability (Eq. 11, arXiv:2301.04104), and the mean entropy.

    The distribution and the actions are of [H, N] states; `advantage` and `weight` [H, N] carry no gradient.
    """
    entropy = entropy_of(distribution, action)
    gain = distribution.log_prob(action) * advantage + entropy_coef * entropy
    return -(weight * gain).mean(), entropy.detach().mean()


def entropy_of(distribution: Distribution, action: Tensor) -> Tensor:
    """[...]: exact where there is a formula, else of the drawn action."""
    return -distribution.log_prob(action) if isinstance(distribution, SquashedGaussian) else distribution.entropy()


def value_loss(head: Any, outputs: Tensor, target: Tensor, slow: Tensor | None, weight: Tensor) -> Tensor:
    """[]: the loss of raw value outputs [..., K] to returns [...], and to the slow network's values [...] if given."""
    targets = [target] if slow is None else [target, slow]
    return (weight * head.loss(outputs, *targets)).mean()

"""One gradient step of a recurrent state-space model on replayed sequences: what Dreamer and PlaNet share.

Shapes, time first: T steps, B sequences, A numbers of an action's vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from paddock.components.actions import previous_actions, to_vector
from paddock.components.learners import Learners
from paddock.components.learning import is_frozen
from paddock.components.optimizers.optimizer import Gradients
from paddock.config.schema import Schema, TargetSchema
from paddock.core.specs import ArraySpec

Latent = dict[str, Tensor]
Losses = dict[str, Tensor]
Metrics = dict[str, Any]
Sample = dict[str, Any]


class WorldModelScales(Schema):
    """What each loss of the world model counts."""

    observation: float = Field(ge=0)
    reward: float = Field(ge=0)
    continue_: float = Field(ge=0, alias="continue")
    dynamics: float = Field(ge=0)
    representation: float = Field(ge=0)


class WorldModelLossConfig(TargetSchema):
    """Options of the world model's losses; `free_nats` of the KL cost nothing: of every one, or of their mean."""

    scales: WorldModelScales
    free_nats: float = Field(ge=0)
    free_nats_of_mean: bool


def prepare_batch(batch: Sample, action: ArraySpec, *, skip: int = 0) -> Sample:
    """Windows of rows [B, T, ...] as a sequence buffer gives them, to [T, B, ...]: the one place that turns axes.

    A row holds the action taken upon its observation, `action` [T, B, A], and the reward that came with it;
    `previous_actions` [T, B, A] led to it. The first `skip` rows only lend their actions and are left out.
    """

    def turned(values: Tensor) -> Tensor:
        return values.transpose(0, 1).contiguous()

    rows = {name: turned(batch[name]) for name in ("reward", "is_first", "terminated", "truncated")}
    rows["action"] = to_vector(turned(batch["action"]), action)
    rows["previous_actions"] = previous_actions(rows["action"], rows["is_first"])
    rows = {name: values[skip:] for name, values in rows.items()}
    return {
        **rows,
        "observation": {name: turned(part[:, skip:]) for name, part in batch["observation"].items()},
        "is_last": rows["terminated"] | rows["truncated"],
        "continue": (~rows["terminated"]).float(),
    }


def observe(model: Any, sample: Sample) -> Latent:
    """Latents [T, B, ...] of what was seen."""
    return model.observe_sequence(sample["observation"], sample["previous_actions"], sample["is_first"])


class WorldModelUpdate:
    """Gradient steps of a model on samples of `prepare_batch`; a frozen model is only looked at."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        config: WorldModelLossConfig,
        scales: dict[str, float],
        learners: Learners,
    ) -> None:
        self.model, self.optimizer, self.config, self.scales = model, optimizer, config, scales
        of_mean = config.free_nats_of_mean
        self._mean_gradients = learners.mean_of(self._gradients, axis=1, sees_whole=of_mean)
        self._whole_mean = learners.whole_of(torch.mean, axis=1) if of_mean else None

    def __call__(self, sample: Sample) -> tuple[Latent, Metrics]:
        """One step. Latents [T, B, ...] come without a gradient."""
        self.model.learn_scale(sample["observation"])
        metrics, gradients, latents = self._mean_gradients(sample)
        if not is_frozen(self.model):
            norm = self.optimizer.descend(metrics["train/model_loss"], gradients)
            metrics["train/model_gradient_norm"] = norm
        return latents, metrics

    def _gradients(self, sample: Sample) -> tuple[Metrics, Gradients, Latent]:
        model, config, is_learning = self.model, self.config, not is_frozen(self.model)
        with torch.set_grad_enabled(is_learning and torch.is_grad_enabled()):
            latents = observe(model, sample)
            losses, kl = world_model_losses(
                model, latents, sample, free_nats=config.free_nats, free_mean=config.free_nats_of_mean,
                whole_mean=self._whole_mean,
            )  # fmt: skip
            loss = weighted_sum(losses, self.scales)
        metrics: Metrics = {f"train/{name}_loss": value.detach() for name, value in losses.items()}
        metrics |= {"train/model_loss": loss.detach(), "train/kl": kl}
        gradients = self.optimizer.differentiate(loss) if is_learning else ()
        return metrics, gradients, {name: latents[name].detach() for name in model.initial(1)}


def world_model_losses(
    model: Any,
    latents: Latent,
    sample: Sample,
    *,
    free_nats: float,
    free_mean: bool,
    whole_mean: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Losses, Tensor]:
    """Eq. 2 and 3, arXiv:2301.04104: predictions of what is seen and paid, and the two sides of the KL, whose mean is
    the second result. With all scales 1 it is Eq. 3, arXiv:1811.04551. `whole_mean` gives the mean of a
    whole batch for the values [T, B] of a piece."""
    dynamics, representation = model.kl(latents)
    whole = whole_mean(dynamics.detach()) if whole_mean is not None else None  # Both sides have the same value.
    features = model.features(latents).flatten(0, 1)
    seen = {name: part.flatten(0, 1) for name, part in sample["observation"].items()}
    losses = {
        "observation": model.decoder.loss(model.decoder(features), seen).mean(),
        "reward": model.reward.loss(model.reward(features), sample["reward"].flatten()).mean(),
        "continue": model.goes_on.loss(model.goes_on(features), sample["continue"].flatten()).mean(),
        "dynamics": apply_free_nats(dynamics, free_nats, of_mean=free_mean, whole=whole),
        "representation": apply_free_nats(representation, free_nats, of_mean=free_mean, whole=whole),
    }
    return losses, dynamics.detach().mean()


def apply_free_nats(kl: Tensor, nats: float, *, of_mean: bool, whole: Tensor | None = None) -> Tensor:
    """[]: the mean of KLs [...], of which so many nats cost nothing: of every one, or of their mean.

    whole: the mean of the whole batch, where the KLs are those of a piece.
    """
    if not of_mean:
        return kl.clamp(min=nats).mean()
    mean = kl.mean()
    return torch.where((mean if whole is None else whole) > nats, mean, mean.detach() * 0 + nats)


def weighted_sum(losses: Losses, scales: dict[str, float]) -> Tensor:
    """[]: the losses, each times its scale."""
    assert losses.keys() == scales.keys(), f"losses {sorted(losses)} and scales {sorted(scales)} are not the same"
    return torch.stack([scales[name] * loss for name, loss in losses.items()]).sum()

"""Open-loop errors of a world model: it sees the beginning of held-out episodes, and then predicts what the actions
lead to without any further observation.

Shapes: B windows, C steps of context, H imagined steps, A numbers in an action's vector.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.components.actions import previous_actions, to_vector
from paddock.config.schema import TargetSchema, instantiate
from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed, forked_random
from paddock.core.specs import ArraySpec, Spec
from paddock.rollout.actor import ActorModule, config_of
from paddock.rollout.collector import Collector
from paddock.rollout.episodes import MakeEnv, evaluation_mode

Parts = dict[str, Tensor]
NEGLIGIBLE = 1e-6  # variance of a number that does not vary
LATENT = "latent"  # in place of an observation's parts, of a model without a decoder


class WorldModelProbeConfig(TargetSchema):
    """Held-out experience of `episodes` copies for `steps` steps each; `context` steps are seen before `horizon` ones
    are imagined."""

    episodes: int = Field(default=8, ge=1)
    steps: int = Field(default=100, ge=2)
    context: int = Field(default=5, ge=1)
    horizon: int = Field(default=15, ge=1)

    @model_validator(mode="after")
    def _check(self) -> WorldModelProbeConfig:
        if self.steps < self.context + self.horizon:
            raise ValueError(f"steps = {self.steps} is less than context + horizon = {self.context + self.horizon}")
        return self


@dataclass(frozen=True)
class Errors:
    """Mean squared error by the number of imagined steps, [H], as a share of the variance: 1 is knowing the mean."""

    observation: np.ndarray
    reward: np.ndarray

    def metrics(self, prefix: str) -> dict[str, float]:
        """At the first and the last step, and the mean over all."""
        found: dict[str, float] = {}
        for name, error in (("observation", self.observation), ("reward", self.reward)):
            steps = {"1": error[0], str(len(error)): error[-1]}
            found |= {f"{prefix}{name}_error": float(error.mean())}
            found |= {f"{prefix}{name}_error_{step}": float(value) for step, value in steps.items()}
        return found

    def to_dict(self) -> dict[str, list[float]]:
        return {"observation": self.observation.tolist(), "reward": self.reward.tolist()}


@dataclass(frozen=True)
class Windows:
    """Held-out experience: rows [B, C + H] as a sequence buffer gives them, actions as vectors."""

    observation: Parts
    action: Tensor
    reward: Tensor
    is_first: Tensor
    context: int

    @property
    def horizon(self) -> int:
        return self.reward.shape[1] - self.context

    @property
    def is_counted(self) -> Tensor:
        """[B, H]: imagined steps that are of the same episode as the last one seen."""
        return ~self.is_first[:, self.context :].cumsum(1).bool()

    def future(self) -> tuple[Parts, Tensor]:
        """What really came: observation parts [B, H, ...] and rewards [B, H]."""
        begin = self.context
        return {name: part[:, begin:] for name, part in self.observation.items()}, self.reward[:, begin:]

    def unchanged(self) -> tuple[Parts, Tensor]:
        """The forecast that all stays as it was last seen, in the same shapes."""
        real, _ = self.future()
        last = self.context - 1
        parts = {name: part[:, last : last + 1].expand_as(real[name]) for name, part in self.observation.items()}
        return parts, self.reward[:, last : last + 1].expand(-1, self.horizon)


class WorldModelProbe:
    """Chosen by `evaluation.probes`: metrics of the acting controller's world model with every evaluation."""

    def __init__(self, config: WorldModelProbeConfig) -> None:
        self.config = config

    def __call__(self, actor: ActorModule, make_env: MakeEnv, *, seed: int) -> dict[str, float]:
        """Errors as metrics; nothing for a controller without a world model."""
        model = model_of(actor)
        if model is None:
            return {}
        windows = held_out(actor, make_env, self.config, seed=seed)
        return model_errors(model, windows, seed=seed).metrics("eval/model_")


def model_of(actor: ActorModule) -> Any:
    """The world model among an actor's parts, known by what it can do; None where there is none."""
    return next((part for part in actor.parts.values() if hasattr(part, "imagine_step")), None)


def required_model(actor: ActorModule) -> Any:
    """As `model_of`, for people who asked for one."""
    model = model_of(actor)
    if model is None:
        raise InputError(f"{type(actor).__name__} has no world model to look at; choose a controller that has one.")
    return model


def untrained(actor: ActorModule, *, seed: int) -> ActorModule:
    """The same actor with a world model that has learned nothing: the control of every claim about it."""
    model = required_model(actor)
    name = next(name for name, part in actor.parts.items() if part is model)
    fresh = copy.deepcopy(actor)
    with forked_random(derive_seed(seed, "untrained")):
        fresh.parts[name] = instantiate(config_of(model), actor.spec).to(actor.device)
    return fresh.eval()


def held_out(actor: ActorModule, make_env: MakeEnv, config: WorldModelProbeConfig, *, seed: int) -> Windows:
    """Episodes on environments of their own, acted as in training, cut into windows that overlap in their context."""
    env = make_env(config.episodes, None)
    buffer = rows_of(config, actor.spec, config.episodes)
    try:
        with evaluation_mode(actor, seed):
            collector = Collector(env, actor.spec, seed=derive_seed(seed, "held out"))
            collector.collect(actor, buffer, config.steps * config.episodes)
    finally:
        env.close()
    length = config.context + config.horizon
    pairs = [
        (number, start)
        for number, total in enumerate(buffer.totals.tolist())
        for start in range(0, total - length + 1, config.horizon)
    ]
    copies, starts = np.array(pairs).T
    return windows_of(buffer.gather(copies, starts, length), actor.spec.action, config.context, actor.device)


def rows_of(config: WorldModelProbeConfig, spec: Spec, copies: int) -> SequenceBuffer:
    """An empty buffer with room for all rows, of which an episode has one more than steps."""
    options = {"capacity": 2 * copies * config.steps, "batch_size": 1, "length": config.context + config.horizon}
    target = "paddock.buffers.sequence.SequenceBuffer"
    return SequenceBuffer(SequenceConfig.model_validate({"_target_": target, **options}), spec, copies)


def windows_of(
    batch: Mapping[str, Any], action: ArraySpec, context: int, device: torch.device | None = None
) -> Windows:
    """Windows from a sequence buffer's batch."""
    return Windows(
        observation={name: part.to(device) for name, part in batch["observation"].items()},
        action=to_vector(batch["action"].to(device), action),
        reward=batch["reward"].to(device),
        is_first=batch["is_first"].to(device),
        context=context,
    )


@torch.inference_mode()
def imagined(model: Any, windows: Windows) -> tuple[Parts, Tensor]:
    """What the model expects: observation parts [B, H, ...] and rewards [B, H], after seeing the context; `latent`
    [B, H, F] in place of the parts, where the model has no decoder."""
    action, context = windows.action, windows.context
    led = previous_actions(action.transpose(0, 1), windows.is_first.T)
    latent = model.initial(len(action))
    for t in range(context):
        seen = {name: part[:, t] for name, part in windows.observation.items()}
        latent = model.observe(latent, led[t], seen, windows.is_first[:, t])
    observations, rewards = [], []
    for t in range(context, context + windows.horizon):
        latent = model.imagine_step(latent, action[:, t - 1])
        observations.append(model.decode(latent) or {LATENT: model.features(latent)})
        rewards.append(model.predict_reward(latent))
    parts = {name: torch.stack([each[name] for each in observations], 1) for name in observations[0]}
    return parts, torch.stack(rewards, 1)


def model_errors(model: nn.Module, windows: Windows, *, seed: int) -> Errors:
    """Of what the model imagines; random numbers of others are left as they were."""
    with evaluation_mode(model, seed, "imagination"):
        forecast = imagined(model, windows)
        compared = comparable(model, windows)
    return errors_of(forecast, compared)


@torch.inference_mode()
def comparable(model: Any, windows: Windows) -> Windows:
    """The windows as the model's forecasts are compared with them: where it has no decoder, the latents of what was
    seen stand for the observation."""
    if model.decode(model.initial(1)):
        return windows
    batch, steps = windows.is_first.shape
    flat = {name: part.flatten(0, 1) for name, part in windows.observation.items()}
    led = previous_actions(windows.action.transpose(0, 1), windows.is_first.T).transpose(0, 1).flatten(0, 1)
    seen = model.observe(model.initial(batch * steps), led, flat, windows.is_first.flatten())
    return replace(windows, observation={LATENT: model.features(seen).unflatten(0, (batch, steps))})


def errors_of(forecast: tuple[Parts, Tensor], windows: Windows) -> Errors:
    """How far a forecast is from what came, each number as a share of its own variance, a picture's of all its pixels',
    a latent's of the mean over its numbers, some of which hardly vary.

    Parts of an observation count alike, whatever their size.
    """
    real, reward = windows.future()
    mask = windows.is_counted
    parts = [_share_of_variance(forecast[0][name], part, mask, pools=name == LATENT) for name, part in real.items()]
    known = [part for part in parts if part is not None]
    nothing = np.zeros(windows.horizon)
    rewarded = _share_of_variance(forecast[1], reward, mask)
    return Errors(np.mean(known, 0) if known else nothing, nothing if rewarded is None else rewarded)


def _share_of_variance(forecast: Tensor, real: Tensor, mask: Tensor, *, pools: bool = False) -> np.ndarray | None:
    """[H]: squared error over variance, where the mask [B, H] says; None for a part that never varies. `pools`: all
    numbers over the mean of their variances."""
    is_image = real.dtype == torch.uint8
    forecast, real = (each.double().reshape(*mask.shape, -1) for each in (forecast, real))
    counted = real[mask]
    variance = counted.var() * torch.ones(real.shape[-1]).to(real) if is_image else counted.var(0)
    if pools:
        variance = torch.full_like(variance, float(variance.mean()))
    varies = variance > (NEGLIGIBLE**2 if pools else NEGLIGIBLE)
    if not varies.any():
        return None
    share = ((forecast - real).square()[..., varies] / variance[varies]).mean(-1)
    return ((share * mask).sum(0) / mask.sum(0).clamp(min=1)).cpu().numpy()

"""Search for action sequences: random shooting, the cross-entropy method, and model predictive path integrals.

A planner asks a callable for the returns of candidates and knows nothing else of the model. All environments and
candidates are one batch. Shapes: B environments, N candidates, K elites, H steps, A numbers in an action's vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional

from paddock.components.actions import vector_size
from paddock.components.controllers.plans import CategoricalPlan, GaussianPlan, mixed_with_uniform
from paddock.config.schema import TargetSchema
from paddock.core.errors import NonFiniteError
from paddock.core.specs import ArraySpec

Score = Callable[[Tensor], Tensor]
"""Candidates [B, N, H, A] to their returns [B, N]."""
Plan = GaussianPlan | CategoricalPlan


@dataclass(frozen=True)
class Planned:
    """What a search found: the sequence [B, H, A] to follow, the one [B, H, A] that the next decision begins from, and
    what was believed in the end, None of a search that fits nothing."""

    actions: Tensor
    memory: Tensor
    plan: Plan | None = None


class RandomShootingConfig(TargetSchema):
    """How far a planner looks, and how many sequences it tries."""

    horizon: int = Field(ge=1)
    candidates: int = Field(ge=1)


class RandomShooting:
    """Tries uniformly random sequences and takes the best."""

    def __init__(self, config: RandomShootingConfig, action: ArraySpec) -> None:
        self.config = config
        self.action = action
        self.size = vector_size(action)

    def initial(self, batch: int, device: torch.device) -> Tensor:
        """What is remembered from one decision to the next, before the first: a sequence [B, H, A]."""
        return torch.zeros(batch, self.config.horizon, self.size, device=device)

    def plan(self, score: Score, previous: Tensor, proposals: Tensor | None = None) -> Tensor:
        """The best sequence [B, H, A]. `proposals` [B, M, H, A] are tried as well."""
        batch, horizon, size = previous.shape
        if self.action.is_discrete:
            even = torch.full_like(previous, 1 / size)
            candidates = CategoricalPlan(even, 0.0).sample(self.config.candidates)
        else:
            shape = (batch, self.config.candidates, horizon, size)
            candidates = torch.rand(shape, device=previous.device) * 2 - 1
        if proposals is not None:
            candidates = torch.cat([candidates, proposals], 1)
        best = _scored(score, candidates).argmax(1)
        return candidates[torch.arange(batch, device=previous.device), best]

    def search(
        self,
        score: Score,
        previous: Tensor,
        proposals: Tensor | None = None,
        *,
        horizon: int | None = None,
        min_std: float | None = None,
    ) -> Planned:
        """As `plan`, with what to remember. A schedule may shorten the `horizon` and widen `min_std`."""
        limited = previous if horizon is None else previous[:, :horizon]
        actions = self.plan(score, limited, proposals)
        return Planned(actions, padded(actions, previous.shape[1]))


class CEMConfig(RandomShootingConfig):
    """Options of the cross-entropy method.

    `select`: the sequence to follow is the plan's `mean`, or an elite drawn by its weight (`sample`). `shift_in`: a
    warm start ends in a `repeat` of the last action, or in a `zero`. `proposals`: given sequences `join` the
    candidates, or `replace` as many of them. `explore_by_std`: the plan's own spread is the noise while collecting.
    `momentum`: the share of the mean that a round keeps.
    """

    iterations: int = Field(ge=1)
    elites: int = Field(ge=1)
    std: float = Field(default=1.0, gt=0)
    min_std: float = Field(default=0.05, ge=0, lt=1)
    max_std: float | None = Field(default=None, gt=0)
    warm_start: bool = False
    shift_in: Literal["repeat", "zero"] = "repeat"
    select: Literal["mean", "sample"] = "mean"
    explore_by_std: bool = False
    proposals: Literal["join", "replace"] = "join"
    momentum: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _check(self) -> CEMConfig:
        if self.elites > self.candidates:
            raise ValueError(f"elites = {self.elites} are chosen among candidates = {self.candidates}")
        return self


class CEM(RandomShooting):
    """The cross-entropy method (Algorithm 2, arXiv:1811.04551): sample, keep the best, fit them, and again.

    With `warm_start` the search begins around the previous decision's sequence, moved on by a step. `std` begins
    anew with every decision.
    """

    config: CEMConfig

    def __init__(self, config: CEMConfig, action: ArraySpec) -> None:
        super().__init__(config, action)

    def plan(self, score: Score, previous: Tensor, proposals: Tensor | None = None) -> Tensor:
        """The sequence [B, H, A] that the elites agree on. `proposals` [B, M, H, A] compete in every round."""
        return self.search(score, previous, proposals).actions

    def search(
        self,
        score: Score,
        previous: Tensor,
        proposals: Tensor | None = None,
        *,
        horizon: int | None = None,
        min_std: float | None = None,
    ) -> Planned:
        """As `plan`, with what to remember. A schedule may shorten the `horizon` and widen `min_std`."""
        config = self.config
        plan = self._begin(previous, horizon, config.min_std if min_std is None else min_std)
        count = config.candidates
        if proposals is not None and config.proposals == "replace":
            count -= proposals.shape[1]
        for _ in range(config.iterations):
            candidates = plan.sample(count)
            if proposals is not None:
                candidates = torch.cat([candidates, proposals], 1)
            best, index = _scored(score, candidates).topk(config.elites, 1)
            elites = candidates.gather(1, index[:, :, None, None].expand(-1, -1, *candidates.shape[2:]))
            weights = self._weights(best)
            plan = plan.refit(elites, weights)
        actions = plan.actions()
        chosen = actions if config.select == "mean" else _drawn(elites, weights)
        return Planned(chosen, padded(actions, previous.shape[1]), plan)

    def _begin(self, previous: Tensor, horizon: int | None, min_std: float) -> Plan:
        config = self.config
        last = previous[:, -1:] if config.shift_in == "repeat" else previous[:, -1:] * 0
        moved_on = torch.cat([previous[:, 1:], last], 1) if config.warm_start else previous * 0
        moved_on = moved_on if horizon is None else moved_on[:, :horizon]
        if self.action.is_discrete:
            return CategoricalPlan(self._chances(moved_on), min_std)
        std = torch.full_like(moved_on, config.std)
        return GaussianPlan(moved_on, std, min_std, config.max_std, config.momentum)

    def _chances(self, sequence: Tensor) -> Tensor:
        """Even ones, or half of them given to the choices [B, H, A] of before; zeros are no choice."""
        is_known = sequence.sum(-1, keepdim=True)
        return torch.where(is_known > 0, mixed_with_uniform(sequence, 0.5), 1 / self.size)

    def _weights(self, returns: Tensor) -> Tensor:
        """What each elite counts [B, K], from their returns [B, K]: all the same."""
        return torch.full_like(returns, 1 / returns.shape[1])


class MPPIConfig(CEMConfig):
    """Options of model predictive path integrals; a higher `temperature` follows the best more sharply."""

    temperature: float = Field(default=0.5, gt=0)


class MPPI(CEM):
    """Model predictive path integrals (arXiv:1509.01149, as in arXiv:2203.04955): better sequences weigh more."""

    config: MPPIConfig

    def __init__(self, config: MPPIConfig, action: ArraySpec) -> None:
        super().__init__(config, action)

    def _weights(self, returns: Tensor) -> Tensor:
        return (self.config.temperature * (returns - returns[:, :1])).softmax(1)


def padded(actions: Tensor, horizon: int) -> Tensor:
    """Sequences [B, h, A] with zeros up to the horizon: [B, H, A]."""
    missing = horizon - actions.shape[1]
    return functional.pad(actions, (0, 0, 0, missing)) if missing else actions


def _drawn(elites: Tensor, weights: Tensor) -> Tensor:
    """One of the elites [B, K, H, A] by its weight [B, K]: [B, H, A]."""
    chosen = torch.multinomial(weights, 1).squeeze(-1)
    return elites[torch.arange(len(elites), device=elites.device), chosen]


def _scored(score: Score, candidates: Tensor) -> Tensor:
    """Returns [B, N], of which each has to be a number."""
    returns = score(candidates)
    assert returns.shape == candidates.shape[:2], (returns.shape, candidates.shape)
    if not torch.isfinite(returns).all():
        raise NonFiniteError("the returns that a planner was given by its model")
    return returns

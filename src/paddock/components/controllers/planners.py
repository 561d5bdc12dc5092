"""Search for action sequences: random shooting, the cross-entropy method, and model predictive path integrals.

A planner asks a callable for the returns of candidates and knows nothing else of the model. All environments and
candidates are one batch. Shapes: B environments, N candidates, K elites, H steps, A numbers in an action's vector.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from pydantic import Field, model_validator
from torch import Tensor

from paddock.components.actions import vector_size
from paddock.components.controllers.plans import CategoricalPlan, GaussianPlan, mixed_with_uniform
from paddock.config.schema import TargetSchema
from paddock.core.errors import NonFiniteError
from paddock.core.specs import ArraySpec

Score = Callable[[Tensor], Tensor]
"""Candidates [B, N, H, A] to their returns [B, N]."""
Plan = GaussianPlan | CategoricalPlan


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


class CEMConfig(RandomShootingConfig):
    """Options of the cross-entropy method."""

    iterations: int = Field(ge=1)
    elites: int = Field(ge=1)
    std: float = Field(default=1.0, gt=0)
    min_std: float = Field(default=0.05, ge=0, lt=1)
    warm_start: bool = False

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
        plan = self._begin(previous)
        for _ in range(self.config.iterations):
            candidates = plan.sample(self.config.candidates)
            if proposals is not None:
                candidates = torch.cat([candidates, proposals], 1)
            best, index = _scored(score, candidates).topk(self.config.elites, 1)
            elites = candidates.gather(1, index[:, :, None, None].expand(-1, -1, *candidates.shape[2:]))
            plan = plan.refit(elites, self._weights(best))
        return plan.actions()

    def _begin(self, previous: Tensor) -> Plan:
        config = self.config
        moved_on = torch.cat([previous[:, 1:], previous[:, -1:]], 1) if config.warm_start else previous * 0
        if self.action.is_discrete:
            return CategoricalPlan(self._chances(moved_on), config.min_std)
        return GaussianPlan(moved_on, torch.full_like(moved_on, config.std), config.min_std)

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


def _scored(score: Score, candidates: Tensor) -> Tensor:
    """Returns [B, N], of which each has to be a number."""
    returns = score(candidates)
    assert returns.shape == candidates.shape[:2], (returns.shape, candidates.shape)
    if not torch.isfinite(returns).all():
        raise NonFiniteError("the returns that a planner was given by its model")
    return returns

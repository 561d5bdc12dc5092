"""Acting by chunks: plan several actions, take the first few of them, plan again.

Shapes: N environments, H observations, F features of one, T actions of a chunk, A numbers of an action.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.actions import from_vector
from paddock.components.controllers.chunk_policy import ChunkPolicy
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation, pick

HISTORY, PLAN, PLACE = "history", "plan", "place"
NOT_BEGUN = -1


class ChunkActorConfig(TargetSchema):
    """policy: the component that plans. execute: actions that are taken of a chunk until the next one is planned.
    commit: how many actions that follow them the next chunk keeps as they are, so that it goes on where the last one
    leads; at most the policy's `prefix`."""

    policy: str
    execute: int = Field(default=8, ge=1)
    commit: int = Field(default=0, ge=0)


class ChunkActor(ActorModule):
    """Keeps its plan, the place in it and what it saw in its state, for every environment apart."""

    config: ChunkActorConfig

    def __init__(self, config: ChunkActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, pick(components, config.policy), spec)
        limits = self.policy.config
        if config.execute + config.commit > limits.horizon:
            raise InputError(
                f"execute = {config.execute} and commit = {config.commit} are together more than horizon = "
                f"{limits.horizon}, the actions of a chunk."
            )
        if config.commit > limits.prefix:
            raise InputError(
                f"commit = {config.commit} is more than prefix = {limits.prefix}, which the policy is trained with."
            )

    @property
    def policy(self) -> ChunkPolicy:
        policy = self.parts[self.config.policy]
        assert isinstance(policy, ChunkPolicy)
        return policy

    @property
    def reads(self) -> list[str] | None:
        return self.policy.config.reads

    def initial_state(self, n: int) -> ActorState:
        policy, device = self.policy, self.device
        return {
            HISTORY: torch.zeros(n, policy.config.history, policy.features, device=device),
            PLAN: torch.zeros(n, policy.config.horizon, policy.size, device=device),
            PLACE: torch.full((n,), NOT_BEGUN, device=device),
        }

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        policy = self.policy
        seen = policy.see({name: observation[name] for name in policy.names})
        before = state or self.initial_state(len(seen))
        assert before is not None
        place = before[PLACE]
        begins = (place == NOT_BEGUN).view(-1, 1, 1)
        # At the start of an episode the past is as the present.
        shifted = torch.cat([before[HISTORY][:, 1:], seen.unsqueeze(1)], 1)
        history = torch.where(begins, seen.unsqueeze(1), shifted)
        plan = before[PLAN]
        rows = ((place == NOT_BEGUN) | (place >= self.config.execute)).nonzero().squeeze(-1)
        if len(rows):
            fresh = self._planned(history[rows], plan[rows], place[rows], deterministic=deterministic)
            plan = plan.index_copy(0, rows, fresh)
            place = place.index_fill(0, rows, 0)
        action = plan.gather(1, place.view(-1, 1, 1).expand(-1, 1, plan.shape[-1])).squeeze(1)
        return from_vector(action, self.spec.action), {HISTORY: history, PLAN: plan, PLACE: place + 1}

    def _planned(self, history: Tensor, plan: Tensor, place: Tensor, *, deterministic: bool) -> Tensor:
        """New chunks [N, T, A], which begin with what is committed of the old ones."""
        rest = plan.roll(-self.config.execute, 1)
        count = torch.where(place == NOT_BEGUN, 0, self.config.commit)
        return self.policy.plan(history, rest, count, deterministic=deterministic)

"""Acting as a teacher says, always or by turns with a policy: what DAgger (arXiv:1011.0686) collects with.

The teacher's action is a part of the observation, in the policy's own range. Shapes: N environments.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, ActorState, Observation
from paddock.rollout.chunk_actor import PLACE, ChunkActor, ChunkActorConfig

BY_TEACHER = "by_teacher"


class TeacherActorConfig(TargetSchema):
    """teacher: the part of the observation that holds the action."""

    teacher: str = "teacher_action"


class TeacherActor(ActorModule):
    """Does what the teacher would do."""

    config: TeacherActorConfig

    def __init__(self, config: TeacherActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, {}, spec)
        spec.only([config.teacher])  # Its error lists the parts that there are.

    @property
    def reads(self) -> list[str] | None:
        return [self.config.teacher]

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        return observation[self.config.teacher].clone(), state


class TeacherAndPolicyActorConfig(ChunkActorConfig):
    """teacher_share: the chance that the teacher drives until the next chunk is planned, for each chunk anew."""

    teacher: str = "teacher_action"
    teacher_share: float = Field(default=0.5, ge=0, le=1)


class TeacherAndPolicyActor(ChunkActor):
    """By turns the teacher and a policy over chunks, which goes on planning while the teacher drives."""

    config: TeacherAndPolicyActorConfig

    def __init__(self, config: TeacherAndPolicyActorConfig, components: Mapping[str, nn.Module], spec: Spec) -> None:
        super().__init__(config, components, spec)
        spec.only([config.teacher])  # Its error lists the parts that there are.

    @property
    def reads(self) -> list[str] | None:
        return [*self.policy.names, self.config.teacher]

    def initial_state(self, n: int) -> ActorState:
        return {**(super().initial_state(n) or {}), BY_TEACHER: torch.zeros(n, dtype=torch.bool, device=self.device)}

    def act(self, observation: Observation, state: ActorState, *, deterministic: bool) -> tuple[Tensor, ActorState]:
        taught = observation[self.config.teacher]
        before = state or self.initial_state(len(taught))
        assert before is not None
        action, after = super().act(observation, before, deterministic=deterministic)
        assert after is not None
        draws = torch.rand(len(taught), device=self.device) < self.config.teacher_share
        by_teacher = torch.where(after[PLACE] == 1, draws, before[BY_TEACHER])  # A chunk has just begun.
        mask = by_teacher.view(-1, *[1] * (action.dim() - 1))
        return torch.where(mask, taught.to(action.dtype), action), {**after, BY_TEACHER: by_teacher}

"""What the off-policy algorithms share: how a replayed batch looks to them, and what they learn while collecting."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field

from paddock.components.compiling import Compiling
from paddock.components.return_computers.bootstrap import bootstrap_weight
from paddock.config.schema import Switch, TargetSchema
from paddock.rollout.result import CollectResult
from paddock.workflows.base import Phase, Workflow
from paddock.workflows.context import WorkflowContext

ReplayBatch = dict[str, Any]


class ReplayConfig(TargetSchema):
    """What every algorithm that learns from replay has to know."""

    gamma: float = Field(gt=0, le=1)
    tau: float = Field(gt=0, le=1)
    compile: Switch = "off"


class ReplayWorkflow(Workflow):
    """Needs component `observation_normalizer`, which learns from what each round of collecting gave."""

    config: ReplayConfig

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        self.observation_normalizer = context.components["observation_normalizer"]
        self._is_scaled = False
        self.compiling = Compiling(self.config.compile, context.counters)

    def collect_step(self, step: int, *, phase: Phase) -> CollectResult:
        result = super().collect_step(step, phase=phase)
        if result.observation:  # Nothing may have arrived yet from workers elsewhere.
            observation = {name: torch.from_numpy(part) for name, part in result.observation.items()}
            self.observation_normalizer.update(observation)
        return result

    def learn_scale(self, batch: dict[str, Any], phase: Phase) -> None:
        """For phases that collect nothing: the normaliser learns once, from all that the phase's buffer holds."""
        if self._is_scaled:
            return
        learners = self.context.learners
        if learners.is_first:  # The others have no buffers.
            everything = getattr(self.context.buffers[phase.buffer or ""], "observations", None)
            seen = batch["observation"] if everything is None else everything()
            self.observation_normalizer.update({name: torch.as_tensor(part) for name, part in seen.items()})
        learners.copy_from_first(list(self.observation_normalizer.buffers()))
        self._is_scaled = True

    def get_state(self) -> dict[str, Any]:
        return {"is_scaled": self._is_scaled, "compiling": self.compiling.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._is_scaled = bool(state.get("is_scaled", False))  # Older checkpoints do not say.
        self.compiling.set_state(state.get("compiling", {}))

    def prepare_batch(self, batch: dict[str, Any]) -> ReplayBatch:
        """A buffer's batch, with observations as the networks see them.

        `observation` and `next_observation` are parts [N, ...]; `action` [N, ...], `reward` [N] and `bootstrap` [N],
        the weight of what follows.
        """
        weight = bootstrap_weight(batch, self.config.gamma)
        kept = {name: batch[name] for name in ("observation", "next_observation", "action", "reward")}
        return {
            **kept,
            "bootstrap": weight,
            "observation": self.observation_normalizer(batch["observation"]),
            "next_observation": self.observation_normalizer(batch["next_observation"]),
        }

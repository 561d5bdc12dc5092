"""A `TrainingAgent` of TMRL's shape as a workflow: the agent learns from batches, its actor acts.

The loop, the buffers, checkpoints, evaluation and workers are those of any other algorithm.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field

from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError
from paddock.rollout.collector import Collector
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext

WHOLE = "samples"  # the key of a batch that a `Memory` of TMRL's shape has made itself


class TrainingAgentConfig(TargetSchema):
    """update_model_interval: updates between two versions of the weights that act."""

    update_model_interval: int = Field(default=1, ge=1)


class TrainingAgentWorkflow(Workflow):
    """Needs components `agent` and `actor` (`components/controllers/tmrl_classes.py`)."""

    config: TrainingAgentConfig
    actions = "continuous"
    can_pipeline = False  # Its actor need not be a torch module.

    def __init__(self, config: TrainingAgentConfig) -> None:
        super().__init__(config)

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        self.agent, self.acting = context.components["agent"], context.components["actor"]
        if self.acting.module is None and not isinstance(context.experience, Collector):
            raise InputError(
                f"'{self.acting.config.kind}' is no torch module, and only weights travel to workers; collect with "
                "experience=local."
            )
        self.acting.follow(self.agent.agent.get_actor())

    def update(self, batch: dict[str, Any], *, phase: Phase) -> Metrics:
        """One call of the agent's `train`; its actor's weights act from then on."""
        samples = batch[WHOLE] if WHOLE in batch else self.samples_of(batch)
        told = self.agent.agent.train(samples)
        if (self.context.counters.updates + 1) % self.config.update_model_interval == 0:
            self.acting.follow(self.agent.agent.get_actor())
        return {f"train/{name}": float(value) for name, value in told.items()}

    def samples_of(self, batch: dict[str, Any]) -> tuple[Any, ...]:
        """A batch of a replay buffer as TMRL's: previous observation, action, reward, observation, terminated and
        truncated; tensors [N, ...], observations as tuples of them, actions in the environment's units."""
        device = self.agent.config.device
        action = torch.from_numpy(self.actor().to_environment(batch["action"]))
        return (
            self.agent.batched(batch["observation"], device),
            action.float().to(device),
            batch["reward"].float().to(device),
            self.agent.batched(batch["next_observation"], device),
            batch["terminated"].float().to(device),
            batch["truncated"].float().to(device),
        )

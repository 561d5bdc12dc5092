"""PlaNet (arXiv:1811.04551): a recurrent state-space model learned from replay, and a planner that acts with it.

Replay gives B sequences of T + 1 rows; the first of them lends its action.
"""

from __future__ import annotations

from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext
from paddock.workflows.world_model_update import Sample, WorldModelLossConfig, WorldModelUpdate, prepare_batch


class PlaNetConfig(WorldModelLossConfig):
    """Options of PlaNet; the planner's are those of the controllers."""


class PlaNet(Workflow):
    """Needs component and optimizer `world_model`, and a controller that plans with it."""

    config: PlaNetConfig
    splits_updates = True

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        model, optimizer = context.components["world_model"], context.optimizers["world_model"]
        scales = self.config.scales.model_dump(by_alias=True)
        self.learn_model = WorldModelUpdate(model, optimizer, self.config, scales, context.learners)

    def update(self, batch: Sample, *, phase: Phase) -> Metrics:
        """All that there is to learn: the model."""
        return self.update_world_model(batch, phase=phase)

    def update_world_model(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One gradient step on Eq. 3, arXiv:1811.04551: what was seen and paid, and the KL to the prior."""
        sample = prepare_batch(batch, self.context.spec.action, skip=1)
        return self.learn_model(sample)[1]

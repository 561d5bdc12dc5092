"""PlaNet (arXiv:1811.04551): a recurrent state-space model learned from replay, and a planner that acts with it.

Shapes: B sequences of T + 1 rows from replay.
"""

from __future__ import annotations

import torch
from pydantic import Field

from paddock.components.freezing import is_frozen
from paddock.config.schema import TargetSchema
from paddock.workflows.base import Metrics, Phase, Workflow
from paddock.workflows.context import WorkflowContext
from paddock.workflows.dreamer_losses import Sample, shift_actions, weighted_sum, world_model_losses


class PlaNetConfig(TargetSchema):
    """Options of PlaNet; the planner's are those of the controllers."""

    scales: dict[str, float]
    free_nats: float = Field(ge=0)
    free_nats_of_mean: bool


class PlaNet(Workflow):
    """Needs component and optimizer `world_model`, and a controller that plans with it."""

    config: PlaNetConfig

    def __init__(self, config: PlaNetConfig) -> None:
        super().__init__(config)

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        self.model, self.optimizer = context.components["world_model"], context.optimizers["world_model"]

    def update(self, batch: Sample, *, phase: Phase) -> Metrics:
        """All that there is to learn: the model."""
        return self.update_world_model(batch, phase=phase)

    def update_world_model(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One gradient step on Eq. 3, arXiv:1811.04551: what was seen and paid, and the KL to the prior.

        A frozen model is only looked at.
        """
        config, sample = self.config, shift_actions(batch, self.context.device)
        self.model.learn_scale(sample["observation"])
        with torch.set_grad_enabled(not is_frozen(self.model)):
            action = self.model.encode_action(sample["action"])
            latents = self.model.observe_sequence(sample["observation"], action, sample["is_first"])
            losses, kl = world_model_losses(
                self.model, latents, sample, free_nats=config.free_nats, free_mean=config.free_nats_of_mean
            )
            loss = weighted_sum(losses, config.scales)
        metrics: Metrics = {f"train/{name}_loss": value.detach() for name, value in losses.items()}
        metrics["train/kl"] = kl
        if not is_frozen(self.model):
            gradients = self.optimizer.differentiate(loss)
            metrics["train/model_gradient_norm"] = self.optimizer.apply(loss, gradients)
        return metrics

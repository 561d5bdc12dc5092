"""Diffusion policy (arXiv:2303.04137) and its successor by flow matching (arXiv:2210.02747): chunks of actions made
from noise, so that a policy can do one of several things where regression does the mean of them.

Shapes: B samples, H observations, F features of one, T actions of a chunk, A numbers of an action.
"""

from __future__ import annotations

from torch import Tensor

from paddock.components.generators.protocol import Committed, Lesson
from paddock.components.generators.regression import Regression
from paddock.core.errors import InputError
from paddock.workflows.base import Metrics
from paddock.workflows.context import WorkflowContext
from paddock.workflows.imitation import ImitationConfig, ImitationWorkflow, mean_over


class DiffusionPolicyConfig(ImitationConfig):
    """Options of the workflow; how chunks are made is the policy's `generator`."""


class DiffusionPolicy(ImitationWorkflow):
    """Needs what `ImitationWorkflow` does, and a policy whose generator is `FlowMatching` or `Diffusion`."""

    config: DiffusionPolicyConfig

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        if isinstance(self.policy.generator, Regression):
            raise InputError("the policy's generator is Regression; choose workflow=behaviour_cloning for it.")

    def loss(self, condition: Tensor, actions: Tensor, committed: Committed, counted: Tensor) -> tuple[Tensor, Metrics]:
        lesson = self.policy.generator.lesson(actions)
        predicted = self.policy.predict(lesson.inputs, lesson.time, condition, committed)
        loss = denoising_loss(predicted, lesson, counted)
        return loss, {"train/denoising_loss": loss.detach()}


def denoising_loss(predicted: Tensor, lesson: Lesson, counted: Tensor) -> Tensor:
    """[]: squared error to the velocity (Eq. 23, arXiv:2210.02747) or to the noise (Eq. 14, arXiv:2006.11239), over
    the steps that `counted` [B, T] marks."""
    return mean_over((predicted - lesson.target).square(), counted)

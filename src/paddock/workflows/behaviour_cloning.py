"""Behaviour cloning: regression of chunks of actions on the last few observations.

Shapes: B samples, H observations, F features of one, T actions of a chunk, A numbers of an action.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from paddock.components.generators.protocol import Committed
from paddock.components.generators.regression import Regression
from paddock.core.errors import InputError
from paddock.workflows.base import Metrics
from paddock.workflows.context import WorkflowContext
from paddock.workflows.imitation import ImitationConfig, ImitationWorkflow, mean_over


class BehaviourCloningConfig(ImitationConfig):
    """Options of behaviour cloning. error: of an action, squared (`mse`) or absolute (`l1`)."""

    error: Literal["mse", "l1"] = "mse"


class BehaviourCloning(ImitationWorkflow):
    """Needs what `ImitationWorkflow` does, and a policy whose generator is `Regression`."""

    config: BehaviourCloningConfig

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        if not isinstance(self.policy.generator, Regression):
            kind = type(self.policy.generator).__name__
            raise InputError(f"behaviour cloning needs the generator Regression, and the policy has {kind}.")

    def loss(self, condition: Tensor, actions: Tensor, committed: Committed, counted: Tensor) -> tuple[Tensor, Metrics]:
        lesson = self.policy.generator.lesson(actions)
        predicted = self.policy.predict(lesson.inputs, lesson.time, condition, committed)
        loss = regression_loss(predicted, lesson.target, counted, self.config.error)
        return loss, {"train/action_loss": loss.detach()}


def regression_loss(predicted: Tensor, actions: Tensor, counted: Tensor, error: str) -> Tensor:
    """[]: the mean error of chunks [B, T, A] over the steps that `counted` [B, T] marks."""
    difference = predicted - actions
    return mean_over(difference.square() if error == "mse" else difference.abs(), counted)

"""What the off-policy algorithms share: how a replayed batch looks to them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from paddock.components.return_computers.bootstrap import bootstrap_weight
from paddock.workflows.context import WorkflowContext

Replayed = dict[str, Any]


def replayed(batch: dict[str, Any], context: WorkflowContext, normalizer: nn.Module, discount: float) -> Replayed:
    """A buffer's batch on the device, with observations as the networks see them.

    `observation` and `next_observation` are parts [N, ...]; `action` [N, ...], `reward` [N] and `bootstrap` [N], the
    weight of what follows.
    """

    def seen(observation: dict[str, Tensor]) -> dict[str, Tensor]:
        return normalizer({name: part.to(context.device) for name, part in observation.items()})

    return {
        "observation": seen(batch["observation"]),
        "next_observation": seen(batch["next_observation"]),
        "action": batch["action"].to(context.device),
        "reward": batch["reward"].to(context.device),
        "bootstrap": bootstrap_weight(batch, discount).to(context.device),
    }


def learn_normalizer(context: WorkflowContext, normalizer: Any) -> None:
    """Let the normaliser see the newest observations, once per collection."""
    newest = context.collector.observation
    normalizer.update({name: torch.from_numpy(part) for name, part in newest.items()})


def is_frozen(component: nn.Module) -> bool:
    """Whether the phase forbids that this component learns."""
    return not next(component.parameters()).requires_grad

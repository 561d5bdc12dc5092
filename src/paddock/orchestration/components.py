"""The components of an experiment and what acts with them, as every process that learns makes them."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from paddock.config.schema import instantiate
from paddock.core.specs import Spec
from paddock.orchestration.schema import ExperimentConfig
from paddock.orchestration.sizes import allocated
from paddock.rollout.controllers import ControllerManager


def make_controllers(
    config: ExperimentConfig, spec: Spec, device: torch.device
) -> tuple[dict[str, nn.Module], ControllerManager]:
    """The experiment's components by name, and whatever acts with them."""
    components = {
        name: allocated(f"components.{name}", partial(instantiate, part, spec)).to(device)
        for name, part in config.components.items()
    }
    available = {name: instantiate(part, components, spec) for name, part in config.controllers.available.items()}
    return components, ControllerManager(available, config.controllers.default)

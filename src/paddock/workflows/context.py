"""What a workflow is given: everything that was built for the experiment, under names the config chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from paddock.buffers.buffer import Buffer
from paddock.components.learners import Learners
from paddock.components.optimizers.optimizer import Optimizer
from paddock.config.schema import TargetSchema
from paddock.core.specs import Spec
from paddock.rollout.controllers import ControllerManager
from paddock.rollout.experience import Experience


@dataclass
class Counters:
    """The four units that steps are counted in."""

    env_frames: int = 0
    agent_steps: int = 0
    updates: int = 0
    imagined_steps: int = 0


@dataclass(frozen=True)
class WorkflowContext:
    """A frozen bundle; the counters in it move, the bundle does not. A workflow never sees an environment."""

    config: TargetSchema
    device: torch.device
    components: Mapping[str, Any]
    buffers: Mapping[str, Buffer]
    optimizers: Mapping[str, Optimizer]
    controllers: ControllerManager
    experience: Experience
    spec: Spec
    counters: Counters
    total_steps: int | None
    learners: Learners = field(default_factory=Learners)
    needs_autograd: bool = False  # see `ExperimentConfig`

    @property
    def progress(self) -> float:
        """The part of the planned agent steps that is done, 0 to 1; 0 where no number was planned."""
        return min(self.counters.agent_steps / self.total_steps, 1.0) if self.total_steps else 0.0

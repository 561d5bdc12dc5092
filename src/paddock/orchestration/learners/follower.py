"""Every rank but the first: it has components, optimizers and a workflow, and does the updates that the first rank
sends. It has no environment, no buffers and no files."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from paddock.components.devices import autocast, choose_device, to_device
from paddock.components.learners import LearnerLostError, Learners
from paddock.components.learning import set_frozen
from paddock.config.schema import instantiate
from paddock.config.validate import validate
from paddock.core.errors import NonFiniteError
from paddock.core.memory import KEPT_MEMORY, keep_freed_memory
from paddock.core.parent import end_with_parent
from paddock.core.seeding import set_random_state
from paddock.core.specs import Spec
from paddock.orchestration.components import make_controllers
from paddock.orchestration.learners.meeting import COUNT, LOCAL_RANK, MEETING, RANK, meet, part
from paddock.orchestration.learners.messages import receive
from paddock.orchestration.learners.ranks import statistics
from paddock.orchestration.schema import ExperimentConfig
from paddock.rollout.experience import Experience
from paddock.workflows.base import Workflow
from paddock.workflows.context import Counters, WorkflowContext

Message = dict[str, Any]


@dataclass(frozen=True)
class NoExperience:
    """What a workflow may ask of an experience that is elsewhere."""

    spec: Spec
    num_envs: int


def serve() -> int:
    """Follow the first rank to the end of its run; the exit code."""
    place = Path(os.environ[MEETING]) if MEETING in os.environ else None
    rank, count = int(os.environ[RANK]), int(os.environ[COUNT])
    if place is None:  # torchrun's signals reach every rank; the first one saves, then ends the others.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        (place.parent / f"ready-{rank}").touch()
    try:
        meet(rank, count, place)
        follow(rank, count)
    except (LearnerLostError, NonFiniteError):
        return 1  # The first rank says what happened, if it can.
    finally:
        part()
    return 0


def follow(rank: int, count: int) -> None:
    """Do what the first rank sends until it ends."""
    config, workflow = _begin(receive(), rank, count)
    entered = ""
    while (message := receive())["do"] == "update":
        phase, context = config.training.phases[message["phase"]], workflow.context
        if phase.name != entered:
            for name, component in context.components.items():
                set_frozen(component, name in phase.freeze)
            entered = phase.name
        _catch_up(context, message)
        with autocast(context.device, config.precision):
            batch = to_device(message["batch"], context.device)
            getattr(workflow, message["hook"])(batch, phase=phase)


def _begin(message: Message, rank: int, count: int) -> tuple[ExperimentConfig, Workflow]:
    """The same components, optimizers and workflow as the first rank's, in the same state."""
    config = validate(message["config"], ExperimentConfig)
    torch.set_num_threads(config.threads)
    keep_freed_memory(**KEPT_MEMORY)
    device = choose_device(config.device, local_rank=int(os.environ.get(LOCAL_RANK, rank)))
    spec = Spec.from_dict(message["spec"])
    components, controllers = make_controllers(config, spec, device)
    context = WorkflowContext(
        config=config.workflow,
        device=device,
        components=components,
        buffers={},
        optimizers={name: instantiate(part, components) for name, part in config.optimizers.items()},
        controllers=controllers,
        experience=cast(Experience, NoExperience(spec, message["num_envs"])),
        spec=spec,
        counters=Counters(),
        total_steps=config.training.total_steps,
        learners=Learners(rank, count, config.updates.accumulate),
        needs_autograd=config.needs_autograd,
    )
    workflow: Workflow = instantiate(config.workflow)
    workflow.initialize(context)
    for name, component in components.items():
        component.load_state_dict(message["components"][name])
    for name, optimizer in context.optimizers.items():
        optimizer.load_state_dict(message["optimizers"][name])
    workflow.set_state(message["workflow"])
    return config, workflow


def _catch_up(context: WorkflowContext, message: Message) -> None:
    """Take over what the first rank's components, counters and generators came to since the last update."""
    for name, value in message["counters"].items():
        setattr(context.counters, name, value)
    for name, component in context.components.items():
        for key, mine in statistics(component).items():
            mine.copy_(message["statistics"][name][key])
    set_random_state(message["random"])


if __name__ == "__main__":
    end_with_parent()
    sys.exit(serve())

"""From a validated configuration to a ready orchestrator: the one place where everything is made."""

from __future__ import annotations

from functools import partial

import torch
from gymnasium.vector import VectorEnv
from rich.console import Console

from paddock.config.moved import short_name
from paddock.config.schema import instantiate
from paddock.core import permission
from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed, seed_everything
from paddock.environments.calls import set_name
from paddock.environments.spaces import spec_of
from paddock.experiments.run import RunFolder
from paddock.orchestration.compatibility import check_actions
from paddock.orchestration.loggers import make_loggers
from paddock.orchestration.orchestrator import Orchestrator
from paddock.orchestration.schema import ExperimentConfig
from paddock.orchestration.sizes import allocated, check_copies, check_parts
from paddock.orchestration.terminal import Limits
from paddock.rollout.collector import Collector
from paddock.rollout.controllers import ControllerManager
from paddock.workflows.base import Workflow
from paddock.workflows.context import Counters, WorkflowContext


def build(config: ExperimentConfig, run: RunFolder, console: Console) -> Orchestrator:
    """Make environments, components, optimizers, buffers, controllers and loggers, and hand them over."""
    torch.set_num_threads(config.threads)
    seed_everything(config.seed)
    device = _device(config.device)
    copies = check_copies(config, partial(make_environment, config))
    environment = make_environment(config, config.environment.num_envs)
    spec = spec_of(environment)
    check_actions(config, spec)
    check_parts(config, spec, copies)
    components = {
        name: allocated(f"components.{name}", partial(instantiate, part, spec)).to(device)
        for name, part in config.components.items()
    }
    controllers = {name: instantiate(part, components, spec) for name, part in config.controllers.available.items()}
    context = WorkflowContext(
        config=config.workflow,
        device=device,
        components=components,
        buffers={
            name: allocated(f"buffers.{name}", partial(instantiate, part, spec, config.environment.num_envs))
            for name, part in config.buffers.items()
        },
        optimizers={name: instantiate(part, components) for name, part in config.optimizers.items()},
        controllers=ControllerManager(controllers, config.controllers.default),
        experience=Collector(environment, spec, seed=derive_seed(config.seed, "environment")),
        spec=spec,
        counters=Counters(),
        total_steps=config.training.total_steps,
    )
    workflow: Workflow = instantiate(config.workflow)
    workflow.initialize(context)
    loggers = partial(_loggers, config, run, console)
    return Orchestrator(config, run, workflow, context, permission.keep(partial(make_environment, config)), loggers)


def make_environment(config: ExperimentConfig, num_envs: int, render_mode: str | None = None) -> VectorEnv:
    """`num_envs` copies of the experiment's environment."""
    made = instantiate(config.environment, num_envs, render_mode)
    if not hasattr(made, "paddock_name"):
        set_name(made, short_name(config.environment.target_))
    return made


def _loggers(config: ExperimentConfig, run: RunFolder, console: Console, agent_steps: int) -> list:
    return make_loggers(
        config.logging,
        run,
        console,
        config.model_dump(mode="json", by_alias=True),
        limits=Limits(config.training.total_steps, config.training.max_seconds),
        agent_steps=agent_steps,
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device '{name}' cannot be used: {str(error).splitlines()[0]}") from error
    return device

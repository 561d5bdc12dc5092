"""From a validated configuration to a ready orchestrator: the one place where everything is made."""

from __future__ import annotations

from functools import partial

import torch
from gymnasium.vector import VectorEnv
from rich.console import Console

from paddock.components.devices import choose_device
from paddock.config.moved import short_name
from paddock.config.schema import instantiate
from paddock.control.requests import Control
from paddock.control.service import RunService
from paddock.core import permission
from paddock.core.memory import KEPT_MEMORY, keep_freed_memory
from paddock.core.seeding import derive_seed, seed_everything
from paddock.environments.calls import set_name
from paddock.environments.spaces import spec_of
from paddock.evaluation.evaluator import evaluate
from paddock.experiments.run import RunFolder
from paddock.orchestration.checkpoint import CheckpointStore
from paddock.orchestration.collaborators import Collaborators
from paddock.orchestration.compatibility import check_actions
from paddock.orchestration.components import make_controllers
from paddock.orchestration.diagnostics import Diagnostics
from paddock.orchestration.folder_watch import Home
from paddock.orchestration.initial_weights import load_initial_weights
from paddock.orchestration.learners.ranks import Ranks
from paddock.orchestration.loggers import make_loggers
from paddock.orchestration.metrics import Metrics
from paddock.orchestration.monitoring.monitor import Monitor
from paddock.orchestration.orchestrator import Orchestrator
from paddock.orchestration.phase_scheduler import PhaseScheduler
from paddock.orchestration.pipelining import with_pipeline
from paddock.orchestration.policies import PolicyStore
from paddock.orchestration.schema import ExperimentConfig
from paddock.orchestration.sizes import allocated, check_copies, check_parts
from paddock.orchestration.terminal import Limits
from paddock.rollout.experience import ExperienceParts
from paddock.workflows.base import Workflow
from paddock.workflows.context import Counters, WorkflowContext


def build(config: ExperimentConfig, run: RunFolder, console: Console, ranks: Ranks | None = None) -> Orchestrator:
    """Make everything that the configuration names and everything that the loop works with, and hand it over.

    ranks: the learners, if there are others than this process.
    """
    ranks = ranks or Ranks(config)
    torch.set_num_threads(config.threads)
    keep_freed_memory(**KEPT_MEMORY)
    seed_everything(config.seed)
    device = choose_device(config.device)
    copies = check_copies(config, partial(make_environment, config))
    environment = make_environment(config, config.experience.copies(config.environment.num_envs))
    spec = spec_of(environment)
    check_actions(config, spec)
    check_parts(config, spec, copies)
    components, controllers = make_controllers(config, spec, device)
    if CheckpointStore(run.checkpoints, config.checkpoint).all() == []:  # Else the checkpoint has them.
        load_initial_weights(config.initial_weights, components)
    columns = config.experience.columns(config.environment.num_envs, config.buffers.values())
    counters = Counters()
    given = ExperienceParts(
        environment=environment,
        spec=spec,
        columns=columns,
        seed=derive_seed(config.seed, "environment"),
        run=run.path,
        experiment=config,
        controllers=controllers,
        updates=lambda: counters.updates,
    )
    buffers = {
        name: allocated(f"buffers.{name}", partial(instantiate, part, spec, columns))
        for name, part in config.buffers.items()
    }
    experience = with_pipeline(config, instantiate(config.experience, given), components, controllers, buffers)
    context = WorkflowContext(
        config=config.workflow,
        device=device,
        components=components,
        buffers=buffers,
        optimizers={name: instantiate(part, components) for name, part in config.optimizers.items()},
        controllers=controllers,
        experience=experience,
        spec=spec,
        counters=counters,
        total_steps=config.training.total_steps,
        learners=ranks.learners,
        needs_autograd=config.needs_autograd,
    )
    workflow: Workflow = instantiate(config.workflow)
    workflow.initialize(context)
    return Orchestrator(config, run, workflow, context, _collaborators(config, run, console, context, ranks))


def _collaborators(
    config: ExperimentConfig, run: RunFolder, console: Console, context: WorkflowContext, ranks: Ranks
) -> Collaborators:
    metrics, control, settings = Metrics(), Control(), config.evaluation
    records = {settings.metric: "high", **settings.records}
    return Collaborators(
        ranks=ranks,
        metrics=metrics,
        scheduler=PhaseScheduler(list(config.training.phases.values()), metrics.latest),
        checkpoints=CheckpointStore(run.checkpoints, config.checkpoint),
        policies=PolicyStore(run, config.environment.to_dict(), records, config.checkpoint.keep_policies),
        control=control,
        monitor=Monitor(
            config.monitoring,
            run,
            control,
            metric=settings.metric,
            agent_steps=lambda: context.counters.agent_steps,
        ),
        diagnostics=Diagnostics(config.debug, context.components),
        home=Home(run),
        evaluator=evaluate if settings.evaluator is None else instantiate(settings.evaluator),
        probes=[instantiate(part) for part in settings.probes.values()],
        make_eval_env=permission.keep(partial(make_environment, config)),
        make_loggers=partial(_loggers, config, run, console),
        make_service=RunService,
    )


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

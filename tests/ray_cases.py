"""A local Ray for tests, and runs whose end can be compared bit by bit."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from rich.console import Console

from paddock.core.seeding import get_random_state, set_random_state
from paddock.distributed.ray import cluster, experience
from paddock.distributed.ray.collectors import RowCollector
from paddock.distributed.ray.team import Member, rows_of
from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import resumed_run
from quiet_runs import quiet_run

TINY_CARTPOLE = (
    "workflow.rollout_steps=64", "workflow.epochs=2", "workflow.minibatch_size=32", "training.total_steps=256",
    "components.observation_normalizer.enabled=true", "components.reward_normalizer.enabled=true",
    "training.phases.train.workflow_hooks.evaluate=null", "checkpoint.every_steps=128", "logging.every_steps=64",
)  # fmt: skip
TINY_RACING = (
    "environment.num_envs=32", "environment.track=[meadow, harbour]", "environment.sensing.noise=0.02",
    "environment.randomise={friction: [0.8, 1.1]}", "environment.max_episode_steps=9",
    "workflow.rollout_steps=256", "workflow.minibatch_size=128", "training.total_steps=768",
    "training.phases.train.workflow_hooks.evaluate=null", "logging.every_steps=256",
)  # fmt: skip
TINY_SAC = (
    "environment.num_envs=4", "components.policy.network.hidden=[8]", "components.critics.hidden=[8]",
    "buffers.replay.batch_size=16", "training.phases.seed.duration_steps=64",
    "training.phases.joint.workflow_hooks.evaluate=null", "training.total_steps=192", "logging.every_steps=64",
)  # fmt: skip


def start_ray(cpus: int = 8) -> Any:
    """A Ray of this process; everything that asks for one uses it."""
    return cluster.Cluster(None, cpus=cpus)


def short_folder() -> str:
    """Where Ray's sockets go: their names have to be short."""
    return cluster.short_folder()


def digest(tree: Any) -> str:
    """Of every number in a tree, names included."""
    found = hashlib.sha256()

    def add(node: Any) -> None:
        if isinstance(node, dict):
            for name in sorted(node, key=str):
                found.update(str(name).encode())
                add(node[name])
        elif isinstance(node, list | tuple):
            for one in node:
                add(one)
        elif isinstance(node, torch.Tensor):
            found.update(node.detach().cpu().numpy().tobytes())
        elif isinstance(node, np.ndarray):
            found.update(node.tobytes())
        else:
            found.update(repr(node).encode())

    add(tree)
    return found.hexdigest()[:16]


def learned(run: Any) -> str:
    """Of everything that a run learned: networks, normalisers, optimizers, and where its random numbers stand."""
    context = run.context
    parts = {name: part.state_dict() for name, part in [*context.components.items(), *context.optimizers.items()]}
    return digest([parts, vars(run.counters), run.random_at_end])


def returns(run: Any) -> list[Any]:
    """What the episodes of each logged row came to."""
    return [[row.get(f"collect/{name}") for name in ("return", "length")] for row in run.run_folder.read_metrics()]


@dataclass(eq=False)
class Reference:
    """What a call in this process gave."""

    value: Any


class InProcessTeam:
    """Workers without Ray: the same collectors, called one after the other in this process."""

    ray = SimpleNamespace(
        put=lambda value: value,
        get=lambda value: value,
        wait=lambda references, num_returns, timeout: (references[:1], references[1:]),
    )
    is_by_rows = True

    def __init__(self, config: Any, given: Any, allowed: Any, counts: Any, on_death: Any) -> None:
        groups = rows_of(experience.all_rows(config, given, allowed, sum(counts)), counts)
        self.members = [Member(f"worker-{number + 1}", one) for number, one in enumerate(groups)]
        self._made = {}
        for member in self.members:
            before = get_random_state()
            self._made[member.name] = RowCollector(member.rows)
            set_random_state(before)

    def ask(self, member: Any, method: str, *arguments: Any) -> Any:
        return Reference(copy.deepcopy(getattr(self._made[member.name], method)(*arguments)))

    def result(self, member: Any, reference: Any, again: Any) -> Any:
        return reference.value

    def close(self) -> None:
        for one in self._made.values():
            one.close()


def resumed(run: Any, *overrides: str) -> Any:
    """The orchestrator of a run that goes on from its newest checkpoint in another process, after its end."""
    with resumed_run(RunFolder(run.run_folder.path), overrides, Console(quiet=True)) as orchestrator:
        orchestrator.run()
        orchestrator.random_at_end = torch.get_rng_state()
        return orchestrator


def trained(folder: Path, experiment: str, *overrides: str, name: str) -> Any:
    """The orchestrator of a run after its end."""
    run = quiet_run(folder, experiment, *overrides, name=name)
    run.run()
    run.random_at_end = torch.get_rng_state()
    return run

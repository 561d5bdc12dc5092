"""What runs inside a Ray actor: some rows of the experiment's environments, and the policy that acts in them.

Nothing here needs Ray, so that the same code can be called in one process.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
from paddock.config.validate import validate
from paddock.core.permission import Permission, permitting
from paddock.core.seeding import derive_seed, seed_everything
from paddock.core.trees import map_tree
from paddock.core.trust import PLUGINS_VARIABLE
from paddock.environments.rows import take_rows
from paddock.environments.spaces import spec_of
from paddock.orchestration.build import make_environment
from paddock.orchestration.components import make_controllers
from paddock.orchestration.schema import ExperimentConfig
from paddock.rollout.actor import EXTRA_STATE, ActorModule
from paddock.rollout.chunks import Chunk
from paddock.rollout.collector import Collector, EndedEpisodes
from paddock.rollout.rows import RowActor
from paddock.sim.kernels.launch import get_threads, set_threads

Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Rows:
    """What a worker is made of: the experiment's configuration as plain values, with what it may do, and which rows of
    all N environments it has. seed: of the environments."""

    values: Mapping[str, Any]
    permission: Permission
    plugins: str
    seed: int
    first: int
    count: int
    total: int
    threads: int


@dataclass(frozen=True)
class Order:
    """One round: vector steps, with which controller and which version of its weights.

    random: the state of torch's generator, uint8; the same for all rows. None: the worker draws from its own.
    is_packed: whether the policy acts by its compiled kernel (`ActorModule.pack`).
    """

    steps: int
    controller: str
    version: int
    explores: bool
    padding: int
    random: np.ndarray | None
    reward_weights: Mapping[str, float]
    is_packed: bool = False


@dataclass(frozen=True)
class Round:
    """What a round gave: arrays [T, n, ...], the episodes that ended, and the generator's state after it. seconds: of
    collecting; waited: s between the round before and this one."""

    chunk: Chunk
    ended: EndedEpisodes
    version: int
    steps: int
    env_frames: int
    random: np.ndarray | None
    seconds: float
    waited: float


class RowCollector:
    """Collects in its own rows as a collector of all rows would."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        if rows.plugins:
            os.environ[PLUGINS_VARIABLE] = rows.plugins
        torch.set_num_threads(rows.threads)
        set_threads(min(rows.threads, get_threads()))
        with permitting(rows.permission):
            self._config = validate(dict(rows.values), ExperimentConfig)
            seed_everything(derive_seed(rows.seed, "ray", rows.first))
            self._env = make_environment(self._config, rows.count)
            self.is_by_rows = take_rows(self._env, rows.first)
            self._spec = spec_of(self._env)
            _, self._controllers = make_controllers(self._config, self._spec, torch.device("cpu"))
        self._collector = Collector(self._env, self._spec, seed=rows.seed, first_row=rows.first)
        self._buffer: RolloutBuffer | None = None
        self._actors: dict[tuple[str, int], RowActor] = {}
        self._loaded: tuple[str, int] | None = None
        self._ended_at = time.perf_counter()

    def about(self) -> dict[str, Any]:
        """Where the worker is, and whether its environments' random numbers are of single rows."""
        return {"host": socket.gethostname(), "process": os.getpid(), "is_by_rows": self.is_by_rows}

    def collect(self, order: Order, weights: Weights) -> Round:
        """One round. Its arrays are valid until the next one."""
        began = time.perf_counter()
        waited = began - self._ended_at
        actor = self._controllers[order.controller]
        if self._loaded != (order.controller, order.version):
            load_weights(actor, weights)
            self._loaded = order.controller, order.version
        if order.is_packed and not actor.is_packed:
            actor.pack()
        self._weigh_rewards(order.reward_weights)
        if order.random is not None:
            torch.set_rng_state(torch.from_numpy(order.random.copy()))
        buffer = self._rows_for(order.steps)
        self._collector.explores = order.explores
        acting: Any = self._acting(actor, order)
        with permitting(self.rows.permission):
            result = self._collector.collect(acting, buffer, order.steps * self.rows.count)
        chunk = map_tree(lambda part: part.numpy(), buffer.sample())
        random = None if order.random is None else torch.get_rng_state().numpy()
        self._ended_at = time.perf_counter()
        ended, frames = result.extras["ended"], result.extras["env_frames"]
        return Round(chunk, ended, order.version, result.steps, frames, random, self._ended_at - began, waited)

    def get_state(self) -> dict[str, Any]:
        return self._collector.get_state()

    def set_state(self, state: dict[str, Any], agent_steps: int) -> None:
        self._collector.set_state(state, agent_steps=agent_steps)

    def begin_anew(self, seed: int) -> None:
        """Begin other episodes with the next round."""
        seed_everything(seed)
        self._collector.seed = seed
        self._collector.set_state({"is_reset": False}, agent_steps=0)

    def close(self) -> None:
        self._collector.close()

    def _acting(self, actor: ActorModule, order: Order) -> RowActor | ActorModule:
        if order.random is None:
            return actor
        rows, key = self.rows, (order.controller, order.padding)
        if key not in self._actors:
            self._actors[key] = RowActor(
                actor, first=rows.first, count=rows.count, total=rows.total, padding=order.padding
            )
        return self._actors[key]

    def _rows_for(self, steps: int) -> RolloutBuffer:
        if self._buffer is None or self._buffer.length != steps:
            count = self.rows.count
            self._buffer = RolloutBuffer(RolloutConfig(_target_="", steps=steps * count), self._spec, count)
        return self._buffer

    def _weigh_rewards(self, weights: Mapping[str, float]) -> None:
        for name, weight in weights.items():
            if self._collector.reward_weights.get(name) != weight:
                self._collector.set_reward_weight(name, weight)


def weights_of(actor: ActorModule) -> dict[str, np.ndarray]:
    """A copy of an actor's numbers by name; what belongs to episodes under way is left out."""
    return {name: value.detach().cpu().numpy().copy() for name, value in _tensors(actor).items()}


def load_weights(actor: ActorModule, weights: Weights) -> None:
    """Put numbers into an actor of the same networks."""
    with torch.no_grad():
        for name, value in _tensors(actor).items():
            value.copy_(torch.from_numpy(weights[name].copy()))


def are_equal(some: Weights | None, others: Weights) -> bool:
    """Whether two sets of weights have the same bits."""
    return some is not None and all(some[name].tobytes() == array.tobytes() for name, array in others.items())


def _tensors(actor: ActorModule) -> dict[str, Tensor]:
    return {
        name: value
        for name, value in actor.state_dict().items()
        if isinstance(value, Tensor) and not name.endswith(EXTRA_STATE)
    }

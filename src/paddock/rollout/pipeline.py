"""Collecting beside learning: while the workflow learns from one round of steps, the next one is collected.

A thread collects with a frozen copy of the actor, which is one version late, and with random numbers of its own. Rounds
are handed over at `collect` alone, so that nothing depends on how fast either side is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch import Tensor

from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
from paddock.core.own_random import OwnDraws
from paddock.core.seeding import derive_seed
from paddock.core.specs import Spec
from paddock.rollout import chunks
from paddock.rollout.actor import ActorModule
from paddock.rollout.collector import Collector
from paddock.rollout.controllers import ControllerManager
from paddock.rollout.experience import Experience, TransitionSink, WorkerState
from paddock.rollout.result import CollectResult

ROUND = RolloutConfig.model_validate({"_target_": "paddock.buffers.rollout.RolloutBuffer", "steps": 1})


class Pipeline:
    """An `Experience` around the local collector. `collect` hands over the round that was collected beside learning,
    and starts the next one with the parameters of that moment.

    A round that was begun for another controller, buffer or number of steps than is asked for (a phase ended) is
    dropped, and the buffer gets a discontinuity in its place. Checkpoints wait for the round under way and hold it.
    """

    def __init__(self, inner: Collector, controllers: ControllerManager, buffers: Mapping[str, Any]) -> None:
        self._inner, self._controllers, self._buffers = inner, controllers, buffers
        self._generator = torch.Generator().manual_seed(derive_seed(inner.seed, "pipeline"))
        threads = torch.get_num_threads()
        self._thread = ThreadPoolExecutor(1, "paddock-collect", partial(torch.set_num_threads, threads))
        self._copies: list[ActorModule] = []  # of the actor: one collects, the other one collected what is learned from
        self._copied: ActorModule | None = None
        self._saved: list[list[Tensor]] = []  # parameters of the copies, of a checkpoint
        self._turn = 0  # the copy that collects
        self._round: RolloutBuffer | None = None
        self._asked: list[Any] | None = None  # what the round under way is for: controller, buffer, steps
        self._under_way: Future[CollectResult] | None = None
        self.workers: tuple[WorkerState, ...] = ()
        self.inexact: tuple[str, ...] = ()
        self.steps_under_way = 0  # Those of the round under way are of the next collection.

    def collect(self, actor: ActorModule, sink: TransitionSink, steps: int) -> CollectResult:
        """What was collected since the last call, into the sink; only the first call waits for all of its steps."""
        if not steps:
            return CollectResult(0, 0)
        asked = [self._controllers.name_of(actor), self._name_of(sink), steps]
        if self._under_way is not None and asked != self._asked:
            self._wait()
            self._under_way = None
            self._buffers[self._name_of(sink)].mark_discontinuity()
        if self._under_way is None:
            self._start(actor, asked)
        result = self._wait()
        self._hand_over(sink)
        self._start(actor, asked)
        return result

    def collected_by(self, actor: ActorModule) -> ActorModule:
        """The copy of `actor` that collected what was handed over last."""
        self._follow(actor)
        return self._copies[1 - self._turn]

    def close(self) -> None:
        """Wait for the round under way, and close the environment."""
        self._thread.shutdown()
        self._inner.close()

    def get_state(self) -> dict[str, Any]:
        """The collector's state after the round under way, and that round."""
        state: dict[str, Any] = {"is_under_way": self._under_way is not None}
        if self._under_way is not None:
            result = self._wait()
            assert self._round is not None
            state |= {
                "asked": self._asked,
                "result": {"steps": result.steps, "episodes": result.episodes, "metrics": dict(result.metrics)},
                "env_frames": result.extras["env_frames"],
                "observation": dict(result.observation),
                "round": self._round.get_state(),
            }
        state["copies"] = self._saved or [[part.detach().clone() for part in _tensors(one)] for one in self._copies]
        return state | {"inner": self._inner.get_state(), "generator": self._generator.get_state(), "turn": self._turn}

    def set_state(self, state: dict[str, Any], *, agent_steps: int) -> None:
        """Go on from a saved state; where the environment has none, the round under way then is collected anew. A
        checkpoint of a run without a pipeline gives the collector's state."""
        if "inner" not in state:
            self._inner.set_state(state, agent_steps=agent_steps)
            return
        self._inner.set_state(state["inner"], agent_steps=agent_steps)
        self._generator.set_state(state["generator"])
        self._turn, self._saved, self._copied = state["turn"], state["copies"], None
        if not state["is_under_way"] or not self.is_exact:
            return
        self._asked = state["asked"]
        self._round = self._room_for(state["asked"][-1])
        self._round.set_state(state["round"])
        extras = {"env_frames": state["env_frames"]}
        self._under_way = Future()
        self._under_way.set_result(CollectResult(**state["result"], observation=state["observation"], extras=extras))

    def _start(self, actor: ActorModule, asked: list[Any]) -> None:
        """Begin a round with the actor's parameters as they are now."""
        self._follow(actor)
        self._turn = 1 - self._turn
        frozen, steps = self._copies[self._turn], asked[-1]
        with torch.no_grad():
            for to, part in zip(_tensors(frozen), _tensors(actor), strict=True):
                to.copy_(part)
        if self._round is None or self._asked is None or self._asked[-1] != steps:
            self._round = self._room_for(steps)
        self._asked = asked
        self._under_way = self._thread.submit(self._collect, frozen, self._round, steps)

    def _collect(self, frozen: ActorModule, room: RolloutBuffer, steps: int) -> CollectResult:
        with OwnDraws(self._generator):
            result = self._inner.collect(frozen, room, steps)
        observation = {name: part.copy() for name, part in result.observation.items()}
        extras = {"env_frames": result.extras["env_frames"]}
        return CollectResult(result.steps, result.episodes, result.metrics, observation, extras)

    def _hand_over(self, sink: TransitionSink) -> None:
        assert self._round is not None
        rows = self._round.rows()
        if isinstance(sink, RolloutBuffer) and chunks.length(rows) <= sink.room:
            sink.add_columns([rows])
            return
        for transition in chunks.vector_steps(rows):
            sink.add(transition)

    def _follow(self, actor: ActorModule) -> None:
        """Have copies of this actor."""
        if actor is self._copied:
            return
        self._copies = [copy.deepcopy(actor).requires_grad_(False) for _ in range(2)]
        self._copied = actor
        for one, saved in zip(self._copies, self._saved, strict=False):
            for part, value in zip(_tensors(one), saved, strict=True):
                part.copy_(value)
        self._saved = []

    def _wait(self) -> CollectResult:
        assert self._under_way is not None
        return self._under_way.result()

    def _finish(self) -> None:
        if self._under_way is not None:
            self._wait()

    def _room_for(self, steps: int) -> RolloutBuffer:
        return RolloutBuffer(ROUND.model_copy(update={"steps": steps}), self.spec, self.num_envs)

    def _name_of(self, sink: TransitionSink) -> str:
        return next(name for name, buffer in self._buffers.items() if buffer is sink)

    # What the collector says of itself. A change waits for the round under way.

    @property
    def spec(self) -> Spec:
        return self._inner.spec

    @property
    def num_envs(self) -> int:
        return self._inner.num_envs

    @property
    def is_exact(self) -> bool:
        return self._inner.is_exact

    @property
    def view(self) -> Any | None:
        return self._inner.view

    @property
    def time_step(self) -> float:
        return self._inner.time_step

    @property
    def reward_weights(self) -> dict[str, float]:
        return self._inner.reward_weights

    def set_reward_weight(self, name: str, weight: float) -> None:
        """Weigh a reward term anew from the next round on."""
        self._finish()
        self._inner.set_reward_weight(name, weight)

    @property
    def explores(self) -> bool:
        return self._inner.explores

    @explores.setter
    def explores(self, explores: bool) -> None:
        self._finish()
        self._inner.explores = explores

    @property
    def after_step(self) -> Callable[[], None] | None:
        return self._inner.after_step

    @after_step.setter
    def after_step(self, hook: Callable[[], None] | None) -> None:
        self._inner.after_step = hook


def collected_by(experience: Experience, actor: ActorModule) -> ActorModule | None:
    """The earlier version of the actor that collected what was handed over last; None where it was the actor itself."""
    return experience.collected_by(actor) if isinstance(experience, Pipeline) else None


def _tensors(actor: ActorModule) -> Sequence[Tensor]:
    return [*actor.parameters(), *actor.buffers()]

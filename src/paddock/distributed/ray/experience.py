"""Experience of environments that are spread over the actors of a Ray cluster, synchronously.

A round is the same wherever its rows are: the policy of the moment, random numbers by row, and a fixed order in which
what comes back is put together. The parameters at the end do not depend on the number of workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from paddock.buffers.rollout import RolloutBuffer
from paddock.core import permission
from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed
from paddock.core.trust import PLUGINS_VARIABLE
from paddock.distributed.ray.cluster import Cluster, import_ray
from paddock.distributed.ray.collectors import Order, Round, Rows, are_equal, weights_of
from paddock.distributed.ray.losses import Losses
from paddock.distributed.ray.schema import RayConfig
from paddock.distributed.ray.streaming import RayStream
from paddock.distributed.ray.team import Member, Team, rows_of
from paddock.rollout import chunks
from paddock.rollout.actor import ActorModule
from paddock.rollout.chunks import Chunk
from paddock.rollout.collector import EndedEpisodes, time_step
from paddock.rollout.experience import Experience, ExperienceParts, StepsSink, TransitionSink, WorkerState
from paddock.rollout.result import CollectResult
from paddock.rollout.rows import padding_for


class RayExperience:
    """An `Experience` whose N rows are at workers, each of which has some."""

    explores = True
    after_step: Callable[[], None] | None = None
    view: Any | None = None
    steps_under_way = 0

    def __init__(self, config: RayConfig, given: ExperienceParts) -> None:
        import_ray(config.address)
        env = given.environment
        self.config, self.spec, self.num_envs = config, given.spec, given.columns
        self.is_exact = hasattr(env, "get_state") and hasattr(env, "set_state")
        self.time_step = time_step(env)
        self._reward_weights = {name: float(weight) for name, weight in getattr(env, "reward_weights", {}).items()}
        env.close()  # It was made for its Spec.
        self._given, self._permission = given, permission.current()
        self.counts = config.counts(self.num_envs)
        self.losses = Losses(given.run)
        self.inexact = self.losses.told
        self._team: Team | None = None
        self._saved: tuple[dict[str, Any], int] | None = None  # a state to go on from, and its agent steps
        self._changed_weights: dict[str, float] = {}
        self._weights: dict[str, np.ndarray] | None = None
        self._reference: Any = None  # of the weights in the object store
        self._version = 0
        self._padding: dict[str, int] = {}
        self._is_broken = False  # what comes next does not follow what the buffers hold
        self._reports: dict[str, Round] = {}

    # --- Experience ---

    def collect(self, actor: ActorModule, sink: TransitionSink, steps: int) -> CollectResult:
        """One round: at least `steps` decisions, as many vector steps in every row."""
        began = time.perf_counter()
        team, order = self.team, self._order(actor, -(-steps // self.num_envs))
        asked = [(member, team.ask(member, "collect", order, self._reference)) for member in team.members]
        rounds = []
        for member, reference in asked:
            again = self._asks_again(team, member, order)
            rounds.append(team.result(member, reference, again))
            self._reports[member.name] = replace(rounds[-1], chunk={})  # Its arrays would stay in the object store.
        self._go_on_from(rounds)
        self._write(sink, [one.chunk for one in rounds])
        taken, seconds = sum(one.steps for one in rounds), max(time.perf_counter() - began, 1e-9)
        ended = EndedEpisodes.side_by_side([one.ended for one in rounds])
        if (after_step := self.after_step) is not None:
            after_step()
        return CollectResult(
            taken,
            ended.count,
            {
                "collect/steps_per_second": taken / seconds,
                "collect/workers_connected": float(len(rounds)),
                "collect/idle_share": max(1.0 - max(one.seconds for one in rounds) / seconds, 0.0),
                **self.losses.metrics(),
                **ended.metrics(),
            },
            _last_rows([one.chunk for one in rounds]),
            {"env_frames": sum(one.env_frames for one in rounds)},
        )

    def get_state(self) -> dict[str, Any]:
        """The state of every worker's rows, and what was lost on the way here."""
        common = {
            "counts": list(self.counts),
            "explores": self.explores,
            "reward_weights": dict(self._changed_weights),
            "losses": self.losses.get_state(),
        }
        if self._team is None:
            return {**common, "workers": None if self._saved is None else self._saved[0].get("workers")}
        team = self._team
        asked = [(member, team.ask(member, "get_state")) for member in team.members]
        states = [team.result(member, one, partial(team.ask, member, "get_state")) for member, one in asked]
        return {**common, "workers": states}

    def set_state(self, state: dict[str, Any], *, agent_steps: int) -> None:
        """Go on from a saved state. Where rows were spread otherwise, or elsewhere, episodes begin anew."""
        self.explores = state.get("explores", True)
        self._changed_weights = dict(state.get("reward_weights", {}))
        self.losses.set_state(state.get("losses", {}))
        self._saved = state, agent_steps
        if self._team is not None:
            self._put_back(self._team)

    def close(self) -> None:
        if self._team is not None:
            self._team.close()
            self._team = None

    @property
    def workers(self) -> list[WorkerState]:
        """Every worker, with what its last round came to."""
        return [self._worker_state(member) for member in (self._team.members if self._team else [])]

    @property
    def reward_weights(self) -> dict[str, float]:
        return {**self._reward_weights, **self._changed_weights}

    def set_reward_weight(self, name: str, weight: float) -> None:
        """Workers weigh a term anew from the next round on."""
        if name not in self._reward_weights:
            raise InputError(f"the environment has no reward term '{name}'. It has: {', '.join(self._reward_weights)}.")
        self._changed_weights[name] = weight

    # --- inside ---

    @property
    def team(self) -> Team:
        """The workers, started when they are first needed."""
        if self._team is None:
            self._team = make_team(self.config, self._given, self._permission, self.counts, self._count_death)
            if not self._team.is_by_rows:
                self.losses.tell(
                    "rows_depend_on_workers",
                    "the environment draws random numbers for all of its copies together, so that the result depends "
                    "on experience.workers.",
                )
            self._put_back(self._team)
        return self._team

    def _put_back(self, team: Team) -> None:
        if self._saved is None:
            return
        (state, agent_steps), self._saved = self._saved, None
        found = state.get("workers")
        if found is not None and list(state["counts"]) == self.counts:
            pairs = zip(team.members, found, strict=True)
            team.ray.get([team.ask(member, "set_state", one, agent_steps) for member, one in pairs])
        elif found is not None or state.get("is_reset"):
            seed = derive_seed(self._given.seed, "resume", agent_steps)
            team.ray.get([team.ask(member, "begin_anew", seed) for member in team.members])
            self._is_broken = True
            self.losses.tell(
                "episodes_begun_anew",
                f"the checkpoint is of rows that were spread as {state.get('counts', 'one group')}, these as "
                f"{self.counts}; episodes begin anew.",
            )

    def _order(self, actor: ActorModule, steps: int) -> Order:
        name = self._given.controllers.name_of(actor)
        if name not in self._padding:
            self._padding[name] = padding_for(actor, self.spec, counts=self.counts, total=self.num_envs)
        self._put_weights(actor)
        return Order(
            steps=steps,
            controller=name,
            version=self._version,
            explores=self.explores,
            padding=self._padding[name],
            random=torch.get_rng_state().numpy(),
            reward_weights=dict(self._changed_weights),
            is_packed=actor.is_packed,
        )

    def _put_weights(self, actor: ActorModule) -> None:
        """Into the object store once a version; nodes fetch them from there, each once."""
        weights = weights_of(actor)
        if self._weights is None or self._weights.keys() != weights.keys() or not are_equal(self._weights, weights):
            self._weights, self._version = weights, self._version + 1
            self._reference = self.team.ray.put(weights)

    def _asks_again(self, team: Team, member: Member, order: Order) -> Callable[[], Any]:
        def again() -> Any:
            self._is_broken = True
            self.losses.count(steps=order.steps * member.rows.count)
            return team.ask(member, "collect", order, self._reference)

        return again

    def _count_death(self, member: Member, reason: str) -> None:
        self.losses.worker_died(member.name, member.about.get("host", ""), reason, episodes=member.rows.count)

    def _go_on_from(self, rounds: Sequence[Round]) -> None:
        """Draw on where the workers have stopped, which is at the same place for all."""
        states = [one.random for one in rounds if one.random is not None]
        assert all(np.array_equal(states[0], one) for one in states), "workers drew different random numbers"
        torch.set_rng_state(torch.from_numpy(states[0].copy()))

    def _write(self, sink: TransitionSink, groups: Sequence[Chunk]) -> None:
        if self._is_broken and hasattr(sink, "mark_discontinuity"):
            sink.mark_discontinuity()
        self._is_broken = False
        if isinstance(sink, RolloutBuffer) and chunks.length(groups[0]) <= sink.room:
            sink.add_columns(groups)
        elif isinstance(sink, StepsSink):
            sink.add_steps(chunks.beside(groups))
        else:
            for step in chunks.vector_steps(chunks.beside(groups)):
                sink.add(step)

    def _worker_state(self, member: Member) -> WorkerState:
        host = str(member.about.get("host", ""))
        if member.name not in self._reports:
            return WorkerState(member.name, host, is_connected=True)
        last = self._reports[member.name]
        whole = max(last.seconds + last.waited, 1e-9)
        means: Mapping[str, float] = last.ended.metrics()
        return WorkerState(
            member.name,
            host,
            is_connected=True,
            version_lag=float(self._version - last.version),
            steps_per_second=last.steps / whole,
            idle_share=last.waited / whole,
            episode_return=means.get("collect/return"),
            episode_length=means.get("collect/length"),
        )


def all_rows(config: RayConfig, given: ExperienceParts, allowed: permission.Permission, total: int) -> Rows:
    """One worker with all rows."""
    return Rows(
        values=given.experiment.model_dump(mode="json", by_alias=True),
        permission=allowed,
        plugins=os.environ.get(PLUGINS_VARIABLE, ""),
        seed=given.seed,
        first=0,
        count=total,
        total=total,
        threads=config.worker_threads,
    )


def make_team(
    config: RayConfig,
    given: ExperienceParts,
    allowed: permission.Permission,
    counts: Sequence[int],
    on_death: Callable[[Member, str], None],
) -> Team:
    """Workers for all rows, in groups of `counts`."""
    rows = all_rows(config, given, allowed, sum(counts))
    cluster = Cluster(config.address, cpus=config.cpus * len(counts))
    return Team(cluster, rows_of(rows, counts), cpus=config.cpus, on_death=on_death)


def ray(config: RayConfig, given: ExperienceParts) -> Experience:
    """Experience of a Ray cluster: in rounds, or as a stream."""
    if config.mode == "async":
        import_ray(config.address)
        return RayStream(config, given, make_team)
    return RayExperience(config, given)


def _last_rows(groups: Sequence[Chunk]) -> dict[str, np.ndarray]:
    """The observations [N, ...] that a round ended with."""
    return {
        name: np.concatenate([group["observation"][name][-1] for group in groups]) for name in groups[0]["observation"]
    }

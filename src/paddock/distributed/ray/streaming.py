"""Experience of a Ray cluster whose workers do not wait for the learner: for off-policy workflows.

What is done with chunks that arrive is the business of the relay's trainer side; here is where they come from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from paddock.core import permission
from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed
from paddock.distributed.chunk_codec import ChunkNote, ReceivedChunk
from paddock.distributed.endpoints import WorkerRecord
from paddock.distributed.experience import Arrivals, RelayExperience
from paddock.distributed.ray.collectors import Order, Round, weights_of
from paddock.distributed.ray.losses import Losses
from paddock.distributed.ray.schema import RayConfig
from paddock.distributed.ray.team import Member, Team
from paddock.distributed.wire.messages import Hello
from paddock.rollout import chunks
from paddock.rollout.actor import ActorModule
from paddock.rollout.experience import ExperienceParts, TransitionSink
from paddock.rollout.result import CollectResult

TeamMaker = Callable[[RayConfig, ExperienceParts, permission.Permission, list[int], Any], Team]


@dataclass(frozen=True)
class Arrived:
    """A chunk in the shape in which the trainer's side takes chunks. size: bytes."""

    worker: str
    steps: int
    size: int
    received: ReceivedChunk


class AsTheyAre:
    """In place of a codec: chunks that come through the object store need none."""

    def unpack(self, arrived: Arrived) -> ReceivedChunk:
        return arrived.received


@dataclass
class Lane:
    """One worker's orders under way, oldest first, and how many of its chunks were taken."""

    member: Member
    record: WorkerRecord
    asked: deque[Any] = field(default_factory=deque)
    taken: int = 0
    is_new: bool = True  # what it sends next does not follow what it sent before


class RaySession:
    """Keeps `ahead_chunks` orders with every worker, each with the newest weights of its moment."""

    def __init__(self, config: RayConfig, team: Team, losses: Losses) -> None:
        self._config, self._team, self._losses = config, team, losses
        self.version = 0
        self.marks: dict[str, int] = {}  # Nothing of a worker outlives it.
        self.status = SimpleNamespace(problem="", link=SimpleNamespace(is_connected=True, problem=""))
        self._order: Order | None = None
        self._weights: Any = None
        self._lanes = {member.name: Lane(member, _record(member)) for member in team.members}

    @property
    def workers(self) -> dict[str, WorkerRecord]:
        return {name: lane.record for name, lane in self._lanes.items()}

    def publish(self, weights: dict[str, np.ndarray], order: Order) -> int:
        """New weights for the orders from here on; their version."""
        self.version += 1
        self._order = replace(order, version=self.version)
        self._weights = self._team.ray.put(weights)
        self._fill()
        return self.version

    def take(self, timeout: float) -> Arrived | None:
        """The next chunk of any worker, if one comes within `timeout` seconds."""
        self._fill()
        oldest = {lane.asked[0]: lane for lane in self._lanes.values() if lane.asked}
        ready, _ = self._team.ray.wait(list(oldest), num_returns=1, timeout=timeout)
        if not ready:
            return None
        lane = oldest[ready[0]]
        # Those behind it wait their turn: the workers take turns in the order in which they are ready.
        self._lanes[lane.member.name] = self._lanes.pop(lane.member.name)
        return self._received(lane)

    def died(self, member: Member) -> None:
        """Orders under way with a worker that is replaced are lost."""
        lane = self._lanes[member.name]
        self._losses.count(steps=len(lane.asked) * self._config.chunk_steps * member.rows.count)
        lane.asked.clear()
        lane.is_new, lane.record = True, _record(member)

    def close(self) -> None:
        self._team.close()

    def delivered(self, marks: dict[str, int]) -> None:
        """Chunks are not kept, so there is nothing to send again."""

    def checkpointed(self, marks: dict[str, int]) -> None:
        """Likewise."""

    def _fill(self) -> None:
        if self._order is None:
            return
        for lane in self._lanes.values():
            while len(lane.asked) < self._config.ahead_chunks:
                lane.asked.append(self._team.ask(lane.member, "collect", self._order, self._weights))

    def _received(self, lane: Lane) -> Arrived:
        def again() -> Any:
            self._fill()
            return lane.asked[0]

        one: Round = self._team.result(lane.member, lane.asked[0], again)
        lane.asked.popleft()
        self._fill()
        lane.taken += 1
        arrays = chunks.flat(one.chunk).values()
        size = sum(array.nbytes for array in arrays)
        received = ReceivedChunk(lane.member.name, lane.taken, one.version, _note(one, not lane.is_new), one.chunk)
        lane.is_new = False
        self._note_report(lane.record, one)
        return Arrived(lane.member.name, one.steps, size, received)

    def _note_report(self, record: WorkerRecord, one: Round) -> None:
        whole = max(one.seconds + one.waited, 1e-9)
        means = {name.removeprefix("collect/"): value for name, value in one.ended.metrics().items()}
        record.numbers |= {
            **{name: value for name, value in means.items() if name in ("return", "length")},
            "steps_per_second": one.steps / whole,
            "idle_share": one.waited / whole,
            "version_lag": float(self.version - one.version),
        }


class RayStream(RelayExperience):
    """The trainer's side of the relay, with actors of a Ray cluster in place of workers that dial in."""

    def __init__(self, config: RayConfig, given: ExperienceParts, make_team: TeamMaker) -> None:
        self._counts = config.counts(given.experiment.environment.num_envs)
        if len(set(self._counts)) > 1:
            raise InputError(
                f"experience.mode=async needs workers with equally many environments, and environment.num_envs="
                f"{sum(self._counts)} over {len(self._counts)} workers is not: use a multiple of {len(self._counts)}."
            )
        self._ray_config, self._make_team, self._permission = config, make_team, permission.current()
        self.losses = Losses(given.run)
        self.inexact = self.losses.told
        self._agent_steps = 0
        super().__init__(config.as_relay(), given, width=self._counts[0])
        self._codec: Any = AsTheyAre()

    def collect(self, actor: ActorModule, sink: TransitionSink, steps: int) -> CollectResult:
        if getattr(sink, "is_on_policy", False):
            raise InputError("this workflow learns from its newest policy alone: use experience.mode=sync.")
        return super().collect(actor, sink, steps)

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "losses": self.losses.get_state()}

    def set_state(self, state: dict[str, Any], *, agent_steps: int) -> None:
        self._agent_steps = agent_steps
        self.losses.set_state(state.get("losses", {}))
        super().set_state(state, agent_steps=agent_steps)

    def _check_address(self) -> None:
        """The cluster is joined when it is first needed."""

    def _open(self) -> Any:
        # A run that goes on must not drive the same episodes again.
        seed = derive_seed(self._given.seed, "async", self._agent_steps)
        given = replace(self._given, seed=seed)
        team = self._make_team(self._ray_config, given, self._permission, self._counts, self._count_death)
        self._opened = RaySession(self._ray_config, team, self.losses)
        return self._opened

    def _count_death(self, member: Member, reason: str) -> None:
        self.losses.worker_died(member.name, member.about.get("host", ""), reason, episodes=member.rows.count)
        self._opened.died(member)

    def _publish(self, actor: ActorModule) -> int:
        session: Any = self.session
        order = Order(
            steps=self._ray_config.chunk_steps,
            controller=self._given.controllers.name_of(actor),
            version=0,
            explores=self.explores,
            padding=1,
            random=None,
            reward_weights=dict(self._changed_weights),
        )
        return session.publish(weights_of(actor), order)

    def _take(self, arrivals: Arrivals, timeout: float) -> tuple[ReceivedChunk, int] | None:
        most = self._ray_config.max_lag
        while (taken := super()._take(arrivals, timeout)) is not None:
            if not most or self._lag(taken[0].version) <= most:
                return taken
            self._dropped += chunks.decisions(taken[0].chunk)
        return None

    def _metrics(self, arrivals: Arrivals, seconds: float) -> dict[str, float]:
        return {**super()._metrics(arrivals, seconds), **self.losses.metrics()}


def _record(member: Member) -> WorkerRecord:
    hello = Hello("worker", member.name, f"{member.lives:016x}", host=str(member.about.get("host", "")))
    return WorkerRecord(hello=hello, is_connected=True)


def _note(one: Round, continues: bool) -> ChunkNote:
    length, width = one.chunk["reward"].shape
    return ChunkNote(
        length=length,
        num_envs=width,
        finals=len(one.chunk["final_index"]),
        continues=continues,
        episodes=[],
        steps=[],
        ended=one.ended.count,
        metrics=one.ended.metrics() if one.ended.count else {},
        env_frames=one.env_frames,
        arrays=b"",
    )

"""The trainer's side of the relay: experience that workers collect, in a buffer that cannot tell.

Replayed transitions are taken as they come. A rollout is taken synchronously: every worker collects the same number of
steps with the newest policy, and waits for the next one.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paddock.config.schema import instantiate
from paddock.core.errors import InputError
from paddock.core.text import printable
from paddock.distributed.address import dial_to, trainer_hello
from paddock.distributed.chunk_codec import ChunkCodec, ReceivedChunk, UnfitChunk
from paddock.distributed.comparing import environment_values
from paddock.distributed.connection import Dial
from paddock.distributed.delivery.versions import split_version
from paddock.distributed.endpoints import WorkerRecord
from paddock.distributed.lanes import Lanes
from paddock.distributed.local_workers import LocalWorkers, worker_folder
from paddock.distributed.policy_weights import PolicyHeader, pack
from paddock.distributed.schema import RelayConfig, WorkersConfig
from paddock.distributed.sessions import JournaledChunk, TrainerSession
from paddock.distributed.wire.messages import Order
from paddock.rollout import chunks
from paddock.rollout.actor import ActorModule
from paddock.rollout.collector import time_step
from paddock.rollout.experience import ExperienceParts, TransitionSink, WorkerState
from paddock.rollout.result import CollectResult

log = logging.getLogger(__name__)

JOURNAL = "journal"  # folder of a run
PATIENCE = 1.0  # s without anything new after which a collection ends early, so that the run can be stopped
TELL_SECONDS = 10.0  # s of waiting before it is said for what
LOOK_SECONDS = 0.03  # between two pictures of what workers do, while a viewer wants them
KEPT_CHECKPOINTS = 4  # whose journal is kept: the newest may turn out to be damaged


@dataclass
class Arrivals:
    """What one collection came to."""

    steps: int = 0
    episodes: int = 0
    env_frames: int = 0
    bytes: int = 0
    lags: list[tuple[int, int]] = field(default_factory=list)  # versions behind, steps
    sums: dict[str, tuple[float, int]] = field(default_factory=dict)
    observations: list[dict[str, np.ndarray]] = field(default_factory=list)

    def add(self, received: ReceivedChunk, lag: int, size: int, name: str) -> None:
        note, steps = received.note, chunks.decisions(received.chunk)
        self.steps += steps
        self.episodes += note.ended
        self.env_frames += note.env_frames
        self.bytes += size
        self.lags.append((lag, steps))
        for metric, value in note.metrics.items():
            for label in (metric, metric.replace("collect/", f"collect/workers/{name}/", 1)):
                total, weight = self.sums.get(label, (0.0, 0))
                self.sums[label] = (total + value * note.ended, weight + note.ended)
        parts = received.chunk["observation"].items()
        self.observations.append({part: array[1:].reshape(-1, *array.shape[2:]) for part, array in parts})

    def observation(self) -> dict[str, np.ndarray]:
        """Everything that was observed, for normalisers."""
        if not self.observations:
            return {}
        return {part: np.concatenate([one[part] for one in self.observations]) for part in self.observations[0]}


REPORTED = {  # fields of a WorkerState, by what a worker's reports call them
    "version_lag": "version_lag",
    "steps_per_second": "steps_per_second",
    "idle_share": "idle_share",
    "round_trip": "round_trip",
    "episode_return": "return",
    "episode_length": "length",
    "test_return": "test_return",
}


def worker_state(record: WorkerRecord) -> WorkerState:
    """A worker for viewers. Its texts and numbers are what it sent; control characters are left out."""
    assert record.hello is not None
    found = {field: record.numbers.get(name) for field, name in REPORTED.items()}
    numbers = {field: float(value) for field, value in found.items() if isinstance(value, int | float)}
    pause = str(record.numbers.get("pause", "")) if record.is_connected else ""
    return WorkerState(
        printable(record.hello.name),
        printable(record.hello.host),
        record.is_connected,
        pause=printable(pause),
        **numbers,
    )


class RelayExperience:
    """An `Experience` whose environments are at workers; `TrainerSession` brings their chunks, each once."""

    explores = True
    after_step: Callable[[], None] | None = None
    view: Any | None = None
    is_exact = False  # Workers go on while the trainer is away.
    inexact: Sequence[str] = ()

    def __init__(self, config: RelayConfig, given: ExperienceParts, *, width: int | None = None) -> None:
        """width: environments of each worker; as many as the experiment has where it is not given."""
        self.config, self.spec, self.num_envs = config, given.spec, given.columns
        self.time_step = time_step(given.environment)
        self._reward_weights = {
            name: float(weight) for name, weight in getattr(given.environment, "reward_weights", {}).items()
        }
        self._given, self._width = given, width or given.experiment.environment.num_envs
        if (view_of := getattr(given.environment, "view_of", None)) is not None:
            self.view = self._view_of_first(view_of)
        given.environment.close()  # It was made for its Spec.
        self._codec = ChunkCodec(given.spec, self._width, [instantiate(one) for one in config.compressors])
        self._lanes = Lanes(given.columns, self._width)
        self._session: TrainerSession | None = None
        self._marks_at_start: dict[str, int] = {}
        self._saved_marks: deque[dict[str, int]] = deque(maxlen=KEPT_CHECKPOINTS)
        self._sent: tuple[ActorModule, int, bool] | None = None  # what was published: actor, updates, explores
        self._first_version = 0  # of the weights that the present policy was first published with
        self._orders = Order()
        self._dropped = self._unfit = 0
        self._changed_weights: dict[str, float] = {}
        self._waiting_since: float | None = None
        self._idle, self._idle_since = 0.0, time.monotonic()  # s of waiting, and since when they are counted
        self.steps_under_way = 0
        self._check_address()

    def _view_of_first(self, view_of: Callable[[Path], Any]) -> Any | None:
        """What viewers see of a worker's environment; None where it is on another machine."""
        return None

    def _check_address(self) -> None:
        """Say before anything is begun that there is no such invitation, or no relay on this machine."""
        self._dial()

    @property
    def session(self) -> TrainerSession:
        """The connection to the relay, made when it is first needed."""
        if self._session is None:
            self._session = self._open()
        return self._session

    def _open(self) -> TrainerSession:
        session = TrainerSession.open(
            self._given.run / JOURNAL,
            dial=self._dial(),
            hello=trainer_hello(self._given.run, self._given.experiment.name, self.spec),
            inbox_bytes=self.config.inbox_bytes(self.spec),
        )
        session.delivered(self._marks_at_start)
        return session

    def _dial(self) -> Dial:
        folder = self.config.relay_folder
        return dial_to(self.config.invitation, Path(folder).expanduser() if folder else None)

    @property
    def workers(self) -> list[WorkerState]:
        """Every worker that was seen since the start; none before the first collection."""
        records = [] if self._session is None else self._session.workers.values()
        states = [worker_state(record) for record in records if record.hello is not None]
        return sorted(states, key=lambda state: (not state.is_connected, state.name, state.host))

    @property
    def reward_weights(self) -> dict[str, float]:
        return {**self._reward_weights, **self._changed_weights}

    def set_reward_weight(self, name: str, weight: float) -> None:
        """Workers weigh a term anew with the next weights that they get."""
        if name not in self._reward_weights:
            raise InputError(f"the environment has no reward term '{name}'. It has: {', '.join(self._reward_weights)}.")
        self._changed_weights[name] = weight
        self._sent = None

    def collect(self, actor: ActorModule, sink: TransitionSink, steps: int) -> CollectResult:
        """Take what workers sent: at least `steps` decisions, unless nothing comes for a while; for a rollout exactly
        one of every lane."""
        arrivals, before = Arrivals(), time.monotonic()
        if getattr(sink, "is_on_policy", False):
            self._collect_rollout(actor, sink, -(-steps // self.num_envs), arrivals)
        else:
            self._collect_stream(actor, sink, steps, arrivals)
        self.steps_under_way = 0
        seconds = max(time.monotonic() - before, 1e-9)
        return CollectResult(
            arrivals.steps,
            arrivals.episodes,
            self._metrics(arrivals, seconds) if arrivals.steps else {},
            arrivals.observation(),
            {"env_frames": arrivals.env_frames},
        )

    def _collect_stream(self, actor: ActorModule, sink: TransitionSink, steps: int, arrivals: Arrivals) -> None:
        self._publish_if_due(actor, Order())
        while arrivals.steps < steps or steps == 0:
            taken = self._take(arrivals, PATIENCE if steps else 0.0)
            if taken is None:
                return
            self._count(arrivals, *taken)
            self._lanes.write(taken[0], sink)
            self.steps_under_way = arrivals.steps

    def _collect_rollout(self, actor: ActorModule, sink: TransitionSink, length: int, arrivals: Arrivals) -> None:
        self._publish_if_due(actor, Order(mode="rollouts", steps=length), every=1)
        while not self._lanes.is_complete:
            taken = self._take(arrivals, PATIENCE)
            if taken is None:
                self._ask_again()
                arrivals.steps = 0  # Part of a rollout is no step yet.
                return
            received, size = taken
            if received.version < self._first_version or chunks.length(received.chunk) != length:
                self._dropped += chunks.decisions(received.chunk)
                continue
            self._count(arrivals, received, size)
            self._lanes.hold(received)
            self._ask_again()
        joined = self._lanes.joined()
        for step in chunks.vector_steps(joined):
            sink.add(step)
        arrivals.steps = chunks.decisions(joined)

    def _count(self, arrivals: Arrivals, received: ReceivedChunk, size: int) -> None:
        """Note a chunk that is learned from."""
        arrivals.add(received, self._lag(received.version), size, self._name(received.worker))

    def _take(self, arrivals: Arrivals, timeout: float) -> tuple[ReceivedChunk, int] | None:
        """The next chunk that can be used, and its bytes; None when none comes within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            before = time.monotonic()
            stored = self._awaited(deadline)
            self._idle += time.monotonic() - before
            if stored is None:
                self._tell_waiting()
                return None
            self._waiting_since = None
            try:
                received = self._codec.unpack(stored)
            except UnfitChunk as error:
                self._unfit += stored.steps
                log.warning("worker '%s': %s It is left out.", self._name(stored.worker), error)
                continue
            return received, stored.size

    def _awaited(self, deadline: float) -> JournaledChunk | None:
        """The next chunk, if one comes before the deadline. Viewers are served meanwhile."""
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            after_step = self.after_step
            if after_step is None:
                return self.session.take(left)
            after_step()
            stored = self.session.take(min(left, LOOK_SECONDS))
            if stored is not None or left <= LOOK_SECONDS:
                return stored

    def _publish_if_due(self, actor: ActorModule, order: Order, every: int | None = None) -> None:
        """Send the policy to the workers if it is another one, or has learned for long enough."""
        config, updates = self.config, self._given.updates()
        order = Order(
            order.mode, order.steps, test_every=config.test_every, soft_lag=config.soft_lag, hard_lag=config.hard_lag
        )
        if self._sent is not None and order == self._orders:
            sent, when, explored = self._sent
            is_due = updates - when >= (every or config.publish_every)
            if sent is actor and explored == self.explores and not is_due:
                return
        self._sent, self._orders = (actor, updates, self.explores), order
        self._first_version = self._publish(actor)
        self._lanes.forget()

    def _publish(self, actor: ActorModule) -> int:
        header = PolicyHeader(
            controller=self._given.controllers.name_of(actor),
            environment=environment_values(self._given.experiment),
            explores=self.explores,
            reward_weights=self._changed_weights,
        )
        packed, body = pack(actor, header)
        return self.session.publish([body], header=packed, order=self._orders)

    def _ask_again(self) -> None:
        """Workers that delivered a rollout wait. Where all that are connected did and lanes are still empty, the same
        policy goes out once more under a new version."""
        connected = {worker for worker, record in self.session.workers.items() if record.is_connected}
        if connected and connected <= self._lanes.delivered and not self._lanes.is_complete:
            assert self._sent is not None
            self._publish(self._sent[0])
            self._lanes.delivered.clear()

    def _tell_waiting(self) -> None:
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        if now - self._waiting_since < TELL_SECONDS:
            return
        self._waiting_since = now
        status = self.session.status
        connected = sum(record.is_connected for record in self.session.workers.values())
        nothing = f"{connected} workers are connected and send nothing." if connected else "no worker is connected."
        reason = status.problem or ("" if status.link.is_connected else status.link.problem) or nothing
        log.warning("waiting for transitions: %s", reason)

    def _lag(self, version: int) -> int:
        """Published versions since the one that acted; the same policy under two versions is one."""
        if version >= self._first_version:
            return 0
        (newest, count), (incarnation, acted) = split_version(self.session.version), split_version(version)
        return max(count - acted, 0) if newest == incarnation else count

    def _name(self, worker: str) -> str:
        record = self.session.workers.get(worker)
        return record.hello.name if record is not None and record.hello is not None else worker

    def _metrics(self, arrivals: Arrivals, seconds: float) -> dict[str, float]:
        records = [record for record in self.session.workers.values() if record.is_connected]
        steps = max(arrivals.steps, 1)
        reported = {
            f"collect/workers/{record.hello.name}/{name}": float(record.numbers[name])
            for record in records
            if record.hello is not None
            for name in ("steps_per_second", "idle_share", "version_lag", "test_return")
            if isinstance(record.numbers.get(name), int | float)
        }
        tests = [value for name, value in reported.items() if name.endswith("/test_return")]
        return {
            **{name: total / weight for name, (total, weight) in arrivals.sums.items() if weight},
            **reported,
            **({"collect/test_return": float(np.mean(tests))} if tests else {}),
            "collect/steps_per_second": arrivals.steps / seconds,
            "collect/idle_share": self._idle_share(),
            "collect/workers_connected": float(len(records)),
            "collect/version_lag": sum(lag * count for lag, count in arrivals.lags) / steps,
            "collect/bytes_per_step": arrivals.bytes / steps,
            "collect/dropped_steps": float(self._dropped),
            "collect/unfit_steps": float(self._unfit),
        }

    def _idle_share(self) -> float:
        """Of the time since the last call, learning included: how much was waiting for workers."""
        now = time.monotonic()
        share = min(self._idle / max(now - self._idle_since, 1e-9), 1.0)
        self._idle, self._idle_since = 0.0, now
        return share

    def get_state(self) -> dict[str, Any]:
        """What the buffers hold of each worker. The journal before the oldest checkpoint that may be needed goes."""
        marks = self.session.marks if self._session is not None else dict(self._marks_at_start)
        if self._session is not None:
            if len(self._saved_marks) == self._saved_marks.maxlen:
                self._session.checkpointed(self._saved_marks[0])
            self._saved_marks.append(marks)
        return {
            "marks": marks,
            "explores": self.explores,
            "reward_weights": dict(self._changed_weights),
            "dropped": self._dropped,
        }

    def set_state(self, state: dict[str, Any], *, agent_steps: int) -> None:
        """Go on after the checkpoint: the journal holds what arrived since."""
        self._marks_at_start = {worker: int(sequence) for worker, sequence in state["marks"].items()}
        self.explores = state["explores"]
        self._changed_weights = dict(state["reward_weights"])
        self._dropped = state["dropped"]
        self._lanes.forget()
        if self._session is not None:
            self._session.delivered(self._marks_at_start)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


class WorkersExperience(RelayExperience):
    """The same with a relay and workers of this machine, which begin and end with the run."""

    config: WorkersConfig
    _children: LocalWorkers | None = None

    def _check_address(self) -> None:
        """The relay is started with the workers."""

    def _view_of_first(self, view_of: Callable[[Path], Any]) -> Any | None:
        return view_of(worker_folder(self._given.run, 1))

    def _dial(self) -> Dial:
        self._children = LocalWorkers(self._given.run, self.config)
        self._children.start()
        return self._children.dial

    def _take(self, arrivals: Arrivals, timeout: float) -> tuple[ReceivedChunk, int] | None:
        if self._children is not None:
            self._children.check()
        return super()._take(arrivals, timeout)

    def close(self) -> None:
        super().close()
        if self._children is not None:
            self._children.close()


def relay(config: RelayConfig, given: ExperienceParts) -> RelayExperience:
    """Experience of workers elsewhere."""
    return RelayExperience(config, given)


def workers(config: WorkersConfig, given: ExperienceParts) -> WorkersExperience:
    """Experience of workers that are started here."""
    return WorkersExperience(config, given)

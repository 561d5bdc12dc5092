"""The processes of a simulated schedule: workers and a trainer with the classes of the real ones, and the wires between
them and the relay. `relay_simulator` turns them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from simulated_disk import Crash, SimulatedDisk

from paddock.core.specs import ArraySpec, Spec
from paddock.distributed.chunk_files import OutgoingChunk
from paddock.distributed.delivery.exchange import Exchange
from paddock.distributed.delivery.inbox import Inbox
from paddock.distributed.delivery.outbox import Outbox
from paddock.distributed.delivery.versions import make_version
from paddock.distributed.endpoints import TrainerEndpoint, WorkerEndpoint
from paddock.distributed.journal import Journal
from paddock.distributed.spool import Spool
from paddock.distributed.wire.messages import Chunk, Held, Hello, Message, Order, Weights

if TYPE_CHECKING:
    from relay_simulator import World

SPEC = Spec(
    observation={"state": ArraySpec(shape=(1,), dtype="float32")}, action=ArraySpec(shape=(1,), dtype="float32")
)
ORDER = Order()
CHANNEL = 6  # messages on their way in one direction
LARGEST_CHUNK = 60  # bytes
RETRY_SECONDS = 5.0
PATIENCE = 500  # seconds without faults and without a chunk that arrives


def below(random: Random, limit: int) -> int:
    """A whole number from 0 on, quicker than `randrange`."""
    return int(random.random() * limit)


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class Machines:
    """The classes under test; a mutant replaces one of them."""

    outbox: type[Outbox] = Outbox
    inbox: type[Inbox] = Inbox
    exchange: type[Exchange] = Exchange
    spool: type[Spool] = Spool
    journal: type[Journal] = Journal
    worker: type[WorkerEndpoint] = WorkerEndpoint
    trainer: type[TrainerEndpoint] = TrainerEndpoint


@dataclass
class Chances:
    """Of each fault per turn; a schedule has some kinds only, so that one does not hide another."""

    kill: float = 0.0
    power_cut: float = 0.0
    fuse: float = 0.0  # die in the middle of one of the next disk operations
    cut: float = 0.0
    half_open: float = 0.0
    partition: float = 0.0
    full_disk: float = 0.0
    drop: float = 0.0  # these three per message
    duplicate: float = 0.0
    reorder: float = 0.0

    @classmethod
    def draw(cls, random: Random) -> Chances:
        most = {
            "kill": 0.1, "power_cut": 0.1, "fuse": 0.1, "cut": 0.1, "half_open": 0.05, "partition": 0.03,
            "full_disk": 0.05, "drop": 0.15, "duplicate": 0.3, "reorder": 0.6,
        }  # fmt: skip
        often = random.choice((0.1, 0.3, 1.0))  # Seldom faults let more come to pass between them.
        return cls(**{kind: most[kind] * often if random.random() < 0.5 else 0.0 for kind in most})


@dataclass
class Wire:
    """One connection. Each side learns by itself that it is gone."""

    number: int
    near_open: bool = True  # the worker's or trainer's side
    far_open: bool = True  # the relay's
    to_relay: list[tuple[Message, memoryview]] = field(default_factory=list)
    to_near: list[tuple[Message, memoryview]] = field(default_factory=list)


class Node:
    """A worker or a trainer: a disk that outlives its processes, an endpoint while one runs, a wire while connected."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.random = world.random
        self.disk = SimulatedDisk(world.random)
        self.endpoint: Any = None
        self.wire: Wire | None = None
        self.partitioned_until = 0.0

    def start(self) -> None:
        raise NotImplementedError

    def work(self) -> None:
        raise NotImplementedError

    def hello(self) -> Hello:
        raise NotImplementedError

    def before_send(self, message: Message, body: bytes) -> None:
        pass

    def turn(self) -> None:
        """What a process does in a while; it may die in it."""
        try:
            if self.endpoint is None and not self._starts():
                return
            self.connect()
            self.receive()
            self.work()
            self.send()
        except Crash:
            self.world.note(f"{self.name} dies in a disk operation")
            self.die(power_cut=self.random.random() < 0.5)

    def _starts(self) -> bool:
        try:
            self.start()
        except OSError:  # A full disk; a person starts it again.
            self.world.note(f"{self.name} cannot start")
        return self.endpoint is not None

    def die(self, *, power_cut: bool) -> None:
        self.endpoint = None
        self.disk.fuse = None
        self.drop_wire()
        if power_cut:
            self.disk.lose_power()

    def check_synced(self) -> None:
        """What a process finds when it starts is about to be relied on."""
        if self.disk.has_unsynced:
            raise Violation(f"{self.name} relies on files that a process before it did not sync")

    def drop_wire(self) -> None:
        if self.wire is not None:
            self.wire.near_open = False
            self.wire.to_near.clear()
            self.wire = None

    def connect(self) -> None:
        wire = self.wire
        if wire is not None and not wire.near_open:
            self.wire = None
            self.endpoint.disconnected()
        if self.wire is None and self.world.now >= self.partitioned_until:
            self.wire = self.world.dial(self)
            if self.wire is not None:
                self.endpoint.connected(self.world.now)

    def receive(self) -> None:
        for _ in range(self.world.some(5)):
            if self.wire is None or not self.wire.to_near:
                return
            message, body = self.world.pick(self.wire.to_near)
            self.endpoint.receive(message, body, self.world.now)

    def send(self) -> None:
        for _ in range(self.world.some(5)):
            if self.wire is None or len(self.wire.to_relay) >= CHANNEL:
                return
            outgoing = self.endpoint.next_outgoing(self.world.now)
            if outgoing is None:
                return
            body = b"".join(outgoing.body)
            self.before_send(outgoing.message, body)
            self.wire.to_relay.append((outgoing.message, memoryview(body)))


class WorkerNode(Node):
    """Makes chunks, whose bodies are unlike each other."""

    def __init__(self, world: World, index: int) -> None:
        super().__init__(world, f"worker {index}")
        self.id = f"{index:016x}"
        self.eagerness = 1 + below(world.random, 3)
        self.made = 0
        self.durable: dict[int, bytes] = {}  # by sequence: what the spool promised to keep
        self.sent: dict[int, bytes] = {}
        self.version = -1
        self._stored: list[bytes] = []

    def hello(self) -> Hello:
        return Hello(role="worker", name=self.name, id=self.endpoint.spool.worker, experiment="tiny", spec=SPEC)

    def start(self) -> None:
        world = self.world
        spool = world.machines.spool(
            self.disk, limit=world.spool_limit, segment_bytes=world.segment_bytes, new_id=lambda: self.id
        )
        self.check_synced()
        for kept in spool:
            body = bytes(spool.read(kept.sequence).body)
            if self.durable.setdefault(kept.sequence, body) != body:
                raise Violation(f"{self.name}: sequence {kept.sequence} was used twice")
        lost = [sequence for sequence in self.durable if sequence > spool.last_removed + len(spool)]
        if lost:
            raise Violation(f"{self.name}: the spool forgot chunk {lost[0]}, which was synced")
        outbox = world.machines.outbox(spool.last_removed, window=world.window, retry_seconds=RETRY_SECONDS)
        self.endpoint = world.machines.worker(spool, outbox, cache_bytes=world.cache_bytes)
        self.version, self._stored = -1, []

    def work(self) -> None:
        endpoint, random = self.endpoint, self.random
        if not self.world.is_healing:
            for _ in range(below(random, self.eagerness + 1)):
                self._make()
        if self._stored and (self.world.is_healing or random.random() < 0.7):
            endpoint.spool.sync()
            first = endpoint.outbox.newest + 1
            endpoint.stored()
            for offset, body in enumerate(self._stored):
                if self.durable.setdefault(first + offset, body) != body:
                    raise Violation(f"{self.name}: sequence {first + offset} was used twice")
            self._stored = []
        self._check()

    def _make(self) -> None:
        self.made += 1
        body = f"{self.name}:{self.made}:".encode().ljust(self.random.randrange(16, LARGEST_CHUNK), b".")
        if self.endpoint.store(OutgoingChunk(1, max(self.version, 0), b"", [body])):
            self._stored.append(body)

    def before_send(self, message: Message, body: bytes) -> None:
        if isinstance(message, Chunk):
            if self.sent.setdefault(message.sequence, body) != body:
                raise Violation(f"{self.name}: chunk {message.sequence} was sent with two contents")
            if message.sequence not in self.durable:
                raise Violation(f"{self.name}: chunk {message.sequence} was sent before it was synced")

    def _check(self) -> None:
        endpoint, world = self.endpoint, self.world
        weights = endpoint.weights
        if weights is not None and weights.version != self.version:
            if weights.version < self.version:
                raise Violation(f"{self.name}: weights {weights.version} came after {self.version}")
            if bytes(weights.body) != world.trainer.published[weights.version]:
                raise Violation(f"{self.name}: weights {weights.version} have other contents")
            self.version = weights.version
        most = max(world.window, LARGEST_CHUNK)
        if endpoint.outbox.in_flight_bytes > most:
            raise Violation(f"{self.name}: {endpoint.outbox.in_flight_bytes} bytes in flight, allowed {most}")
        if endpoint.spool.bytes > world.spool_limit + world.segment_bytes + LARGEST_CHUNK:
            raise Violation(f"{self.name}: {endpoint.spool.bytes} bytes spooled, allowed {world.spool_limit}")
        if endpoint.spool.file_bytes > world.most_spool_bytes:
            raise Violation(f"{self.name}: spool files of {endpoint.spool.file_bytes} bytes")

    def is_done(self, version: int) -> bool:
        return self.endpoint is not None and not len(self.endpoint.spool) and self.version == version


@dataclass
class Checkpoint:
    """A buffer, and how far each worker's chunks are in it."""

    counts: dict[str, int] = field(default_factory=dict)


class TrainerNode(Node):
    """Takes chunks into a buffer, which is checked as it grows and goes back to a checkpoint when the process dies."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "trainer")
        self.acknowledged: dict[str, int] = {}  # the most that was ever said to be held
        self.published: dict[int, bytes] = {}
        self.synced: dict[str, int] = {}
        self.newest = -1
        self.slowness = world.random.choice((0.0, 0.0, 0.5, 0.95))
        self.checkpoints = [Checkpoint()]
        self.buffer: dict[str, int] = {}  # the last sequence per worker
        self.count = 0

    def hello(self) -> Hello:
        incarnation = self.endpoint.journal.incarnation
        return Hello(
            role="trainer", name="t", id="f" * 16, run="run", incarnation=incarnation, experiment="tiny", spec=SPEC
        )

    def start(self) -> None:
        world = self.world
        journal = world.machines.journal(self.disk, segment_bytes=world.segment_bytes)
        self.check_synced()
        self.synced = dict(journal.held)
        for worker, sequence in self.acknowledged.items():
            if journal.held.get(worker, 0) < sequence:
                raise Violation(f"chunk {sequence} of {worker} was acknowledged and is not in the journal")
        inbox = world.machines.inbox(journal.held, limit=world.inbox_limit, window=world.window)
        endpoint = world.machines.trainer(journal, inbox, memory_bytes=world.inbox_limit)
        kept = self.random.choice(self.checkpoints) if self.random.random() < 0.3 else self.checkpoints[-1]
        del self.checkpoints[self.checkpoints.index(kept) + 1 :]
        self.buffer = dict(kept.counts)
        endpoint.delivered(kept.counts)
        self.endpoint, self.count = endpoint, 0

    def work(self) -> None:
        random, endpoint, is_healing = self.random, self.endpoint, self.world.is_healing
        if is_healing or random.random() < 0.7:
            endpoint.journal.sync()
            self.synced = dict(endpoint.journal.held)
            endpoint.committed()
        if is_healing or random.random() >= self.slowness:
            for _ in range(self.world.some(6)):
                if not self._take():
                    break
        if random.random() < 0.4 and not is_healing:
            self.publish()
        if random.random() < 0.2:
            self._checkpoint()
        self._check()

    def before_send(self, message: Message, body: bytes) -> None:
        if isinstance(message, Held):
            known = self.acknowledged.get(message.worker, 0)
            self.acknowledged[message.worker] = max(known, message.sequence)
            synced = self.synced.get(message.worker, 0)
            if message.sequence > synced:
                raise Violation(f"chunk {message.sequence} was acknowledged, the journal was synced with {synced}")

    def _take(self) -> bool:
        chunk = self.endpoint.take()
        if chunk is None:
            return False
        last = self.buffer.get(chunk.worker, 0)
        if chunk.sequence != last + 1:
            raise Violation(f"the buffer got chunk {chunk.sequence} of {chunk.worker} after chunk {last}")
        if bytes(chunk.body) != self.world.by_id[chunk.worker].sent[chunk.sequence]:
            raise Violation(f"chunk {chunk.sequence} of {chunk.worker} arrived with other contents")
        self.buffer[chunk.worker] = chunk.sequence
        if self.endpoint.marks != self.buffer:
            raise Violation("the marks are not what was taken")
        return True

    def publish(self) -> None:
        self.count += 1
        version = make_version(self.endpoint.journal.incarnation, self.count)
        if version <= self.newest:
            raise Violation(f"version {version} was published after {self.newest}")
        self.newest = version
        self.published[version] = f"weights {version}".encode()
        body = self.published[version]
        self.endpoint.publish(Weights(version, ORDER, len(body)), [body])

    def _checkpoint(self) -> None:
        self.checkpoints.append(Checkpoint(dict(self.buffer)))
        if len(self.checkpoints) > 2:
            del self.checkpoints[0]
        self.endpoint.journal.forget(self.checkpoints[0].counts)

    def _check(self) -> None:
        world, endpoint = self.world, self.endpoint
        if endpoint.memory_bytes > world.inbox_limit:
            raise Violation(f"the trainer keeps {endpoint.memory_bytes} bytes of chunks in memory")
        if endpoint.inbox.missing:
            raise Violation(f"the trainer gave up on chunks: {endpoint.inbox.missing}")

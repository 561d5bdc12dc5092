"""The relay: which message goes to which connection, what waits for each, and never more of it than a bound."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from paddock import __version__
from paddock.distributed.delivery.versions import Versions
from paddock.distributed.wire.messages import (
    Chunk,
    Grant,
    Held,
    Hello,
    Joined,
    Left,
    Message,
    Peer,
    Ping,
    Pong,
    Refusal,
    Report,
    Status,
    StatusReply,
    Waiting,
    Weights,
    Welcome,
    check_hello,
    mismatch,
)

EMPTY = memoryview(b"")
MOST_NOTICES = 8  # before a chunk or weights have their turn


class Body(Protocol):
    """Bytes that are passed on without a look inside, in whichever form the shell keeps them."""

    @property
    def nbytes(self) -> int: ...


class Outgoing(NamedTuple):
    """A message for one connection."""

    message: Message
    body: Body = EMPTY


@dataclass
class _Peer:
    """A connection that was welcomed. What waits is in slots that are overwritten; only chunks queue, bounded."""

    hello: Hello
    since: float
    notices: OrderedDict[str, Message] = field(default_factory=OrderedDict)  # by what they are about
    chunks: deque[Outgoing] = field(default_factory=deque)
    chunk_bytes: int = 0
    has_new_weights: bool = False
    notices_sent: int = 0  # since the last chunk or weights
    held: int = 0
    window: int = 0  # what the trainer granted this worker
    was_dropped: bool = False  # a chunk of this worker found no room
    numbers: dict[str, float | str] = field(default_factory=dict)


class Exchange:
    """Who is connected to the relay, and what goes to each.

    The shell numbers its connections and calls `connect` with a peer's Hello (send the answer; after a Refusal close),
    `receive` for every later message and `disconnect` when a connection is gone. Each of these may give other
    connections something to send: `awake` says which, `next(connection)` takes one message after the other until
    None. `closings` are connections to close, with the sentence to send before. Call all methods under one lock, and
    send outside of it.

    Chunks wait only for the trainer and only `chunk_bytes` of them; one without room is dropped, and its worker sends
    it again when there is room: chunks are acknowledged by the trainer alone. All else waits in slots: of weights,
    reports and acknowledgements only the newest is of use.
    """

    def __init__(self, *, chunk_bytes: int, started: float = 0.0) -> None:
        """chunk_bytes: of chunks on their way to the trainer; every worker gets an equal share of it as its window."""
        self._limit = chunk_bytes
        self._started = started
        self._peers: dict[int, _Peer] = {}
        self._workers: dict[str, int] = {}  # connection by worker id
        self._trainer: int | None = None
        self._weights: Outgoing | None = None
        self._versions = Versions()
        self._awake: set[int] = set()
        self._closings: list[tuple[int, str]] = []
        self.dropped_chunks = 0
        self.passed_chunks = 0
        self.passed_bytes = 0

    # ---- what the shell takes

    def awake(self) -> set[int]:
        """Connections that got something to send since the last call."""
        found, self._awake = self._awake, set()
        return found

    def closings(self) -> list[tuple[int, str]]:
        """Connections to close, and why; they no longer count as connected."""
        found, self._closings = self._closings, []
        return found

    def next(self, connection: int) -> Outgoing | None:
        """The next message for a connection, which is then no longer waiting; None when there is none."""
        peer = self._peers.get(connection)
        if peer is None:
            return None
        has_body = bool(peer.chunks) or peer.has_new_weights
        if peer.notices and not (peer.notices_sent >= MOST_NOTICES and has_body):
            peer.notices_sent += 1
            return Outgoing(peer.notices.popitem(last=False)[1])
        peer.notices_sent = 0
        if peer.has_new_weights and self._weights is not None:
            peer.has_new_weights = False
            return self._weights
        if peer.chunks:
            outgoing = peer.chunks.popleft()
            peer.chunk_bytes -= outgoing.body.nbytes
            if peer.chunk_bytes <= self._limit // 2:
                self._resume_dropped()
            return outgoing
        return None

    def waiting_chunk_bytes(self, connection: int) -> int:
        """Bytes of chunks that wait for a connection."""
        peer = self._peers.get(connection)
        return 0 if peer is None else peer.chunk_bytes

    def waiting_notices(self, connection: int) -> int:
        """Messages without a body that wait for a connection."""
        peer = self._peers.get(connection)
        return 0 if peer is None else len(peer.notices)

    def waiting_bytes(self, connection: int) -> int:
        """Bytes of chunks and weights that wait for a connection."""
        peer = self._peers.get(connection)
        if peer is None:
            return 0
        weights = self._weights.body.nbytes if self._weights and peer.has_new_weights else 0
        return peer.chunk_bytes + weights

    # ---- connections

    def connect(self, connection: int, hello: Hello, now: float) -> Welcome | Refusal:
        """A new connection introduced itself. The answer goes out before anything else."""
        reason = check_hello(hello) or self._objection(hello)
        if reason is not None:
            return Refusal(reason)
        self._peers[connection] = _Peer(hello, now)
        if hello.role == "worker":
            self._worker_connected(connection, hello)
        elif hello.role == "trainer":
            self._trainer_connected(connection, hello)
        return Welcome(name=hello.name, paddock=__version__, has_trainer=self._trainer is not None)

    def disconnect(self, connection: int, now: float) -> None:
        """A connection is gone; unknown ones are ignored."""
        peer = self._peers.pop(connection, None)
        if peer is None:
            return
        if connection == self._trainer:
            self._trainer = None
            for other in self._workers.values():
                self._grant(other, 0)
        elif self._workers.get(peer.hello.id) == connection:
            del self._workers[peer.hello.id]
            self._tell_trainer(f"presence {peer.hello.id}", Left(peer.hello.id, "the worker's connection ended."))
            self._share_windows()

    def receive(self, connection: int, message: Message, body: Body, now: float) -> None:
        """A message of a connection that was welcomed. What its role must not send closes it."""
        peer = self._peers.get(connection)
        if peer is None:
            return
        match message:
            case Ping(number):
                self._notify(connection, f"pong {number % 8}", Pong(number))
            case Status():
                self._notify(connection, "status", self.status(now))
            case Chunk() if self._workers.get(message.worker) == connection:
                self._pass_chunk(connection, peer, Outgoing(message, body))
            case Report() if self._workers.get(message.worker) == connection:
                peer.numbers = dict(message.numbers)
                self._tell_trainer(f"report {message.worker}", message)
            case Waiting() if self._workers.get(message.worker) == connection:
                self._tell_trainer(f"waiting {message.worker}", message)
            case Held() if connection == self._trainer:
                self._pass_held(message)
            case Grant() if connection == self._trainer:
                self._pass_grant(message)
            case Weights() if connection == self._trainer:
                self._take_weights(peer.hello.run, Outgoing(message, body))
            case Pong():
                pass
            case _:
                self._close(
                    connection, f"a {peer.hello.role} sent a {type(message).__name__} that it must not send.", now
                )

    def status(self, now: float) -> StatusReply:
        """Who is connected and what waits for them."""
        trainer = self._trainer
        weights = self._weights.message if self._weights else None
        return StatusReply(
            paddock=__version__,
            running_for=now - self._started,
            trainer=None if trainer is None else self._describe(trainer, now),
            workers=[self._describe(connection, now) for connection in self._workers.values()],
            version=weights.version if isinstance(weights, Weights) else None,
            weights_size=self._weights.body.nbytes if self._weights else 0,
            counters={
                "passed_chunks": self.passed_chunks,
                "passed_bytes": self.passed_bytes,
                "dropped_chunks": self.dropped_chunks,
            },
        )

    # ---- inside

    def _objection(self, hello: Hello) -> str | None:
        trainer = None if self._trainer is None else self._peers[self._trainer].hello
        if trainer is None:
            return None
        if hello.role == "worker":
            return mismatch(trainer, hello)
        if hello.role == "trainer" and (hello.run != trainer.run or hello.incarnation < trainer.incarnation):
            return (
                f"this relay already has the trainer '{trainer.name}' (run '{trainer.run}'). End that run, or start "
                "another relay for this one."
            )
        return None

    def _worker_connected(self, connection: int, hello: Hello) -> None:
        earlier = self._workers.get(hello.id)
        if earlier is not None:
            del self._peers[earlier]
            self._closings.append((earlier, "this worker opened a newer connection."))
        self._workers[hello.id] = connection
        if self._weights is not None:
            self._peers[connection].has_new_weights = True
            self._awake.add(connection)
        self._tell_trainer(f"presence {hello.id}", Joined(hello.id, hello))
        self._share_windows()

    def _trainer_connected(self, connection: int, hello: Hello) -> None:
        if self._trainer is not None:
            del self._peers[self._trainer]
            self._closings.append((self._trainer, "this run's trainer opened a newer connection."))
        self._trainer = connection
        if self._versions.run != hello.run:
            self._weights = None  # of another run
            self._versions = Versions()
        for worker, other in list(self._workers.items()):
            theirs = self._peers[other].hello
            reason = mismatch(hello, theirs)
            if reason is None:
                self._peers[other].was_dropped = False
                self._grant(other, 0)  # What an earlier trainer granted is void.
                self._tell_trainer(f"presence {worker}", Joined(worker, theirs))
            else:
                del self._workers[worker], self._peers[other]
                self._closings.append((other, reason))

    def _pass_chunk(self, connection: int, worker: _Peer, outgoing: Outgoing) -> None:
        trainer = None if self._trainer is None else self._peers[self._trainer]
        size = outgoing.body.nbytes
        if trainer is None or (trainer.chunks and trainer.chunk_bytes + size > self._limit):
            self.dropped_chunks += 1
            if trainer is not None and not worker.was_dropped:
                worker.was_dropped = True
                self._grant(connection, 0, remember=False)
            return
        trainer.chunks.append(outgoing)
        trainer.chunk_bytes += size
        self.passed_chunks += 1
        self.passed_bytes += size
        self._awake.add(self._trainer)  # type: ignore[arg-type]

    def _resume_dropped(self) -> None:
        """There is room again: workers whose chunks were dropped send them once more."""
        for worker, connection in self._workers.items():
            peer = self._peers[connection]
            if peer.was_dropped:
                peer.was_dropped = False
                self._notify_held(connection, Held(worker, peer.held, rewind=True))
                self._grant(connection, peer.window)

    def _pass_held(self, message: Held) -> None:
        connection = self._workers.get(message.worker)
        if connection is None:
            return
        peer = self._peers[connection]
        peer.held = max(peer.held, message.sequence)
        self._notify_held(connection, message)

    def _notify_held(self, connection: int, message: Held) -> None:
        waiting = self._peers[connection].notices.get("held")
        if isinstance(waiting, Held):  # One that was not sent yet: both in one.
            message = Held(
                message.worker, max(waiting.sequence, message.sequence), rewind=waiting.rewind or message.rewind
            )
        self._notify(connection, "held", message)

    def _pass_grant(self, message: Grant) -> None:
        named = self._workers if not message.worker else {message.worker}
        for worker in named:
            connection = self._workers.get(worker)
            if connection is not None:
                self._grant(connection, message.window)

    def _grant(self, connection: int, window: int, *, remember: bool = True) -> None:
        """Give a worker what the trainer granted, but no more than its share of the queue here."""
        peer = self._peers[connection]
        if remember:
            peer.window = window
        share = 0 if peer.was_dropped and window else min(window, self._limit // max(1, len(self._workers)))
        self._notify(connection, "grant", Grant(share, peer.hello.id))

    def _share_windows(self) -> None:
        """The number of workers changed, and with it each one's share."""
        for connection in self._workers.values():
            if self._peers[connection].window:
                self._grant(connection, self._peers[connection].window)

    def _take_weights(self, run: str, outgoing: Outgoing) -> None:
        assert isinstance(outgoing.message, Weights)
        message = replace(outgoing.message, run=run)
        if not self._versions.admit(run, message.version):
            return
        self._weights = Outgoing(message, outgoing.body)
        for connection in self._workers.values():
            self._peers[connection].has_new_weights = True
            self._awake.add(connection)

    def _tell_trainer(self, subject: str, message: Message) -> None:
        if self._trainer is not None:
            self._notify(self._trainer, subject, message)

    def _notify(self, connection: int, subject: str, message: Message) -> None:
        """Put a message into its slot. One that is overwritten keeps its place: others are not overtaken."""
        self._peers[connection].notices[subject] = message
        self._awake.add(connection)

    def _close(self, connection: int, reason: str, now: float) -> None:
        self.disconnect(connection, now)
        self._closings.append((connection, reason))

    def _describe(self, connection: int, now: float) -> Peer:
        peer = self._peers[connection]
        hello = peer.hello
        return Peer(
            role=hello.role,
            name=hello.name,
            id=hello.id,
            host=hello.host,
            experiment=hello.experiment,
            run=hello.run,
            connected_for=now - peer.since,
            held=peer.held,
            waiting_bytes=self.waiting_bytes(connection),
            numbers=peer.numbers,
        )

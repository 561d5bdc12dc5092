"""What a worker's loop and a training loop hold: chunks go in on one side and come out once on the other.

A session owns three threads: one dials, receives and dials again, one writes to the disk, one sends. `dial` is called
for every connection, so tests give one that makes links in memory:

    session = WorkerSession.open(folder, dial=lambda hello: link.dial(invitation, hello), hello=hello)
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from paddock.core.errors import InputError, PaddockError
from paddock.distributed.chunk_files import OutgoingChunk, StoredChunk
from paddock.distributed.connection import TICK_SECONDS, Connection, Dial, LinkStatus
from paddock.distributed.delivery.versions import make_version
from paddock.distributed.disk import Buffer
from paddock.distributed.endpoints import NewWeights, TrainerEndpoint, WorkerEndpoint, WorkerRecord
from paddock.distributed.journal import Journal
from paddock.distributed.spool import Spool
from paddock.distributed.wire.link import Received
from paddock.distributed.wire.messages import LARGEST_CHUNK, Chunk, Hello, Order, Report, Weights, chunk_limit

log = logging.getLogger(__name__)

JournaledChunk = StoredChunk

SPOOL_BYTES = 2**30
WINDOW_BYTES = 8 * 2**20
INBOX_BYTES = 64 * 2**20
BATCH_BYTES = 32 * 2**20  # of chunks that share one sync


@dataclass(frozen=True)
class WorkerStatus:
    """A worker's side of delivery. Sizes in bytes; waiting: chunks that the trainer does not have yet.

    pause: a sentence while chunks find no room and collecting has to wait, else empty.
    """

    link: LinkStatus
    has_credit: bool
    newest: int
    acknowledged: int
    waiting_chunks: int
    waiting_bytes: int
    in_flight_bytes: int
    sent_again: int
    pause: str


@dataclass(frozen=True)
class TrainerStatus:
    """A trainer's side of delivery. Sizes in bytes; waiting: journaled, not taken. problem: of the disk, or empty."""

    link: LinkStatus
    incarnation: int
    held: dict[str, int]
    waiting_chunks: int
    waiting_bytes: int
    journal_bytes: int
    duplicates: int
    gaps: int
    missing: dict[str, int]
    problem: str


class WorkerSession:
    """A worker's connection: `offer` chunks, read `weights`.

    Chunks survive a crash of this process once they are in the spool, and are sent again until the trainer has them in
    its journal; neither a broken connection nor a restart of the relay or the trainer loses one. All methods may be
    called from any thread; only `offer` with a timeout and `close` wait.

        session = WorkerSession.open(folder, dial=..., hello=Hello(role="worker", name="pc", id="0" * 16, ...))
        while not session.offer(chunk, timeout=1.0):
            print(session.status.pause)            # the spool is full: wait, do not collect
        new = session.weights                      # NewWeights(version, order, header, body) or None; never blocks
        session.report({"steps_per_second": 20.0})
        session.close(drain_seconds=5.0)

    The id in `hello` is replaced by the spool's (`session.id`), which outlives restarts.
    """

    def __init__(self, spool: Spool, *, dial: Dial, hello: Hello, window: int = WINDOW_BYTES) -> None:
        self._endpoint = WorkerEndpoint.open(spool, window=window)
        self._connection = Connection(
            self._endpoint,
            dial=dial,
            hello=msgspec.structs.replace(hello, id=spool.worker),
            write=self._write_always,
            failed=self._wake_all,
        )
        self._spec = hello.spec
        self._offers: deque[OutgoingChunk] = deque()
        self._offered_bytes = 0
        self._offers_limit = window
        self._offers_changed = threading.Condition()
        self._is_full = False
        self._is_closed = False
        self._connection.start()

    @classmethod
    def open(
        cls, folder: Path, *, dial: Dial, hello: Hello, spool_bytes: int = SPOOL_BYTES, window: int = WINDOW_BYTES
    ) -> WorkerSession:
        """A session with the spool in `folder`. spool_bytes: of chunks on disk; window: most bytes in flight."""
        return cls(Spool.open(folder, limit=spool_bytes), dial=dial, hello=hello, window=window)

    @property
    def id(self) -> str:
        """The worker's durable id, 16 hex digits."""
        return self._endpoint.spool.worker

    def offer(self, chunk: OutgoingChunk, timeout: float | None = 0.0) -> bool:
        """Hand a chunk over; False if there is no room within `timeout` seconds (None: wait for ever).

        It returns before the chunk is on the disk, so that a control loop does not wait for one.
        """
        size = chunk.size
        self._check_size(chunk)
        with self._offers_changed:
            self._offers_changed.wait_for(lambda: self._has_room(size) or not self._is_running, timeout)
            self._check()
            if not self._has_room(size):
                return False
            self._offers.append(chunk)
            self._offered_bytes += size
            self._offers_changed.notify_all()
        return True

    @property
    def weights(self) -> NewWeights | None:
        """The newest weights; None before the first. Versions only grow."""
        return self._endpoint.weights

    @property
    def orders(self) -> Order | None:
        """What the trainer wants workers to do; None before the first weights."""
        weights = self._endpoint.weights
        return None if weights is None else weights.order

    def report(self, numbers: Mapping[str, float | str]) -> None:
        """Send statistics to the trainer; only the newest are kept while there is no connection."""
        with self._connection.changed:
            self._connection.notices["report"] = Report(self.id, dict(numbers))
            self._connection.changed.notify_all()

    @property
    def status(self) -> WorkerStatus:
        """Where chunks are at present. Takes no lock: a control loop may ask in every step."""
        outbox, spool = self._endpoint.outbox, self._endpoint.spool
        return WorkerStatus(
            link=self._connection.status,
            has_credit=outbox.has_credit,
            newest=outbox.newest,
            acknowledged=outbox.acknowledged,
            waiting_chunks=len(spool) + len(self._offers),
            waiting_bytes=spool.bytes + self._offered_bytes,
            in_flight_bytes=outbox.in_flight_bytes,
            sent_again=outbox.sent_again,
            pause=self._pause(),
        )

    def close(self, drain_seconds: float = 0.0) -> None:
        """Write what was offered to the spool, wait up to `drain_seconds` until the trainer has it all, and end.

        What the trainer does not have by then stays in the spool, for the next session.
        """
        deadline = time.monotonic() + drain_seconds
        while time.monotonic() < deadline and self._is_running and self.status.waiting_chunks:
            time.sleep(0.02)
        self._is_closed = True
        self._wake_all()
        self._connection.join_writer()
        self._connection.close()
        self._endpoint.spool.close()

    def _wake_all(self) -> None:
        with self._offers_changed:
            self._offers_changed.notify_all()

    @property
    def _is_running(self) -> bool:
        return not self._is_closed and not self._connection.is_stopped

    def _check(self) -> None:
        if self._connection.failure is not None:
            raise self._connection.failure
        if self._is_closed:
            raise PaddockError("this worker's session is closed; open another one.")

    def _check_size(self, chunk: OutgoingChunk) -> None:
        """A chunk that no relay lets through must not get into the spool, where it would be in the way for ever."""
        most = LARGEST_CHUNK if self._spec is None else min(LARGEST_CHUNK, chunk_limit(self._spec, chunk.steps))
        if chunk.size > most:
            raise InputError(
                f"a chunk of {chunk.steps} transitions has {chunk.size:,} bytes; the relay lets {most:,} through for "
                "so many. Send fewer transitions in a chunk."
            )

    def _has_room(self, size: int) -> bool:
        if self._is_full:
            return False
        return not self._offers or self._offered_bytes + size <= self._offers_limit

    def _pause(self) -> str:
        if not self._is_full:
            return ""
        where = f"'{self._endpoint.spool.name}'"
        if self._endpoint.has_full_disk:
            return f"the disk of the spool {where} is full; make room, collecting goes on by itself."
        waiting = f"{self._endpoint.spool.bytes / 2**20:,.0f} MiB"
        return f"the spool {where} is full: {waiting} wait for the trainer; collecting goes on when it takes them."

    def _write_always(self) -> None:
        while True:
            with self._offers_changed:
                self._offers_changed.wait_for(lambda: self._offers or not self._is_running, TICK_SECONDS)
                if not self._offers and not self._is_running:
                    return
                batch = list(self._offers)
            stored = self._store(batch)
            with self._offers_changed:
                for _ in range(stored):
                    self._offered_bytes -= self._offers.popleft().size
                self._is_full = stored < len(batch)
                self._offers_changed.notify_all()
            if self._is_full and not self._is_running:
                log.warning("%d chunks found no room in the spool and are lost", len(batch) - stored)
                return
            if self._is_full:
                with self._connection.changed:
                    self._connection.changed.wait(TICK_SECONDS)  # Until an acknowledgement makes room.

    def _store(self, batch: Sequence[OutgoingChunk]) -> int:
        """Write as many as there is room for, with one sync; returns how many."""
        stored = 0
        with self._connection.lock:
            while stored < len(batch) and self._endpoint.store(batch[stored]):
                stored += 1
        if stored:
            self._endpoint.spool.sync()
            with self._connection.changed:
                self._endpoint.stored()
                self._connection.changed.notify_all()
        return stored


class _Arrival(NamedTuple):
    """A message, when it came, and over which connection."""

    received: Received
    now: float
    connection: int


class TrainerSession:
    """A trainer's connection: `take` chunks, `publish` weights.

    `take` returns every chunk once, in the order of the journal, which is also the order after a restart. Store `marks`
    in each checkpoint; after a restart give them to `delivered`, and `take` goes on right behind the checkpoint. When a
    checkpoint is durable, call `checkpointed` with the marks of the oldest one that is kept.

        session = TrainerSession.open(folder, dial=..., hello=Hello(role="trainer", run=..., ...))
        session.delivered(checkpoint_marks)        # only after a resume, before the first take
        session.publish(body, header=header, order=Order())
        chunk = session.take(timeout=1.0)          # StoredChunk(worker, sequence, steps, version, header, body) or None
        checkpoint["marks"] = session.marks
        session.checkpointed(oldest_marks)

    The incarnation in `hello` is replaced by the journal's. `take`, `marks` and `delivered` belong to one thread; all
    other methods may be called from any.
    """

    def __init__(
        self, journal: Journal, *, dial: Dial, hello: Hello, inbox_bytes: int = INBOX_BYTES, window: int = WINDOW_BYTES
    ) -> None:
        """inbox_bytes: journaled and not yet taken, above which workers get no credit. window: in flight per worker."""
        self._endpoint = TrainerEndpoint.open(journal, limit=inbox_bytes, window=window)
        self._connection = Connection(
            self._endpoint,
            dial=dial,
            hello=msgspec.structs.replace(hello, incarnation=journal.incarnation),
            write=self._write_always,
            receive=self._receive,
            failed=self._wake_all,
        )
        self._published = 0
        self._arrivals: deque[_Arrival] = deque()
        self._arrived_bytes = 0
        self._arrivals_changed = threading.Condition()
        self._ready = threading.Condition()
        self._is_closed = False
        self._connection.start()

    @classmethod
    def open(
        cls, folder: Path, *, dial: Dial, hello: Hello, inbox_bytes: int = INBOX_BYTES, window: int = WINDOW_BYTES
    ) -> TrainerSession:
        """A session with the journal in `folder`; see the constructor for the sizes."""
        return cls(Journal.open(folder), dial=dial, hello=hello, inbox_bytes=inbox_bytes, window=window)

    @property
    def incarnation(self) -> int:
        """How often this run's journal was opened, this time included."""
        return self._endpoint.journal.incarnation

    @property
    def version(self) -> int:
        """Of the newest published weights; 0 before the first."""
        return make_version(self.incarnation, self._published) if self._published else 0

    def take(self, timeout: float | None = 0.0) -> JournaledChunk | None:
        """The next chunk; None if none arrives within `timeout` seconds (None: wait for ever)."""
        with self._ready:
            self._ready.wait_for(lambda: self._endpoint.waiting or not self._is_running, timeout)
        self._check()
        was_closed = self._endpoint.inbox.is_closed
        chunk = self._endpoint.take()
        if was_closed and chunk is not None:
            with self._connection.changed:
                self._connection.changed.notify_all()  # There may be credit again.
        return chunk

    @property
    def marks(self) -> dict[str, int]:
        """The last sequence per worker that `take` returned: what a checkpoint stores."""
        return dict(self._endpoint.marks)

    def delivered(self, marks: Mapping[str, int]) -> None:
        """The buffer already holds everything up to these marks: `take` goes on after them."""
        with self._connection.lock:
            self._endpoint.delivered(marks)
        with self._ready:
            self._ready.notify_all()

    def checkpointed(self, marks: Mapping[str, int]) -> None:
        """Every kept checkpoint holds what is at or before these marks: the journal need not keep it."""
        with self._connection.lock:
            self._endpoint.journal.forget(marks)

    def publish(self, body: Sequence[Buffer], *, header: bytes = b"", order: Order | None = None) -> int:
        """Send new weights to all workers and return their version. Does not wait; newer ones replace unsent ones.

        The pieces of the body must not be changed afterwards.
        """
        with self._connection.changed:
            self._published += 1
            size = sum(memoryview(piece).nbytes for piece in body)
            self._endpoint.publish(Weights(self.version, order or Order(), size, header), body)
            self._connection.changed.notify_all()
            return self.version

    @property
    def workers(self) -> dict[str, WorkerRecord]:
        """Every worker that was seen since the start, by id."""
        with self._connection.lock:
            return {worker: replace(record) for worker, record in self._endpoint.workers.items()}

    @property
    def status(self) -> TrainerStatus:
        """Where chunks are at present."""
        with self._connection.lock:
            endpoint, inbox = self._endpoint, self._endpoint.inbox
            return TrainerStatus(
                link=self._connection.status,
                incarnation=self.incarnation,
                held=inbox.held,
                waiting_chunks=endpoint.waiting,
                waiting_bytes=inbox.queued_bytes,
                journal_bytes=endpoint.journal.file_bytes,
                duplicates=inbox.duplicates,
                gaps=inbox.gaps,
                missing=dict(inbox.missing),
                problem=self._problem(),
            )

    def close(self) -> None:
        """End the session. What was journaled and not taken is there after the next opening."""
        self._is_closed = True
        self._wake_all()
        self._connection.close()
        self._connection.join_writer()
        self._endpoint.journal.close()

    def _wake_all(self) -> None:
        for changed in (self._arrivals_changed, self._ready):
            with changed:
                changed.notify_all()

    @property
    def _is_running(self) -> bool:
        return not self._is_closed and not self._connection.is_stopped

    def _check(self) -> None:
        if self._connection.failure is not None:
            raise self._connection.failure
        if self._is_closed:
            raise PaddockError("this trainer's session is closed; open another one.")

    def _problem(self) -> str:
        if self._endpoint.disk_is_full_since is None:
            return ""
        return f"the disk of the journal '{self._endpoint.journal.name}' is full; make room, workers keep their chunks."

    def _receive(self, received: Received, now: float) -> None:
        """Hand a message to the writing thread; waits while that is behind, which holds up the relay."""
        size = received.body.nbytes
        with self._arrivals_changed:
            self._arrivals_changed.wait_for(lambda: self._arrived_bytes <= BATCH_BYTES or not self._is_running)
            self._arrivals.append(_Arrival(received, now, self._connection.status.connections))
            self._arrived_bytes += size
            self._arrivals_changed.notify_all()

    def _write_always(self) -> None:
        while self._is_running:
            with self._arrivals_changed:
                self._arrivals_changed.wait_for(lambda: self._arrivals or not self._is_running, TICK_SECONDS)
                batch, self._arrivals = self._arrivals, deque()
                self._arrived_bytes = 0
                self._arrivals_changed.notify_all()
            if batch:
                self._journal(batch)

    def _journal(self, batch: deque[_Arrival]) -> None:
        """Write what arrived and acknowledge it all with one sync."""
        with self._connection.lock:
            status = self._connection.status
            for received, now, connection in batch:
                # Of an earlier connection only chunks count: who is there was announced anew.
                is_current = status.is_connected and connection == status.connections
                if is_current or isinstance(received.message, Chunk):
                    self._endpoint.receive(received.message, received.body, now)
        if any(isinstance(arrival.received.message, Chunk) for arrival in batch):
            self._endpoint.journal.sync()
        with self._connection.changed:
            self._endpoint.committed()
            self._connection.changed.notify_all()
        with self._ready:
            self._ready.notify_all()

"""Worker's and trainer's side of delivery with their files, without threads, sockets and clocks.

`sessions` drives them over a Link, the simulator of the tests over a simulated network and disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from paddock.core.errors import PaddockError
from paddock.distributed.chunk_files import OutgoingChunk, StoredChunk
from paddock.distributed.delivery.inbox import Inbox, Verdict
from paddock.distributed.delivery.outbox import Outbox, SequenceAhead
from paddock.distributed.delivery.versions import Versions
from paddock.distributed.disk import FULL, Buffer
from paddock.distributed.journal import Journal, JournalEntry
from paddock.distributed.spool import Spool
from paddock.distributed.wire.messages import (
    Chunk,
    Grant,
    Held,
    Hello,
    Joined,
    Left,
    Message,
    Order,
    Report,
    Waiting,
    Weights,
)

log = logging.getLogger(__name__)

DISK_RETRY_SECONDS = 1.0


class Outgoing(NamedTuple):
    """A message to send, and its body in pieces."""

    message: Message
    body: Sequence[Buffer] = ()


class NewWeights(NamedTuple):
    """A policy that arrived at a worker. header, body: as the trainer published them."""

    version: int
    order: Order
    header: bytes
    body: memoryview


class WorkerEndpoint:
    """A worker's spool and outbox, and the newest weights."""

    def __init__(self, spool: Spool, outbox: Outbox, *, cache_bytes: int) -> None:
        """cache_bytes: of chunks that stay in memory so that sending does not read them from the disk."""
        self.spool, self.outbox = spool, outbox
        self.weights: NewWeights | None = None
        self.has_full_disk = False
        self._versions = Versions()
        self._cache: dict[int, OutgoingChunk] = {}
        self._cache_bytes, self._cached = cache_bytes, 0
        self._unsynced: list[tuple[int, int]] = []
        for chunk in spool:
            outbox.spooled(chunk.sequence, chunk.size)

    @classmethod
    def open(cls, spool: Spool, *, window: int) -> WorkerEndpoint:
        """With an outbox that goes on where the spool ended. window: most bytes in flight."""
        return cls(spool, Outbox(spool.last_removed, window=window), cache_bytes=window)

    def connected(self, now: float) -> None:
        """A new connection to the relay: send again what is not acknowledged, once there is credit."""
        self.outbox.connected(now)

    def disconnected(self) -> None:
        """The relay is gone."""
        self.outbox.disconnected()

    def store(self, chunk: OutgoingChunk) -> bool:
        """Write a chunk to the spool; False while that is full, or the disk is."""
        if not self.spool.has_room(chunk.size):
            return False
        try:
            spooled = self.spool.append(chunk)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.has_full_disk = True
            return False
        self.has_full_disk = False
        self._unsynced.append((spooled.sequence, spooled.size))
        if self._cached + chunk.size <= self._cache_bytes:
            self._cache[spooled.sequence] = chunk
            self._cached += chunk.size
        return True

    def stored(self) -> None:
        """`spool.sync` returned: what was stored before it may be sent."""
        for sequence, size in self._unsynced:
            self.outbox.spooled(sequence, size)
        self._unsynced.clear()

    def receive(self, message: Message, body: memoryview, now: float) -> None:
        """A message from the relay."""
        match message:
            case Held():
                self._held(message, now)
            case Grant():
                self.outbox.granted(message.window, now)
            case Weights() if self._versions.admit(message.run, message.version):
                self.weights = NewWeights(message.version, message.order, message.header, body)
            case _:
                pass

    def next_outgoing(self, now: float) -> Outgoing | None:
        """The next message to send; None while there is none or no room on the way."""
        sequence = self.outbox.next(now)
        if sequence is None:
            return Outgoing(Waiting(self.spool.worker)) if self.outbox.asks(now) else None
        oldest = self.outbox.oldest
        cached = self._cache.get(sequence)
        if cached is not None:
            message = Chunk(self.spool.worker, sequence, cached.steps, cached.version, cached.header, oldest)
            return Outgoing(message, cached.body)
        chunk = self.spool.read(sequence)
        message = Chunk(chunk.worker, sequence, chunk.steps, chunk.version, chunk.header, oldest)
        return Outgoing(message, (chunk.body,))

    def _held(self, message: Held, now: float) -> None:
        if message.worker != self.spool.worker:
            return
        before = self.outbox.acknowledged
        try:
            through = self.outbox.held(message.sequence, rewind=message.rewind, now=now)
        except SequenceAhead as error:
            raise PaddockError(
                f"{error}: its spool was restored from a copy, or is used twice. Start the worker with a new spool."
            ) from error
        for sequence in range(before + 1, through + 1):
            cached = self._cache.pop(sequence, None)
            if cached is not None:
                self._cached -= cached.size
        if through > before:
            self.spool.remove(through)


@dataclass
class WorkerRecord:
    """A worker as the trainer knows it. numbers: of its last report."""

    hello: Hello | None = None
    is_connected: bool = False
    chunks: int = 0
    steps: int = 0
    bytes: int = 0
    version: int = 0
    numbers: dict[str, float | str] = field(default_factory=dict)


class TrainerEndpoint:
    """A trainer's journal and inbox, the chunks that wait for the training loop, and the newest weights."""

    def __init__(self, journal: Journal, inbox: Inbox, *, memory_bytes: int) -> None:
        """memory_bytes: of waiting chunks that stay in memory; others are read from the journal when they are taken."""
        self.journal, self.inbox = journal, inbox
        self.workers: dict[str, WorkerRecord] = {}
        self.marks: dict[str, int] = {}  # the last sequence per worker that `take` returned
        self.disk_is_full_since: float | None = None
        self._memory_bytes = memory_bytes
        self._unsynced: list[tuple[JournalEntry, StoredChunk]] = []
        self._waiting: deque[tuple[JournalEntry, StoredChunk | None]] = deque()
        self._retry_disk_at = 0.0
        self._weights: Outgoing | None = None
        self._has_new_weights = False
        self._has_answered = False  # since the last weights
        self._answers: deque[Message] = deque()
        self.delivered({})

    @classmethod
    def open(cls, journal: Journal, *, limit: int, window: int) -> TrainerEndpoint:
        """With an inbox that goes on where the journal ended. limit: bytes that wait; window: in flight per worker."""
        return cls(journal, Inbox(journal.held, limit=limit, window=window), memory_bytes=limit)

    def delivered(self, marks: Mapping[str, int]) -> None:
        """The buffer holds everything up to these marks: `take` goes on after them."""
        self.inbox.taken(sum(entry.size for entry, _ in self._waiting))
        self._waiting.clear()
        self.marks = dict(marks)
        self.journal.covered(marks)
        self.inbox.covered(marks)
        unsynced = {(entry.worker, entry.sequence) for entry, _ in self._unsynced}
        for entry in self.journal.entries(marks):
            if (entry.worker, entry.sequence) not in unsynced:
                self._waiting.append((entry, None))
                self.inbox.queued(entry.size)

    def connected(self, now: float) -> None:
        """A new connection to the relay: send it the newest weights; it names the workers by itself."""
        self._has_new_weights = self._weights is not None
        self._answers.clear()

    def disconnected(self) -> None:
        """The relay is gone."""
        self.inbox.disconnected()
        for record in self.workers.values():
            record.is_connected = False

    def receive(self, message: Message, body: memoryview, now: float) -> None:
        """A message from the relay. A chunk is written to the journal, and not yet acknowledged."""
        match message:
            case Chunk():
                self._receive_chunk(message, body, now)
            case Joined():
                self.inbox.joined(message.worker)
                record = self.workers.setdefault(message.worker, WorkerRecord())
                record.hello, record.is_connected = message.hello, True
            case Waiting():
                self.inbox.asked(message.worker)
            case Left():
                self.inbox.left(message.worker)
                if message.worker in self.workers:
                    self.workers[message.worker].is_connected = False
            case Report():
                self.workers.setdefault(message.worker, WorkerRecord()).numbers = dict(message.numbers)
            case _:
                pass

    def committed(self) -> None:
        """`journal.sync` returned: what was received before it is acknowledged and handed on."""
        self.inbox.synced()
        for entry, chunk in self._unsynced:
            if entry.sequence <= self.marks.get(entry.worker, 0):
                continue  # It came before `delivered` said that the buffer holds it.
            is_kept = self.inbox.queued_bytes + entry.size <= self._memory_bytes
            self.inbox.queued(entry.size)
            self._waiting.append((entry, chunk if is_kept else None))
        self._unsynced.clear()

    def publish(self, weights: Weights, body: Sequence[Buffer]) -> None:
        """Send these weights next; ones that were not sent yet are skipped."""
        self._weights, self._has_new_weights = Outgoing(weights, body), True

    def next_outgoing(self, now: float) -> Outgoing | None:
        """The next message to send: a round of acknowledgements and credit, then weights, so that neither starves."""
        if not self._answers and not (self._has_new_weights and self._has_answered):
            self._has_answered = True
            for answer in self.inbox.answers(now, paused=self._is_paused(now)):
                self._answers.append(Held(answer.worker, answer.sequence, answer.rewind))
                self._answers.append(Grant(answer.window, answer.worker))
        if self._answers:
            return Outgoing(self._answers.popleft())
        if self._has_new_weights:
            self._has_new_weights = self._has_answered = False
            return self._weights
        return None

    @property
    def waiting(self) -> int:
        """Chunks that `take` would return one after the other."""
        return len(self._waiting)

    @property
    def memory_bytes(self) -> int:
        """Bytes of waiting chunks that are kept in memory."""
        return sum(entry.size for entry, chunk in self._waiting if chunk is not None)

    def take(self) -> StoredChunk | None:
        """The next chunk in the order of arrival, each once; None when none waits."""
        try:
            entry, chunk = self._waiting.popleft()
        except IndexError:
            return None
        if chunk is None:
            chunk = self.journal.read(entry)
        self.marks[entry.worker] = entry.sequence
        self.inbox.taken(entry.size)
        return chunk

    def _is_paused(self, now: float) -> bool:
        return self.disk_is_full_since is not None and now < self._retry_disk_at

    def _receive_chunk(self, message: Chunk, body: memoryview, now: float) -> None:
        if self.inbox.arrived(message.worker, message.sequence, message.oldest) is not Verdict.JOURNAL:
            return
        chunk = StoredChunk(message.worker, message.sequence, message.steps, message.version, message.header, body)
        try:
            entry = self.journal.append(chunk)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.disk_is_full_since = self.disk_is_full_since or now
            self._retry_disk_at = now + DISK_RETRY_SECONDS
            self.inbox.failed(message.worker)
            return
        self.disk_is_full_since = None
        missing = self.inbox.journaled(message.worker, message.sequence)
        if missing:
            log.warning(
                "%d chunks of worker %s before its chunk %d are lost", missing, message.worker, message.sequence
            )
        self._unsynced.append((entry, chunk))
        record = self.workers.setdefault(message.worker, WorkerRecord())
        record.chunks, record.steps = record.chunks + 1, record.steps + message.steps
        record.bytes, record.version = record.bytes + chunk.size, message.version

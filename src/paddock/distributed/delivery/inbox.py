"""The trainer's side: which chunks to journal, what to acknowledge, how much each worker may send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

ANNOUNCE_SECONDS = 1.0


class Verdict(Enum):
    """What to do with a chunk that arrived."""

    JOURNAL = "journal"
    DUPLICATE = "duplicate"
    GAP = "gap"


class Answer(NamedTuple):
    """For one worker: everything up to `sequence` is durable here, `window` bytes may be under way; see Outbox.held."""

    worker: str
    sequence: int
    window: int
    rewind: bool


@dataclass
class _Stream:
    """One worker's chunks."""

    journaled: int = 0  # perhaps not synced
    durable: int = 0
    is_connected: bool = False
    rewind: bool = False
    gap_at: int = -1  # the gap that was already answered
    announced: Answer | None = None
    announced_at: float = float("-inf")


class Inbox:
    """Chunks of all workers between their arrival and the training loop.

    `arrived` judges a chunk. After `JOURNAL` the caller appends it to the journal and says `journaled`, or `failed` if
    that did not work; `synced` says that all journaled ones are durable. `answers` gives what to tell workers: only
    what is durable is acknowledged. `queued` and `taken` count bytes that wait for the training loop; above `limit` no
    worker gets credit until half of it is free again. `taken` may be called from another thread than the rest.
    """

    def __init__(self, held: Mapping[str, int] | None = None, *, limit: int, window: int) -> None:
        """held: the highest sequence per worker in the journal. limit: bytes. window: bytes in flight per worker."""
        self._streams = {worker: _Stream(sequence, sequence) for worker, sequence in (held or {}).items()}
        self._limit, self._window = limit, window
        self.is_closed = False  # no worker has credit because too much waits
        self._queued = self._taken = 0  # two counters, each written by one thread
        self.duplicates = 0
        self.gaps = 0
        self.missing: dict[str, int] = {}  # chunks per worker that exist nowhere any more

    @property
    def held(self) -> dict[str, int]:
        """The highest durable sequence per worker."""
        return {worker: stream.durable for worker, stream in self._streams.items()}

    def covered(self, marks: Mapping[str, int]) -> None:
        """A checkpoint holds everything up to these marks, whether the journal still does or not."""
        for worker, sequence in marks.items():
            stream = self._streams.setdefault(worker, _Stream())
            stream.journaled, stream.durable = max(stream.journaled, sequence), max(stream.durable, sequence)

    def joined(self, worker: str) -> None:
        """A worker is connected, or the connection to the relay is new: it has to hear where to begin."""
        stream = self._streams.setdefault(worker, _Stream())
        stream.is_connected, stream.rewind = True, True
        stream.announced, stream.gap_at = None, -1

    def asked(self, worker: str) -> None:
        """A worker has chunks and no credit: answer it, also if its coming was missed."""
        stream = self._streams.get(worker)
        if stream is None or not stream.is_connected:
            self.joined(worker)
        else:
            stream.announced = None

    def left(self, worker: str) -> None:
        """A worker is no longer connected."""
        if worker in self._streams:
            self._streams[worker].is_connected = False

    def disconnected(self) -> None:
        """The relay is gone, and every worker with it."""
        for stream in self._streams.values():
            stream.is_connected = False

    def arrived(self, worker: str, sequence: int, oldest: int) -> Verdict:
        """Judge a chunk. oldest: the lowest sequence that the worker still has, so that lost ones are not awaited."""
        stream = self._streams.setdefault(worker, _Stream())
        if sequence <= stream.journaled:
            self.duplicates += 1
            if sequence <= stream.durable:
                stream.announced = None  # The worker may have missed an acknowledgement.
            return Verdict.DUPLICATE
        if sequence > stream.journaled + 1 and sequence != oldest:
            self.gaps += 1
            if stream.gap_at != stream.journaled:  # One answer per gap: chunks behind it are on their way already.
                stream.gap_at, stream.rewind, stream.announced = stream.journaled, True, None
            return Verdict.GAP
        return Verdict.JOURNAL

    def journaled(self, worker: str, sequence: int) -> int:
        """The chunk is in the journal, perhaps not synced. Returns how many before it exist nowhere any more."""
        stream = self._streams[worker]
        missing = sequence - stream.journaled - 1 if stream.journaled else 0
        if missing > 0:
            self.missing[worker] = self.missing.get(worker, 0) + missing
        stream.journaled, stream.gap_at = sequence, -1
        return max(missing, 0)

    def failed(self, worker: str) -> None:
        """The chunk could not be journaled, as on a full disk: the worker has to send it again."""
        stream = self._streams[worker]
        stream.rewind, stream.announced, stream.gap_at = True, None, stream.journaled

    def synced(self) -> None:
        """Everything journaled so far is durable."""
        for stream in self._streams.values():
            stream.durable = stream.journaled

    def queued(self, size: int) -> None:
        """So many journaled bytes wait for the training loop."""
        self._queued += size

    def taken(self, size: int) -> None:
        """The training loop took so many of them."""
        self._taken += size

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for the training loop."""
        return self._queued - self._taken

    @property
    def window(self) -> int:
        """What each connected worker may have in flight at present, bytes."""
        free = self._limit - self.queued_bytes
        self.is_closed = free < self._limit // 2 if self.is_closed else free <= 0
        if self.is_closed:
            return 0
        connected = sum(stream.is_connected for stream in self._streams.values())
        return max(1, min(self._window, free // max(1, connected)))

    def answers(self, now: float, *, paused: bool = False) -> list[Answer]:
        """What to tell workers now. Repeated after a while, in case it was lost. paused: grant nothing."""
        window = 0 if paused else self.window
        found = []
        for worker, stream in self._streams.items():
            if not stream.is_connected:
                continue
            if not self._is_news(stream, window, now):
                continue
            stream.announced = Answer(worker, stream.durable, window, stream.rewind)
            stream.announced_at, stream.rewind = now, False
            found.append(stream.announced)
        return found

    @staticmethod
    def _is_news(stream: _Stream, window: int, now: float) -> bool:
        last = stream.announced
        return (
            last is None
            or last.sequence != stream.durable
            or (last.window == 0) != (window == 0)
            or now - stream.announced_at >= ANNOUNCE_SECONDS
        )

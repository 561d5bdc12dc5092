"""The worker's side: which chunk to send next, which ones the trainer has."""

from __future__ import annotations

from collections import deque

RETRY_SECONDS = 30.0  # A slow uplink needs its time for a large chunk; what is known to be lost is sent again at once.
LONGEST_RETRY_SECONDS = 240.0
ASK_SECONDS = 5.0


class SequenceAhead(Exception):
    """The trainer holds a later chunk of this worker than the worker ever made."""


class Outbox:
    """Chunks of one worker between its spool and the trainer's journal.

    A chunk enters by `spooled`, when it is durable here. `next` names the chunk to send now. `held` takes the trainer's
    cumulative acknowledgement and returns what the spool can remove. Chunks go out in order, at most `window` bytes of
    them unacknowledged (one chunk of any size always fits). A new connection, the trainer's word that one is missing,
    or a time without progress makes it send again from the first unacknowledged chunk: the trainer drops duplicates.
    """

    def __init__(self, last: int = 0, *, window: int, retry_seconds: float = RETRY_SECONDS) -> None:
        """last: the highest sequence that is no longer in the spool; chunks continue with the next one."""
        self.acknowledged = last
        self.newest = last
        self.waiting_bytes = 0  # durable here and not acknowledged
        self.in_flight_bytes = 0  # of those, sent over this connection
        self.sent_again = 0
        self._sizes: deque[int] = deque()  # of acknowledged + 1, acknowledged + 2, ...
        self._limit = window
        self._window = 0
        self._sent = last  # highest sequence sent since the last rewind
        self._highest_sent = last
        self._first_retry = self._retry = retry_seconds
        self._progress = 0.0
        self._asked = 0.0

    @property
    def oldest(self) -> int:
        """The lowest sequence that can still be sent."""
        return self.acknowledged + 1

    @property
    def has_credit(self) -> bool:
        """Whether a trainer takes chunks at present."""
        return self._window > 0

    def spooled(self, sequence: int, size: int) -> None:
        """A chunk is durable in the spool."""
        if sequence != self.newest + 1:
            raise ValueError(f"chunk {sequence} cannot follow chunk {self.newest}")
        self.newest = sequence
        self.waiting_bytes += size
        self._sizes.append(size)

    def connected(self, now: float) -> None:
        """A new connection: nothing is in flight on it, and the trainer has granted nothing yet."""
        self._window = 0
        self._retry = self._first_retry
        self._asked = now
        self._rewind(now)

    def disconnected(self) -> None:
        """The connection is gone, and with it all credit."""
        self._window = 0

    def granted(self, window: int, now: float) -> None:
        """The trainer, or the relay in its place, allows so many unacknowledged bytes."""
        if not self._window:
            self._progress = now  # Waiting without credit is no reason to send again at once.
        self._window = min(window, self._limit)

    def asks(self, now: float) -> bool:
        """Whether to remind the trainer that chunks wait here without credit or answer; then not again for a while."""
        if self.newest == self.acknowledged or now - self._asked < ASK_SECONDS:
            return False
        if self._window and self._asked > float("-inf"):
            return False
        self._asked = now
        return True

    def held(self, sequence: int, *, rewind: bool, now: float) -> int:
        """The trainer has all up to `sequence`; `rewind`: misses the next one. Returns what the spool may remove."""
        if sequence > self.newest:
            raise SequenceAhead(f"the trainer holds chunk {sequence} of this worker, whose last chunk is {self.newest}")
        if sequence > self.acknowledged:
            self._progress, self._retry = now, self._first_retry
        while self.acknowledged < sequence:
            size = self._sizes.popleft()
            self.acknowledged += 1
            self.waiting_bytes -= size
            if self.acknowledged <= self._sent:
                self.in_flight_bytes -= size
        self._sent = max(self._sent, self.acknowledged)
        if rewind:
            self._rewind(now)
        return self.acknowledged

    def next(self, now: float) -> int | None:
        """The sequence to send now, which then counts as sent; None while there is nothing or no room."""
        if self.in_flight_bytes and self._window and now - self._progress >= self._retry:
            self._retry = min(2 * self._retry, LONGEST_RETRY_SECONDS)
            self._asked = float("-inf")
            self._rewind(now)
        if self._sent >= self.newest or not self._window:
            return None
        size = self._sizes[self._sent - self.acknowledged]
        if self.in_flight_bytes and self.in_flight_bytes + size > self._window:
            return None
        if not self.in_flight_bytes:
            self._progress = now
        self._sent += 1
        self.in_flight_bytes += size
        if self._sent <= self._highest_sent:
            self.sent_again += 1
        self._highest_sent = max(self._highest_sent, self._sent)
        return self._sent

    def _rewind(self, now: float) -> None:
        self._sent, self.in_flight_bytes, self._progress = self.acknowledged, 0, now

"""A connection that carries messages with bodies: the protocol that sessions use, and a pair of them in memory.

`dial.dial` opens one to a relay, over gRPC.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from paddock.core.errors import PaddockError
from paddock.core.specs import Spec
from paddock.distributed.wire.messages import Message, ProtocolError, body_limit, decode, encode

Buffers = Sequence[bytes | bytearray | memoryview]
EMPTY = memoryview(b"")
WINDOW = 8 * 2**20  # bytes that wait in a mailbox before its writer is held up


class LinkClosed(PaddockError):
    """The connection is gone; `reason` is a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refused(PaddockError):
    """The relay answered, and does not take this peer. Trying again changes nothing until a person does something."""


class Unreachable(PaddockError):
    """The relay did not answer. Trying again may help."""


class Received(NamedTuple):
    """A message and its body; the body stays valid for as long as it is kept."""

    message: Message
    body: memoryview = EMPTY


class Link(Protocol):
    """One end of a connection. `send` and `receive` may be called from two threads, each from one at a time."""

    def send(self, message: Message, body: Buffers = ()) -> None:
        """Send a message and its body. Blocks while the other side does not read; raises LinkClosed."""
        ...

    def receive(self, timeout: float) -> Received | None:
        """The next message, or None after `timeout` seconds without one. Raises LinkClosed once all were read."""
        ...

    def close(self) -> None:
        """End the connection; what was sent and not yet read by the other side may be lost."""
        ...


class Mailbox:
    """Messages from one thread to another, bounded by the bytes in them. An empty one takes a message of any size."""

    def __init__(self, limit: int = WINDOW) -> None:
        self._limit, self._used = limit, 0
        self._items: deque[tuple[Received, int]] = deque()
        self._changed = threading.Condition()
        self._reason: str | None = None

    def put(self, item: Received, size: int) -> None:
        """Add a message of `size` bytes, waiting for room. Raises LinkClosed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._reason is not None or not self._items or self._used + size <= self._limit
            )
            if self._reason is not None:
                raise LinkClosed(self._reason)
            self._items.append((item, size))
            self._used += size
            self._changed.notify_all()

    def get(self, timeout: float | None) -> Received | None:
        """The oldest message, or None when the time is over. Raises LinkClosed when it is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._reason is not None, timeout)
            if self._items:
                item, size = self._items.popleft()
                self._used -= size
                self._changed.notify_all()
                return item
            if self._reason is not None:
                raise LinkClosed(self._reason)
            return None

    def close(self, reason: str, *, drop: bool = False) -> None:
        """Take nothing more; what waits can still be read unless it is dropped. The first reason stays."""
        with self._changed:
            if self._reason is None:
                self._reason = reason
            if drop:
                self._items.clear()
                self._used = 0
            self._changed.notify_all()


class MemoryLink:
    """A Link whose other end is in the same process. Messages are encoded and decoded as on the wire."""

    def __init__(self, outgoing: Mailbox, incoming: Mailbox, spec: Callable[[], Spec | None] = lambda: None) -> None:
        self._outgoing, self._incoming, self._spec = outgoing, incoming, spec

    def send(self, message: Message, body: Buffers = ()) -> None:
        header, whole = encode(message), b"".join(body)
        limit = body_limit(message, self._spec())
        if len(whole) > limit:
            raise ProtocolError(f"a body of {len(whole):,} bytes is more than the {limit:,} that may follow this")
        self._outgoing.put(Received(decode(header), memoryview(whole)), len(header) + len(whole))

    def receive(self, timeout: float) -> Received | None:
        return self._incoming.get(timeout)

    def close(self) -> None:
        self._outgoing.close("the other side closed the connection.")
        self._incoming.close("the connection was closed here.", drop=True)

    def sever(self) -> None:
        """Break the connection as a network does: what is on the way in either direction is lost."""
        for mailbox in (self._outgoing, self._incoming):
            mailbox.close("the connection broke.", drop=True)


def memory_pair(window: int = WINDOW) -> tuple[MemoryLink, MemoryLink]:
    """Two connected Links. window: bytes that either may send before the other reads."""
    there, back = Mailbox(window), Mailbox(window)
    return MemoryLink(there, back), MemoryLink(back, there)

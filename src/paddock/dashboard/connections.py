"""HTTP connections with limits on time: uvicorn waits for ever for a request that was only begun."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0  # s for the head of a request, and for what is left of a body after its answer
MOST_WAITING = 256  # connections at once whose request is not complete; beyond that the oldest one goes
LINGER = 5.0  # s that an answer has for being read by a client that is still sending


class Connection(H11Protocol):
    """One connection. The head of a request has to be complete in time."""

    _waiting: ClassVar[dict[Connection, asyncio.TimerHandle]] = {}  # of this process, oldest first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._plain = transport
        super().connection_made(cast(asyncio.Transport, Lingering(transport, self)))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_waiting()
        self.transport = self._plain  # The other protocol has limits of its own.
        super().handle_websocket_upgrade(event)

    def _watch(self) -> None:
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering or self.transport.is_closing():
            self._stop_waiting()
        elif self.transport is not self._plain and self not in self._waiting:
            self._waiting[self] = self.loop.call_later(PATIENCE, self._give_up)
            if len(self._waiting) > MOST_WAITING:
                next(iter(self._waiting))._give_up()

    def _stop_waiting(self) -> None:
        timer = self._waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self) -> None:
        self._stop_waiting()
        self._plain.abort()


class Lingering:
    """A transport that closes late where the other end is still sending: a closed socket answers what comes with a
    reset, and a reset takes back the answer that the other end has not read yet."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection = transport, connection
        self._is_closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self._is_closing = True
        if self._connection.conn.their_state not in (h11.SEND_BODY, h11.ERROR):
            self._transport.close()
            return
        self._transport.write_eof()
        self._transport.set_protocol(Discarding(self._transport, self._connection))
        self._transport.resume_reading()


class Discarding(asyncio.Protocol):
    """Reads and drops what still comes, until the other end closes or its time is up."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._connection = connection
        self._timer = asyncio.get_running_loop().call_later(LINGER, transport.abort)

    def data_received(self, data: bytes) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._connection.connection_lost(exc)

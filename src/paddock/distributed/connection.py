"""The threads that keep one end connected to the relay: one dials, receives and dials again, one sends."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from paddock.core.errors import PaddockError
from paddock.distributed.endpoints import Outgoing
from paddock.distributed.wire.link import Link, LinkClosed, Received, Refused, Unreachable
from paddock.distributed.wire.messages import Hello, Message, Ping, Pong

log = logging.getLogger(__name__)

Dial = Callable[[Hello], Link]

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0  # seconds between attempts to connect
STEADY_SECONDS = 1.0  # A connection that stood so long is dialled again without delay.
TICK_SECONDS = 0.25  # how late a time-out is noticed
PING_SECONDS = 2.0


@dataclass(frozen=True)
class LinkStatus:
    """The connection to the relay. problem: a sentence while it does not work, else empty. round_trip: seconds.

    is_refused: the relay answered and does not take this peer; it is asked again, but a person has to do something.
    """

    is_connected: bool = False
    problem: str = "not connected yet."
    connections: int = 0
    round_trip: float | None = None
    is_refused: bool = False


class Endpoint(Protocol):
    """What a connection serves; `endpoints` has both. All calls happen under the connection's lock."""

    def connected(self, now: float) -> None: ...

    def disconnected(self) -> None: ...

    def receive(self, message: Message, body: memoryview, now: float) -> None: ...

    def next_outgoing(self, now: float) -> Outgoing | None: ...


class Connection:
    """Dials, receives and sends for one endpoint until it is closed, in threads of its own.

    `lock` guards the endpoint; `changed` wakes the sending thread, to be notified when the endpoint may have something
    to send. `notices` are messages of which only the newest of each kind is of use; they go first. `write` runs in a
    third thread, for the disk. An error in any of the threads ends all of them and is kept in `failure`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        dial: Dial,
        hello: Hello,
        write: Callable[[], None],
        receive: Callable[[Received, float], None] | None = None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """receive: takes every message in the endpoint's place, without the lock. failed: called when all has ended."""
        self._endpoint, self._dial, self._hello = endpoint, dial, hello
        self._receive = receive or self._receive_at_once
        self._failed = failed
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.status = LinkStatus()
        self.failure: PaddockError | None = None
        self.notices: dict[str, Message] = {}
        self._link: Link | None = None
        self._ping, self._pinged_at = 0, 0.0
        self._stop = threading.Event()
        self._writer = self._thread("writes", write)
        self._threads = [self._thread("receives", self._receive_always), self._thread("sends", self._send_always)]

    def start(self) -> None:
        """Start the threads."""
        for thread in (self._writer, *self._threads):
            thread.start()

    def join_writer(self) -> None:
        """Wait until the writing thread has ended by itself."""
        self._writer.join()

    def close(self) -> None:
        """Close the link and end the threads."""
        self._stop.set()
        with self.changed:
            link = self._link
            self.changed.notify_all()
        if link is not None:
            link.close()
        for thread in self._threads:
            thread.join(timeout=LONGEST_BACK_OFF)

    def wake(self) -> None:
        """Let the sending thread look for something to send."""
        with self.changed:
            self.changed.notify_all()

    def fail(self, error: PaddockError) -> None:
        """Stop, and raise this error from every later call of the session."""
        log.error("%s", error)
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()
        self._stop.set()
        self._failed()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def _thread(self, title: str, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=self._run, args=(work,), name=f"{self._hello.name} {title}", daemon=True)

    def _receive_at_once(self, received: Received, now: float) -> None:
        with self.changed:
            self._endpoint.receive(received.message, received.body, now)
            self.changed.notify_all()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except PaddockError as error:
            self.fail(error)
        except OSError as error:
            self.fail(PaddockError(f"a file cannot be written or read: {error}. Repair that and start again."))
        except Exception as error:
            log.exception("a thread of the connection to the relay failed")
            self.fail(PaddockError(f"the connection to the relay failed: {error!r}"))

    def _receive_always(self) -> None:
        back_off = FIRST_BACK_OFF
        while not self._stop.is_set():
            try:
                link = self._dial(self._hello_now())
            except (Refused, Unreachable, LinkClosed) as error:
                self._lost(str(error), is_refused=isinstance(error, Refused))
            else:
                if self._serve(link) >= STEADY_SECONDS:
                    back_off = FIRST_BACK_OFF
            self._stop.wait(back_off * random.uniform(0.5, 1.0))
            back_off = min(2 * back_off, LONGEST_BACK_OFF)

    def _serve(self, link: Link) -> float:
        """Receive until the link is closed, from whichever side; returns for how many seconds it stood."""
        since = time.monotonic()
        reason = "the session is closed."
        self._found(link)
        try:
            self._receive_until_closed(link)
        except LinkClosed as error:
            reason = error.reason
        finally:
            link.close()
            self._lost(reason)
        return time.monotonic() - since

    def _hello_now(self) -> Hello:
        return msgspec.structs.replace(self._hello, sent=time.time())

    def _receive_until_closed(self, link: Link) -> None:
        while not self._stop.is_set():
            received = link.receive(TICK_SECONDS)
            now = time.monotonic()
            if received is None:
                self.wake()
            elif isinstance(received.message, Pong):
                if received.message.number == self._ping:
                    self.status = replace(self.status, round_trip=now - self._pinged_at)
            else:
                self._receive(received, now)

    def _found(self, link: Link) -> None:
        with self.changed:
            self._link, self._pinged_at = link, 0.0
            self.status = LinkStatus(True, "", self.status.connections + 1)
            self._endpoint.connected(time.monotonic())
            self.changed.notify_all()

    def _lost(self, reason: str, *, is_refused: bool = False) -> None:
        with self.changed:
            if reason != self.status.problem:
                log.info("no connection to the relay: %s", reason)
            self.status = LinkStatus(False, reason, self.status.connections, is_refused=is_refused)
            self._link = None
            self._endpoint.disconnected()
            self.changed.notify_all()

    def _send_always(self) -> None:
        while not self._stop.is_set():
            with self.changed:
                link, outgoing = self._link, None
                if link is not None:
                    outgoing = self._next(time.monotonic())
                if link is None or outgoing is None:
                    self.changed.wait(TICK_SECONDS)
                    continue
            try:
                link.send(outgoing.message, outgoing.body)
            except LinkClosed:
                with self.changed:  # The receiving thread notices too, and dials again.
                    if self._link is link:
                        self._link = None

    def _next(self, now: float) -> Outgoing | None:
        if self.notices:
            return Outgoing(self.notices.pop(next(iter(self.notices))))
        if now - self._pinged_at >= PING_SECONDS:
            self._ping += 1
            self._pinged_at = now
            return Outgoing(Ping(self._ping))
        return self._endpoint.next_outgoing(now)

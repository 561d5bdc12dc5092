"""A relay inside the process: the Exchange with links in memory, and faults on demand."""

from __future__ import annotations

import itertools
import threading
import time

from paddock.distributed.delivery.exchange import Exchange
from paddock.distributed.wire.link import Link, LinkClosed, MemoryLink, Refused, Unreachable, memory_pair
from paddock.distributed.wire.messages import Hello, Refusal


class MemoryRelay:
    """`dial` gives a session its link; `stop` and `start` are a relay's crash and restart."""

    def __init__(self, chunk_bytes: int = 2**22) -> None:
        self._chunk_bytes = chunk_bytes
        self._numbers = itertools.count(1)
        self._threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.links: dict[int, MemoryLink] = {}
        self.exchange: Exchange | None = None
        self.start()

    def start(self) -> None:
        self.exchange = Exchange(chunk_bytes=self._chunk_bytes, started=time.monotonic())

    def stop(self) -> None:
        """Everything in the relay's memory and on its connections is lost."""
        with self.changed:
            self.exchange = None
            for link in self.links.values():
                link.sever()
            self.links.clear()
            self.changed.notify_all()

    def cut(self) -> None:
        """Break all connections; the relay goes on."""
        with self.changed:
            for link in self.links.values():
                link.sever()

    def dial(self, hello: Hello) -> Link:
        with self.changed:
            exchange = self.exchange
            if exchange is None:
                raise Unreachable("the relay does not run.")
            number = next(self._numbers)
            answer = exchange.connect(number, hello, time.monotonic())
            if isinstance(answer, Refusal):
                raise Refused(answer.reason)
            near, far = memory_pair()
            self.links[number] = far
            for work in (self._read, self._write):
                thread = threading.Thread(target=work, args=(exchange, number, far), daemon=True)
                thread.start()
                self._threads.append(thread)
            self._act(exchange)
        return near

    def close(self) -> None:
        self.stop()
        for thread in self._threads:
            thread.join(5)

    def _act(self, exchange: Exchange) -> None:
        for number, _ in exchange.closings():
            if number in self.links:
                self.links.pop(number).close()
        self.changed.notify_all()

    def _read(self, exchange: Exchange, number: int, link: MemoryLink) -> None:
        try:
            while True:
                received = link.receive(1.0)
                if received is not None:
                    with self.changed:
                        exchange.receive(number, received.message, received.body, time.monotonic())
                        self._act(exchange)
        except LinkClosed:
            with self.changed:
                self.links.pop(number, None)
                exchange.disconnect(number, time.monotonic())
                self._act(exchange)

    def _write(self, exchange: Exchange, number: int, link: MemoryLink) -> None:
        while True:
            with self.changed:
                outgoing = exchange.next(number)
                while outgoing is None:
                    if number not in self.links:
                        return
                    self.changed.wait(1.0)
                    outgoing = exchange.next(number)
                self._act(exchange)
            try:
                link.send(outgoing.message, [outgoing.body])
            except LinkClosed:
                return

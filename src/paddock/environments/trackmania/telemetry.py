"""What the game tells in numbers: the protocol that interfaces read from, and the plugin's TCP stream behind it."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections import deque
from typing import Protocol

from paddock.environments.realtime.clock import SECOND
from paddock.environments.trackmania.packets import Packet, PacketFormat, PacketStream, ProtocolError

log = logging.getLogger(__name__)

PORT = 9000
RETRY_SECONDS = 0.2  # between two attempts to connect
WAIT_SECONDS = 0.5  # for bytes, until it is seen whether the client is to end
CONNECT_SECONDS = 2.0
CHUNK = 65_536  # bytes
KEPT = 512  # packets


class Telemetry(Protocol):
    """The newest packet, and how old it is."""

    @property
    def newest(self) -> Packet | None: ...

    @property
    def age(self) -> float:
        """Seconds since the newest packet came; infinite before the first."""

    @property
    def problem(self) -> str:
        """Why nothing comes, as a sentence; empty while packets come."""

    def wait(self, after: int, seconds: float) -> Packet | None:
        """The newest packet with a number above `after`, within so many seconds."""

    def since(self, after: int) -> list[Packet]:
        """The packets with a number above `after`, oldest first, as far as they are kept: `KEPT` of them."""

    def close(self) -> None: ...


class TcpTelemetry:
    """Reads a plugin's stream in a thread, and connects again whenever the connection is gone.

    The thread sleeps in the system while the game says nothing.
    """

    def __init__(self, port: int = PORT, host: str = "127.0.0.1") -> None:
        self.address = (host, port)
        self.connections = 0
        self._condition = threading.Condition()
        self._newest: Packet | None = None
        self._recent: deque[Packet] = deque(maxlen=KEPT)
        self._format: PacketFormat | None = None
        self._problem = f"nothing has answered on {host}:{port} yet."
        self._waking, self._waker = socket.socketpair()
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve, name=f"telemetry {port}", daemon=True)
        self._thread.start()

    @property
    def newest(self) -> Packet | None:
        return self._newest

    @property
    def age(self) -> float:
        packet = self._newest
        return float("inf") if packet is None else (time.perf_counter_ns() - packet.received) / SECOND

    @property
    def format(self) -> PacketFormat | None:
        """Of the present connection; None until its first packets."""
        return self._format

    @property
    def problem(self) -> str:
        return self._problem

    def wait(self, after: int, seconds: float) -> Packet | None:
        with self._condition:
            self._condition.wait_for(lambda: self._newest is not None and self._newest.number > after, seconds)
            packet = self._newest
        return packet if packet is not None and packet.number > after else None

    def since(self, after: int) -> list[Packet]:
        with self._condition:
            return [packet for packet in self._recent if packet.number > after]

    def close(self) -> None:
        self._is_closing = True
        self._waker.send(b"x")
        self._thread.join(CONNECT_SECONDS + 1.0)
        self._waking.close()
        self._waker.close()

    def _serve(self) -> None:
        while not self._is_closing:
            try:
                with socket.create_connection(self.address, timeout=CONNECT_SECONDS) as connection:
                    self._read(connection)
            except ConnectionRefusedError:
                self._note(f"the connection to {self.address[0]}:{self.address[1]} is refused.")
            except (OSError, ProtocolError) as error:
                self._note(str(error))
            self._format = None
            self._is_woken(RETRY_SECONDS)

    def _read(self, connection: socket.socket) -> None:
        """Until the connection ends or the client is to end."""
        self.connections += 1
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._note("the game is connected and sends nothing: it is in a menu, or it is loading.")
        stream = PacketStream(self._newest.number if self._newest else 0)
        while not self._is_closing:
            ready, _, _ = select.select([connection, self._waking], [], [], WAIT_SECONDS)
            if connection not in ready:
                if self.age > 2 * WAIT_SECONDS:
                    self._note("the game is connected and sends nothing: it is in a menu, or it is loading.")
                continue
            data = connection.recv(CHUNK)
            if not data:
                raise ConnectionResetError("the game has closed the connection.")
            packets = stream.feed(data, time.perf_counter_ns())
            if packets:
                with self._condition:
                    self._newest, self._format, self._problem = packets[-1], stream.format, ""
                    self._recent.extend(packets)
                    self._condition.notify_all()

    def _is_woken(self, seconds: float) -> bool:
        return bool(select.select([self._waking], [], [], seconds)[0])

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            log.info("telemetry: %s", problem)
        self._problem = problem

"""The relay's process: the one listening socket, and a thin shell of gRPC streams around `delivery.exchange`.

A connection has one thread that reads and one that writes. All of them share one lock around the Exchange; sending
happens outside of it.
"""

from __future__ import annotations

import ipaddress
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from paddock.core.errors import InputError
from paddock.core.text import printable
from paddock.distributed.admission import Admission, ByCertificate, ByToken, NotAdmitted, certificate_of
from paddock.distributed.delivery.exchange import Exchange
from paddock.distributed.status import write_listening
from paddock.distributed.wire.addresses import DEFAULT_PORT
from paddock.distributed.wire.certificates import RelayFolder
from paddock.distributed.wire.channel import COMMON_OPTIONS, METHOD, load_grpc
from paddock.distributed.wire.frames import PIECE, Forwarder, Pieces, pieces
from paddock.distributed.wire.link import Buffers
from paddock.distributed.wire.messages import (
    LARGEST_WEIGHTS,
    Challenge,
    Chunk,
    Hello,
    Message,
    Proof,
    ProtocolError,
    Refusal,
    Status,
    StatusReply,
    Weights,
    Welcome,
    body_limit,
)

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 256
HANDSHAKE_SECONDS = 5.0
CHECK_SECONDS = 0.25  # between two looks at revocations and connections that do not end
FAREWELL_SECONDS = 1.0  # for a peer to read why it is closed
CLOCK_SECONDS = 300.0  # of difference that are worth a warning
CHUNK_BYTES = 64 * 2**20  # of chunks on their way to the trainer
KEPT_PIECES = 4 * PIECE  # bytes: memory of smaller ones is kept for the next
LOOPBACK = "127.0.0.1"

OPTIONS = [
    *COMMON_OPTIONS,
    ("grpc.so_reuseport", 0),  # A second relay on the same port is an error, not a half of the connections.
    ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1_000)),
    ("grpc.max_connection_idle_ms", 10_000),  # connections without a stream
    ("grpc.max_concurrent_streams", 2),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
]


class _Connection:
    """One stream. Everything in it is read and written under the relay's lock."""

    def __init__(self, number: int, context: Any, lock: threading.Lock) -> None:
        self.number, self.context = number, context
        self.peer = printable(context.peer())
        self.changed = threading.Condition(lock)
        self.since = time.monotonic()
        self.identity = ""
        self.hello: Hello | None = None
        self.claimed = "an unknown peer"  # the name it gave
        self.challenge: bytes | None = None  # that has to be answered before a Hello
        self.proof = b""  # the relay's answer to the peer's
        self.answer: Welcome | Challenge | None = None
        self.reply: StatusReply | None = None
        self.reason: str | None = None  # why it is being closed
        self.closing_since: float | None = None
        self.is_gone = False

    @property
    def name(self) -> str:
        return printable(self.hello.name) if self.hello else self.claimed


class RelayServer:
    """A relay that listens from `start` to `stop`."""

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "",
        port: int = DEFAULT_PORT,
        chunk_bytes: int = CHUNK_BYTES,
        most_connections: int = MOST_CONNECTIONS,
        options: Sequence[tuple[str, int]] = OPTIONS,
    ) -> None:
        """folder: with certificates for other machines, else a token file for this one. host: empty for all addresses
        with certificates and for the loopback without. port: 0 for any that is free. chunk_bytes: in memory at most.
        """
        self.folder, self.host, self.port = RelayFolder(folder), host, port
        self.has_certificates = self.folder.has_certificates
        self._most, self._options = most_connections, options
        self._exchange = Exchange(chunk_bytes=chunk_bytes, started=time.monotonic())
        self._lock = threading.Lock()
        self._connections: dict[int, _Connection] = {}
        self._numbers = itertools.count(1)
        self._stopping = threading.Event()
        self._admission: Admission
        self._server: Any = None
        self.token_file: Path | None = None

    def start(self) -> None:
        """Listen. Raises InputError where that is not possible."""
        grpc = load_grpc("A relay", is_relay=True)
        pool = ThreadPoolExecutor(self._most + 8, thread_name_prefix="paddock-relay")
        handler = _handler(grpc, self._serve)
        self._server = grpc.server(
            pool, handlers=[handler], options=self._options, maximum_concurrent_rpcs=self._most + 8
        )
        self.port = self._listen(grpc)
        if self.has_certificates:
            self._admission = ByCertificate(self.folder)
        else:
            admission = ByToken(self.folder.path, self.port)
            self._admission, self.token_file = admission, admission.file
        write_listening(self.folder.path, self._reached_at(), self.port)
        self._server.start()
        threading.Thread(target=self._look_after, name="paddock-relay-checks", daemon=True).start()

    def stop(self, grace: float = FAREWELL_SECONDS) -> None:
        """Tell every peer, and end."""
        with self._lock:
            for connection in self._connections.values():
                self._close(connection, "the relay was stopped.")
        self._stopping.set()
        if self._server is not None:
            self._server.stop(grace).wait()

    def status(self) -> StatusReply:
        """Who is connected."""
        with self._lock:
            return self._status()

    # --- listening ---

    def _listen(self, grpc: Any) -> int:
        host = self.host or ("[::]" if self.has_certificates else LOOPBACK)
        if self.has_certificates:
            key, certificate, authority = self.folder.server_files()
            credentials = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
        elif not _is_loopback(host):
            raise InputError(
                f"without certificates a relay listens on {LOOPBACK} only, got '{host}'. Make certificates first: "
                "paddock relay init"
            )
        hosts = [host, "0.0.0.0"] if host == "[::]" else [f"[{host}]" if ":" in host else host]
        for one in hosts:  # Without IPv6, the second is the address for all.
            try:
                target = f"{one}:{self.port}"
                if self.has_certificates:
                    return self._server.add_secure_port(target, credentials)
                return self._server.add_insecure_port(target)
            except RuntimeError:
                continue
        raise InputError(
            f"cannot listen on {host}:{self.port}: the port is in use, or the address is not this machine's. Is a "
            "relay running there? Else give another --port or --host."
        )

    def _reached_at(self) -> str:
        """The host under which this machine reaches the relay."""
        return LOOPBACK if self.host in ("", "0.0.0.0", "::", "[::]") else self.host.strip("[]")

    # --- one connection ---

    def _serve(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """The life of one stream: what is yielded is sent."""
        with self._lock:
            connection = _Connection(next(self._numbers), context, self._lock)
            if (challenge := self._admission.challenge()) is not None:
                connection.challenge, connection.answer = challenge, Challenge(challenge)
            is_full = len(self._connections) >= self._most
            if not is_full:
                self._connections[connection.number] = connection
        if is_full:
            reason = f"this relay has {self._most} connections, which is its limit."
            log.warning("refused %s: %s", connection.peer, reason)
            yield from pieces(Refusal(reason))
            return
        context.add_callback(lambda: self._gone(connection))
        threading.Thread(
            target=self._read, args=(connection, requests), name="paddock-relay-reader", daemon=True
        ).start()
        yield from self._write(connection)

    def _write(self, connection: _Connection) -> Iterator[bytes]:
        while True:
            with self._lock:
                outgoing = self._next(connection)
                while outgoing is None:
                    if connection.is_gone:
                        return
                    connection.changed.wait()
                    outgoing = self._next(connection)
            yield from pieces(*outgoing)
            if isinstance(outgoing[0], Refusal):
                return

    def _next(self, connection: _Connection) -> tuple[Message, Buffers] | None:
        """The next message to send; a Refusal is the last."""
        if connection.reason is not None:
            return Refusal(connection.reason), []
        if connection.answer is not None:
            answer, connection.answer = connection.answer, None
            return answer, []
        if connection.reply is not None:
            reply, connection.reply = connection.reply, None
            return reply, []
        if connection.hello is None:
            return None
        outgoing = self._exchange.next(connection.number)
        self._act()
        if outgoing is None:
            return None
        return outgoing.message, outgoing.body.parts if isinstance(outgoing.body, Pieces) else ()

    def _read(self, connection: _Connection, requests: Iterator[bytes]) -> None:
        """Take pieces until the stream ends; what is wrong with them ends it."""
        forwarder = Forwarder(lambda message: self._body_limit(connection, message))
        try:
            self._identify(connection)
            for piece in requests:
                received = forwarder.feed(piece)
                if received is not None:
                    self._received(connection, *received)
        except NotAdmitted as refusal:
            self._refuse(connection, str(refusal))
        except ProtocolError as error:
            self._refuse(connection, f"{error}.")
        except InputError as error:  # The list of invitations cannot be read.
            log.error("%s", printable(error))
            self._refuse(connection, "the relay cannot read its list of invitations; its log says why.")
        except Exception as error:
            if not connection.is_gone:  # gRPC ends the iterator of a broken stream with a bare Exception.
                log.debug("stream of %s: %s", connection.peer, printable(error))
        finally:
            with self._lock:  # Let the peer read why it was refused before the stream is taken from it.
                if connection.reason is not None:
                    connection.changed.wait_for(lambda: connection.is_gone, FAREWELL_SECONDS)
                must_end = not connection.is_gone
            self._gone(connection)
            if must_end:
                connection.context.cancel()

    def _identify(self, connection: _Connection) -> None:
        connection.identity = self._admission.identify(certificate_of(connection.context.auth_context()))

    def _received(self, connection: _Connection, message: Message, body: Pieces) -> None:
        if isinstance(message, Proof) and connection.challenge is not None:
            connection.proof = self._admission.check(connection.challenge, message)
            connection.challenge = None
            return
        if connection.hello is None:
            assert isinstance(message, Hello)  # See _body_limit.
            connection.claimed = f"the {message.role} '{printable(message.name)}'"
            self._connect(connection, self._admission.admit(connection.identity, message))
            return
        with self._lock:
            if connection.reason is not None:
                return
            if isinstance(message, Status):
                connection.reply = self._status()
                connection.changed.notify()
                return
            self._exchange.receive(connection.number, message, body, time.monotonic())
            self._act()

    def _connect(self, connection: _Connection, hello: Hello) -> None:
        with self._lock:
            self._check_id(connection, hello)
            answer = self._exchange.connect(connection.number, hello, time.monotonic())
            if isinstance(answer, Welcome):
                connection.hello = hello
                connection.answer = replace(answer, warning=_clock_warning(hello), proof=connection.proof)
                connection.changed.notify()
            self._act()
        if isinstance(answer, Refusal):
            raise NotAdmitted(answer.reason)
        if connection.hello and hello.role != "operator":
            log.info("%s '%s' connected from %s", hello.role, connection.name, connection.peer)

    def _check_id(self, connection: _Connection, hello: Hello) -> None:
        """An invited worker cannot take the place of another one that is connected."""
        for other in self._connections.values():
            is_same = other.hello and (other.hello.role, other.hello.id) == (hello.role, hello.id)
            if is_same and other.identity != connection.identity:
                raise NotAdmitted(
                    f"a {hello.role} with the id {hello.id} is connected with another invitation. Give every machine "
                    "its own invitation and its own spool."
                )

    def _body_limit(self, connection: _Connection, message: Message) -> int:
        """The most bytes that this peer may send after a message."""
        if connection.hello is None:
            expected = Hello if connection.challenge is None else Proof
            if not isinstance(message, expected):
                raise ProtocolError(f"a {expected.__name__} was due, and a {type(message).__name__} came")
            return 0
        role = connection.hello.role
        if isinstance(message, Chunk):
            return body_limit(message, connection.hello.spec) if role == "worker" else 0
        if isinstance(message, Weights):
            return min(message.size, LARGEST_WEIGHTS) if role == "trainer" else 0
        return 0

    # --- ends ---

    def _refuse(self, connection: _Connection, reason: str) -> None:
        with self._lock:
            if connection.reason is None and not connection.is_gone:
                log.warning("refused %s at %s: %s", connection.name, connection.peer, printable(reason))
                self._exchange.disconnect(connection.number, time.monotonic())
                self._close(connection, reason)
                self._act()

    def _close(self, connection: _Connection, reason: str) -> None:
        if connection.reason is None:
            connection.reason = reason[:2_000]
            connection.closing_since = time.monotonic()
            connection.changed.notify_all()

    def _gone(self, connection: _Connection) -> None:
        """The stream has ended, from whichever side."""
        with self._lock:
            if connection.is_gone:
                return
            connection.is_gone = True
            connection.changed.notify_all()
            self._connections.pop(connection.number, None)
            self._exchange.disconnect(connection.number, time.monotonic())
            self._act()
        if connection.hello and connection.hello.role != "operator":
            log.info("%s '%s' disconnected", connection.hello.role, connection.name)

    def _act(self) -> None:
        """Do what the Exchange decided; under the lock."""
        for number, reason in self._exchange.closings():
            if number in self._connections:
                closed = self._connections[number]
                log.warning("closed %s at %s: %s", closed.name, closed.peer, printable(reason))
                self._close(closed, reason)
        for number in self._exchange.awake():
            if number in self._connections:
                self._connections[number].changed.notify()

    def _look_after(self) -> None:
        """Close what was revoked, what never introduced itself, and what does not end by itself."""
        while not self._stopping.wait(CHECK_SECONDS):
            now = time.monotonic()
            with self._lock:
                connections = list(self._connections.values())
            for connection in connections:
                self._check(connection, now)

    def _check(self, connection: _Connection, now: float) -> None:
        if connection.closing_since is not None:
            if now - connection.closing_since > 2 * FAREWELL_SECONDS:
                connection.context.cancel()
        elif connection.hello is None:
            if now - connection.since > HANDSHAKE_SECONDS:
                self._refuse(connection, f"no Hello came within {HANDSHAKE_SECONDS:.0f} s.")
        elif self._is_revoked(connection):
            self._refuse(connection, "this invitation was revoked or expired. Make a new one on the relay's machine.")

    def _is_revoked(self, connection: _Connection) -> bool:
        try:
            return self._admission.is_revoked(connection.identity)
        except (
            InputError,
            OSError,
        ) as error:  # While the list cannot be read, connections stay and no new one is taken.
            log.error("the list of invitations cannot be read: %s", printable(error))
            return False

    def _status(self) -> StatusReply:
        reply = self._exchange.status(time.monotonic())
        places = {(one.hello.role, one.hello.id): one.peer for one in self._connections.values() if one.hello}
        workers = [replace(one, address=places.get((one.role, one.id), "")) for one in reply.workers]
        trainer = reply.trainer and replace(reply.trainer, address=places.get(("trainer", reply.trainer.id), ""))
        return replace(reply, workers=workers, trainer=trainer)


def _handler(grpc: Any, serve: Any) -> Any:
    class Handler(grpc.GenericRpcHandler):
        """Raw bytes in both directions; every other method is unknown."""

        def service(self, details: Any) -> Any:
            return grpc.stream_stream_rpc_method_handler(serve) if details.method == METHOD else None

    return Handler()


def _clock_warning(hello: Hello) -> str:
    """Nothing depends on a peer's wall clock but certificates; a person may still want to know that it is wrong."""
    if not hello.sent:
        return ""
    behind = time.time() - hello.sent
    if abs(behind) < CLOCK_SECONDS:
        return ""
    words = "behind" if behind > 0 else "ahead of"
    log.warning("the clock of '%s' is %.0f s %s this machine's", printable(hello.name), abs(behind), words)
    return f"this machine's clock is {abs(behind):,.0f} s {words} the relay's. Nothing is lost by that; set it anyway."


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False

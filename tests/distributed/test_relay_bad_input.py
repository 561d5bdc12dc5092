"""What a relay does with peers that are broken or hostile, on real sockets: a sentence, that connection closed, the
others undisturbed."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
import time

import msgspec
import numpy as np
import pytest

from paddock.distributed.wire.addresses import LocalAddress, token_code
from paddock.distributed.wire.channel import METHOD
from paddock.distributed.wire.frames import KIND, PREFIX, Assembler, pieces
from paddock.distributed.wire.link import LinkClosed
from paddock.distributed.wire.messages import (
    Chunk,
    Grant,
    Held,
    Joined,
    Order,
    Ping,
    Pong,
    Proof,
    Refusal,
    Weights,
    body_limit,
    encode,
)
from relay_cases import SPEC, WORKER, TestRelay, hello, received_message, relay_log

grpc = pytest.importorskip("grpc")


@pytest.fixture(params=["tls", "local"])
def relay(request, tmp_path):
    made = TestRelay(tmp_path / "relay", tls=request.param == "tls")
    yield made
    made.close()


@pytest.fixture
def local_relay(tmp_path):
    made = TestRelay(tmp_path / "relay", tls=False)
    yield made
    made.close()


@pytest.fixture
def tls_relay(tmp_path):
    made = TestRelay(tmp_path / "relay", tls=True)
    yield made
    made.close()


@pytest.fixture
def bystander(request):
    """A worker that is connected all the time; afterwards its connection still works."""
    relay = request.getfixturevalue(
        next(name for name in ("relay", "local_relay", "tls_relay") if name in request.fixturenames)
    )
    link = relay.dial("worker", "bystander", id="9" * 16)
    yield link
    link.send(Ping(77))
    assert received_message(link, Pong).number == 77


OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)  # The relay takes few streams of one connection.


class RawStream:
    """A peer that sends the pieces it is given, right or wrong."""

    def __init__(self, relay: TestRelay, role: str = "worker", *, with_token: bool = True) -> None:
        if relay.tls:
            address = relay.address(f"raw-{role}", role)
            credentials = grpc.ssl_channel_credentials(
                address.authority.encode(), address.key.encode(), address.certificate.encode()
            )
            options = [("grpc.ssl_target_name_override", "paddock-relay"), OWN_CONNECTION]
            self.channel = grpc.secure_channel(address.target, credentials, options)
        else:
            address = LocalAddress.read(relay.path)
            self.channel = grpc.insecure_channel(address.target, [OWN_CONNECTION])
        self._ready, self._pieces, self._end = threading.Condition(), [], False
        self.call = self.channel.stream_stream(METHOD)(self._outgoing())
        self._assembler = Assembler(body_limit)
        if not relay.tls and with_token:
            challenge = self._assembler.feed(next(self.call)).message.nonce
            code = token_code(address.token, "peer", challenge, bytes(16))
            self.send(*pieces(Proof(bytes(16), code)))

    def send(self, *data: bytes) -> None:
        with self._ready:
            self._pieces += data
            self._ready.notify()

    def last_words(self) -> str:
        """Read to the end; the Refusal's sentence."""
        found = ""
        try:
            for piece in self.call:
                received = self._assembler.feed(piece)
                if received is not None and isinstance(received.message, Refusal):
                    found = received.message.reason
        except grpc.RpcError as error:
            found = found or f"rpc error {error.code().name}"
        self.close()
        return found

    def close(self) -> None:
        with self._ready:
            self._end = True
            self._ready.notify()
        self.call.cancel()
        self.channel.close()

    def _outgoing(self):
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._pieces or self._end)
                if self._end:
                    return
                piece = self._pieces.pop(0)
            yield piece


def frame(message, size: int, body: bytes = b"") -> bytes:
    header = encode(message)
    return PREFIX.pack(KIND, len(header), size) + header + body


HELLO = b"".join(pieces(hello("worker", "raw-worker")))
CHUNK, LONG = Chunk(WORKER, 1, 10, 0), Chunk(WORKER, 1, 8_000, 0)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ([b""], "too short"),
        ([os.urandom(300)], "not the beginning of a message"),
        ([b"GET / HTTP/1.1\r\n\r\n" * 5], "not the beginning of a message"),
        ([PREFIX.pack(KIND, 2**32 - 1, 0) + b"x"], "a message of 4,294,967,295 bytes was announced"),
        ([PREFIX.pack(KIND, 20, 0) + os.urandom(20)], "not a message of Paddock's relay"),
        ([frame(Ping(1), 0)], "a Hello was due, and a Ping came"),
        ([frame(hello(), 4 * 2**30)], "a Hello announced a body of 4,294,967,296 bytes"),
        ([HELLO, frame(CHUNK, 4 * 2**30)], "a Chunk announced a body of 4,294,967,296 bytes"),
        ([HELLO, frame(CHUNK, 70_000, b"x" * 10)], "a body of 70,000 bytes was announced, and 10 came"),
        ([HELLO, frame(CHUNK, 70_000)], "a body of 70,000 bytes was announced, and 0 came"),
        ([HELLO, frame(LONG, 3 * 2**20), bytes(2**20), bytes(5)], "2,097,152 bytes of a body were missing"),
        ([HELLO, frame(LONG, 2**20 + 1), bytes(2**20), bytes(2)], "1 bytes of a body were missing, and a piece of 2"),
        ([HELLO, frame(LONG, 2**20 + 1), bytes(2**20), b""], "1 bytes of a body were missing, and a piece of 0"),
        ([HELLO, frame(Weights(1, Order(), 50), 50, bytes(50))], "a Weights announced a body of 50 bytes"),
        ([HELLO, frame(Weights(1, Order(), 0), 0)], "a worker sent a Weights that it must not send"),
        ([HELLO, frame(Held(WORKER, 1), 0)], "a worker sent a Held that it must not send"),
        ([HELLO, frame(Grant(2**40), 0)], "a worker sent a Grant that it must not send"),
        ([HELLO, frame(hello(), 0)], "a worker sent a Hello that it must not send"),
        ([HELLO, frame(Joined(WORKER, hello()), 0)], "a worker sent a Joined that it must not send"),
        ([HELLO, frame(Chunk("8" * 16, 1, 1, 0), 0)], "a worker sent a Chunk that it must not send"),
        ([HELLO, bytes(3 * 2**20)], "rpc error|not the beginning"),
    ],
)
def test_relay_closes_a_stream_out_of_protocol_with_a_sentence(relay, bystander, caplog, sent, words):
    stream = RawStream(relay)
    start = time.monotonic()
    stream.send(*sent)
    last = stream.last_words()
    assert any(word in last for word in words.split("|")), last
    assert time.monotonic() - start < 1.5
    if not last.startswith("rpc error"):
        assert len([line for line in relay_log(caplog) if last.rstrip(".") in line]) == 1


def test_relay_takes_no_memory_for_a_size_that_is_only_announced(local_relay, bystander):
    before = resident()
    streams = [RawStream(local_relay) for _ in range(20)]
    for number, stream in enumerate(streams):
        peer = hello("worker", f"pc{number}", id=f"{number:016x}")
        stream.send(b"".join(pieces(peer)), frame(Chunk(f"{number:016x}", 1, 2**20, 0), 60 * 2**20))
    time.sleep(0.5)
    assert resident() - before < 100 * 2**20, "20 peers announced 60 MiB each and sent nothing"
    for stream in streams:
        stream.close()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_relay_survives_random_bytes_on_its_socket(relay, bystander):
    random = np.random.default_rng(0)
    for number in range(30):
        with socket.create_connection(("127.0.0.1", relay.port), 2) as raw:
            raw.sendall(random.bytes(int(random.integers(1, 3_000))))
            if number % 3:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not close


def test_relay_survives_random_pieces(relay, bystander):
    random = np.random.default_rng(1)
    for number in range(20):
        stream = RawStream(relay, "worker") if not relay.tls or number == 0 else stream_again(relay, number)
        stream.send(HELLO, random.bytes(int(random.integers(0, 500))))
        assert stream.last_words()


def stream_again(relay: TestRelay, number: int) -> RawStream:
    relay.folder.revoke("raw-worker")
    return RawStream(relay)


def test_relay_tells_a_client_without_a_certificate_nothing(tls_relay, bystander):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    got = b""
    try:
        with (
            socket.create_connection(("127.0.0.1", tls_relay.port), 2) as raw,
            context.wrap_socket(raw, server_hostname="paddock-relay") as wrapped,
        ):
            wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
            got = wrapped.recv(1_000)
    except (ssl.SSLError, ConnectionError):
        pass
    assert got == b""


def test_relay_with_certificates_takes_no_plain_connection(tls_relay, bystander):
    with grpc.insecure_channel(f"127.0.0.1:{tls_relay.port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            list(channel.stream_stream(METHOD)(iter([HELLO]), timeout=3))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_relay_knows_no_other_method(local_relay, bystander):
    with grpc.insecure_channel(f"127.0.0.1:{local_relay.port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            list(channel.stream_stream("/grpc.reflection.v1.ServerReflection/Info")(iter([b""])))
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_relay_takes_no_hello_without_a_proof_of_the_token(local_relay, bystander):
    stream = RawStream(local_relay, with_token=False)
    stream.send(HELLO)
    assert "a Proof was due, and a Hello came" in stream.last_words()


def test_relay_takes_no_proof_a_second_time(local_relay, bystander):
    """What another program on the relay's port heard from a worker is of no use to it."""
    earlier = token_code(LocalAddress.read(local_relay.path).token, "peer", bytes(16), bytes(16))
    stream = RawStream(local_relay, with_token=False)
    stream.send(*pieces(Proof(bytes(16), earlier)))
    assert "does not know the token" in stream.last_words()


def test_relay_refuses_messages_larger_than_a_piece_before_reading_them(local_relay, bystander):
    """gRPC's own length prefix, in a message that would have 4 GiB."""
    stream = RawStream(local_relay)
    stream.send(HELLO, bytes(5 * 2**20))
    assert "RESOURCE_EXHAUSTED" in stream.last_words()


def test_relay_closes_a_stream_that_never_introduces_itself(local_relay, bystander, monkeypatch):
    monkeypatch.setattr("paddock.distributed.relay.HANDSHAKE_SECONDS", 0.3)
    stream = RawStream(local_relay)
    assert "no Hello came" in stream.last_words()


def test_relay_closes_a_half_open_connection(tmp_path, caplog):
    """The peer's machine is gone without a word: a proxy that no longer passes anything on plays the network."""
    relay = TestRelay(tmp_path / "relay", tls=False)
    relay.server.stop()
    from paddock.distributed import relay as module

    options = dict(module.OPTIONS) | {"grpc.keepalive_time_ms": 1_000, "grpc.http2.ping_timeout_ms": 500}
    server = module.RelayServer(tmp_path / "relay", port=0, options=list(options.items()))
    server.start()
    proxy = SilentProxy(server.port)
    try:
        known = LocalAddress.read(tmp_path / "relay")
        link = relay.dial(address=LocalAddress(port=proxy.port, token=known.token))
        assert len(server.status().workers) == 1
        proxy.is_silent = True
        deadline = time.monotonic() + 5
        while server.status().workers and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not server.status().workers
        link.close()
    finally:
        proxy.close()
        server.stop()
        relay.close()


class SilentProxy:
    """Passes bytes on in both directions, until it keeps them."""

    def __init__(self, port: int) -> None:
        self._target, self.is_silent = port, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                if not self.is_silent:
                    sink.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def test_relay_drops_what_a_worker_sends_without_credit(relay, bystander):
    worker = relay.dial("worker", "pc")
    for sequence in range(1, 30):
        worker.send(Chunk(WORKER, sequence, 1_000, 0), [bytes(300_000)])
    worker.send(Ping(1))
    received_message(worker, Pong)
    counters = relay.server.status().counters
    assert counters["dropped_chunks"] == 29
    assert counters["passed_chunks"] == 0


def test_relay_bounds_what_waits_for_a_trainer_that_does_not_read(relay, bystander):
    trainer, worker = relay.dial("trainer", "learner"), relay.dial("worker", "pc")
    trainer.send(Grant(2**40, WORKER))
    granted = 0
    while not granted:
        granted = received_message(worker, Grant).window
    before = resident()
    for sequence in range(1, 201):
        worker.send(Chunk(WORKER, sequence, 8_000, 0), [bytes(2 * 2**20)])
    worker.send(Ping(1))
    received_message(worker, Pong)
    waiting = relay.server.status().trainer.waiting_bytes
    assert waiting <= 64 * 2**20
    assert resident() - before < 250 * 2**20, "400 MiB were sent"


def test_relay_refuses_more_connections_than_its_limit(tmp_path):
    relay = TestRelay(tmp_path / "relay", tls=False)
    relay.server._most = 3
    try:
        links = [relay.dial("worker", f"pc{number}", id=f"{number:016x}") for number in range(3)]
        with pytest.raises(Exception, match="3 connections, which is its limit"):
            relay.dial("worker", "one too many", id="f" * 16)
        for link in links:
            link.send(Ping(1))
            received_message(link, Pong)
    finally:
        relay.close()


def test_relay_shows_hostile_names_without_acting_on_them(local_relay, caplog):
    caplog.set_level("INFO")
    local_relay.dial("worker", "\x1b[2J\x07evil\n2026 INFO forged line")
    assert not any("\x1b" in line or "\n" in line for line in caplog.messages)


def test_link_refuses_what_a_false_relay_sends(local_relay):
    """The peers do not trust the relay either: sizes are checked on both sides."""
    worker = local_relay.dial("worker", "pc")
    connection = next(iter(local_relay.server._connections.values()))
    with local_relay.server._lock:
        connection.answer = Raw(Weights(1, Order(), 2**29))
        connection.changed.notify()
    with pytest.raises(LinkClosed, match="the relay sent what it must not send"):
        received_message(worker, Pong)


class Raw(msgspec.Struct, tag="chunk"):
    """Says that it is a chunk, and is none."""

    message: Weights


def test_spec_of_these_tests_allows_their_chunks():
    assert body_limit(Chunk(WORKER, 1, 8_000, 0), SPEC) >= 2 * 2**20

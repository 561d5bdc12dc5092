"""Telemetry of TrackMania: three formats told apart, torn and merged packets, lost connections."""

import random
import socket
import struct
import threading
import time

import pytest

from paddock.environments.trackmania.packets import CONNECT, FORMATS, GRAB, Packet, PacketStream, ProtocolError
from paddock.environments.trackmania.telemetry import TcpTelemetry


def packet(number, **values):
    """A packet whose numbers are all a single float's."""
    drawn = random.Random(number)
    made = {
        "speed": float(int(drawn.uniform(0, 300)) / 4),
        "distance": number * 0.5,
        "position": (drawn.randint(192, 783) + 0.25, 10.0, float(drawn.randint(433, 817))),
        "steer": drawn.randint(-8, 8) / 8,
        "gas": drawn.randint(0, 4) / 4,
        "brake": float(drawn.random() < 0.3),
        "is_finished": drawn.random() < 0.01,
        "gear": float(drawn.randint(0, 6)),
        "rpm": float(drawn.randint(0, 11_000)),
        "direction": (0.0, 0.0, 1.0),
        "race_time": number / 8,
    }
    return Packet(number=number, received=0, **{**made, **values})


def stream_of(form, count):
    return b"".join(form.pack(packet(number)) for number in range(1, count + 1))


def random_pieces(data, pieces, seed):
    drawn = random.Random(seed)
    cuts = sorted(drawn.randrange(len(data) + 1) for _ in range(pieces - 1))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: str(form.floats))
def test_telemetry_of_every_format_survives_100_000_random_splits(form):
    count = 1_200
    data = stream_of(form, count)
    expected = [form.read(form.unpack(form.pack(packet(number))), number, 0) for number in range(1, count + 1)]
    for seed in range(2):
        stream, found = PacketStream(), []
        for piece in random_pieces(data, 20_000, seed):
            found += stream.feed(piece)
        assert stream.format is form
        assert [str(one) for one in found] == [str(one) for one in expected]  # NaN equals itself as text


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: str(form.floats))
@pytest.mark.parametrize("size", [1, 43, 44, 45, 132, 1_024])
def test_telemetry_formats_are_told_apart_by_pieces_of_any_size(form, size):
    standing = b"".join(form.pack(packet(n, speed=0.0, distance=0.0, gas=0.0, steer=0.0)) for n in range(1, 30))
    for data in (stream_of(form, 30), standing):
        stream = PacketStream()
        found = [one for start in range(0, len(data), size) for one in stream.feed(data[start : start + size])]
        assert stream.format is form
        assert len(found) == len(data) // form.size


def test_telemetry_of_an_unknown_format_is_refused():
    stream = PacketStream()
    with pytest.raises(ProtocolError, match="not in a known format"):
        stream.feed(struct.pack("<40f", *[float(number) * 1e20 for number in range(40)]))
    stream = PacketStream()
    stream.feed(stream_of(GRAB, 5))
    with pytest.raises(ProtocolError, match="went on as something else"):
        stream.feed(b"\xff" * 44)


class Plugin:
    """Serves one client at a time, as the game does; what it sends is told from outside."""

    def __init__(self, port=0):
        self.server = socket.create_server(("127.0.0.1", port))
        self.port = self.server.getsockname()[1]
        self.client = None

    def accept(self):
        self.server.settimeout(5)
        if self.client is not None:
            self.client.close()
        self.client, _ = self.server.accept()

    def close(self):
        for one in (self.client, self.server):
            if one is not None:
                one.close()


@pytest.fixture
def plugin():
    made = Plugin()
    yield made
    made.close()


def test_telemetry_client_comes_back_within_a_second_of_a_restart(plugin):
    telemetry = TcpTelemetry(plugin.port)
    try:
        plugin.accept()
        for byte in stream_of(GRAB, 4):
            plugin.client.send(bytes([byte]))
        first = telemetry.wait(0, 5)
        assert telemetry.wait(first.number, 0.05) is None or telemetry.newest.number <= 4
        plugin.client.send(GRAB.pack(packet(9))[:20])  # half a packet, then the game is gone
        plugin.close()
        before = telemetry.newest.number
        time.sleep(0.3)
        again = Plugin(plugin.port)
        began = time.perf_counter()
        again.accept()
        again.client.send(stream_of(GRAB, 4))  # several packets in one write
        newest = telemetry.wait(before, 5)
        assert time.perf_counter() - began < 1.5
        assert newest is not None
        assert newest.number > before
        assert telemetry.age < 1.0
        again.close()
    finally:
        telemetry.close()


def test_telemetry_client_that_hears_another_protocol_says_so(plugin):
    telemetry = TcpTelemetry(plugin.port)
    try:
        plugin.accept()
        plugin.client.send(b"HTTP/1.1 200 OK\r\n" * 20)
        deadline = time.monotonic() + 5
        while "known format" not in telemetry.problem and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "not in a known format" in telemetry.problem
        plugin.accept()  # It tries again.
        plugin.client.send(stream_of(CONNECT, 3))
        assert telemetry.wait(0, 5).race_time is not None
        assert telemetry.format is CONNECT
    finally:
        telemetry.close()


def test_telemetry_client_costs_nothing_while_the_game_is_silent(plugin):
    telemetry = TcpTelemetry(plugin.port)
    try:
        plugin.accept()
        time.sleep(0.2)
        before, began = time.process_time(), time.perf_counter()
        time.sleep(1.0)
        assert (time.process_time() - before) / (time.perf_counter() - began) < 0.05
        assert "menu" in telemetry.problem
    finally:
        telemetry.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("telemetry")]

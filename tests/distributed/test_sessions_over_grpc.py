"""Sessions over real sockets with mutual TLS: relays that restart, a network that cuts, processes that are killed."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_processes import Campaign, random_strike

from paddock.distributed.chunk_files import OutgoingChunk
from paddock.distributed.connection import Dial
from paddock.distributed.relay import RelayServer
from paddock.distributed.sessions import TrainerSession, WorkerSession
from paddock.distributed.wire.dial import dial
from relay_cases import TestRelay, hello


def chunk(number: int, size: int = 2_000) -> OutgoingChunk:
    return OutgoingChunk(steps=20, version=0, header=b"layout", body=[number.to_bytes(8, "little"), bytes(size)])


def number_of(body: memoryview) -> int:
    return int.from_bytes(body[:8], "little")


class Proxy:
    """Between sessions and relay: `cut` breaks what is open, bytes are late by up to `delay` seconds."""

    def __init__(self, port: int, delay: float = 0.0) -> None:
        self._target, self._delay = port, delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._stop.set()
        self.cut()
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        carriers = []
        while not self._stop.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                near, _ = self._listener.accept()
                carriers.append(threading.Thread(target=self._carry, args=(near,), daemon=True))
                carriers[-1].start()
        for thread in carriers:
            thread.join()

    def _carry(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        pair = {near: far, far: near}
        self._open |= set(pair)
        try:
            while not self._stop.is_set():
                for one in select.select(list(pair), [], [], 0.05)[0]:
                    data = one.recv(2**16)
                    if not data:
                        return
                    if self._delay:
                        time.sleep(random.uniform(0, self._delay))
                    pair[one].sendall(data)
        except OSError:
            pass
        finally:
            self._open -= set(pair)
            for one in pair:
                one.close()


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[TestRelay]:
    made = TestRelay(tmp_path / "relay", tls=True)
    yield made
    made.close()


def dialling(relay: TestRelay, role: str, name: str, port: int | None = None) -> Dial:
    address = relay.folder.invite(name, role, port=port or relay.port)
    return lambda hello: dial(address, hello, timeout=3.0)


def take_all(trainer: TrainerSession, counts: dict[str, int], seconds: float) -> None:
    """Take until every worker's chunks are there: once each, in order."""
    seen = dict.fromkeys(counts, 0)
    deadline = time.monotonic() + seconds
    while seen != counts:
        assert time.monotonic() < deadline, f"{seen} of {counts} arrived"
        one = trainer.take(timeout=0.5)
        if one is not None:
            assert one.sequence == number_of(one.body) == seen[one.worker] + 1
            seen[one.worker] += 1


def test_sessions_over_grpc_survive_restarts_of_the_relay(tmp_path: Path, relay: TestRelay) -> None:
    worker = WorkerSession.open(tmp_path / "spool", dial=dialling(relay, "worker", "pc"), hello=hello("worker", "pc"))
    trainer = TrainerSession.open(
        tmp_path / "journal", dial=dialling(relay, "trainer", "learner"), hello=hello("trainer", "learner")
    )
    port = relay.port
    version = trainer.publish([bytes(3 * 2**20)])
    for number in range(1, 121):
        assert worker.offer(chunk(number), timeout=10.0)
        if number % 40 == 20:
            relay.server.stop()
            relay.server = RelayServer(relay.path, host="127.0.0.1", port=port)
            relay.server.start()
        time.sleep(0.005)
    take_all(trainer, {worker.id: 120}, 60)
    deadline = time.monotonic() + 20
    while worker.weights is None or worker.weights.version < version:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert worker.weights.body == bytes(3 * 2**20)
    worker.close(drain_seconds=5)
    trainer.close()


def test_sessions_through_a_network_that_delays_and_cuts_deliver_every_chunk_once(
    tmp_path: Path, relay: TestRelay
) -> None:
    proxy = Proxy(relay.port, delay=0.005)
    workers = [
        WorkerSession.open(
            tmp_path / f"spool-{index}",
            dial=dialling(relay, "worker", f"pc-{index}", proxy.port),
            hello=hello("worker", f"pc-{index}"),
        )
        for index in range(2)
    ]
    trainer = TrainerSession.open(
        tmp_path / "journal", dial=dialling(relay, "trainer", "learner", proxy.port), hello=hello("trainer", "learner")
    )
    cuts = random.Random(3)
    for number in range(1, 151):
        for worker in workers:
            assert worker.offer(chunk(number), timeout=20.0)
        if cuts.random() < 0.06:
            proxy.cut()
        if number % 10 == 0:
            trainer.publish([bytes(50_000)])
        time.sleep(0.01)
    take_all(trainer, {worker.id: 150 for worker in workers}, 60)
    assert max(worker.status.link.connections for worker in workers) > 2
    for worker in workers:
        worker.close(drain_seconds=5)
    trainer.close()
    proxy.close()


@pytest.mark.slow
def test_sigkill_of_workers_trainer_and_relay_loses_and_repeats_no_chunk(tmp_path: Path) -> None:
    """Twenty kills in less than a minute; `benchmarks/relay_kills.py` goes on for longer."""
    campaign = Campaign(tmp_path)
    chance = random.Random(5)
    try:
        struck = {random_strike(campaign, chance) for _ in range(20)}
        assert campaign.finish() > 200
        assert struck == set(campaign.names)
    finally:
        campaign.close()

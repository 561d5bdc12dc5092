"""A relay on this machine's loopback for tests, with certificates or with a token, and peers that dial it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from paddock.core.specs import ArraySpec, Spec

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from paddock.distributed.relay import RelayServer
from paddock.distributed.wire.addresses import Invitation, LocalAddress
from paddock.distributed.wire.certificates import RelayFolder
from paddock.distributed.wire.dial import dial
from paddock.distributed.wire.link import Link
from paddock.distributed.wire.messages import Hello, Message

SPEC = Spec(
    observation={"rays": ArraySpec(shape=(19,), dtype="float32")}, action=ArraySpec(shape=(2,), dtype="float32")
)
WORKER, TRAINER = "a" * 16, "b" * 16


def hello(role: str = "worker", name: str = "pc", **changes) -> Hello:
    values = {
        "id": TRAINER if role == "trainer" else WORKER,
        "run": "run-1" if role == "trainer" else "",
        "experiment": "racing",
        "spec": SPEC,
        "sent": time.time(),
    }
    return Hello(role=role, name=name, **(values | changes))


class TestRelay:
    """A relay that runs in this process."""

    __test__ = False

    def __init__(self, folder: Path, *, tls: bool) -> None:
        self.path, self.tls = folder, tls
        self.folder = RelayFolder(folder)
        if tls:
            self.folder.initialise("127.0.0.1")
        self.server = RelayServer(folder, host="127.0.0.1", port=0)
        self.server.start()
        self._links: list[Link] = []

    @property
    def port(self) -> int:
        return self.server.port

    def address(self, name: str, role: str) -> Invitation | LocalAddress:
        if self.tls:
            return self.folder.invite(name, role, port=self.port)
        return LocalAddress.read(self.path)

    def dial(self, role: str = "worker", name: str = "pc", address=None, **changes) -> Link:
        link = dial(address or self.address(name, role), hello(role, name, **changes), timeout=5)
        self._links.append(link)
        return link

    def close(self) -> None:
        for link in self._links:
            link.close()
        self.server.stop()


def receive(link: Link, kind: type, timeout: float = 3.0):
    """The next message of a kind, with its body; what else comes is passed over."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        received = link.receive(left)
        if received is not None and isinstance(received.message, kind):
            return received
    raise AssertionError(f"no {kind.__name__} came within {timeout} s")


def received_message(link: Link, kind: type, timeout: float = 3.0) -> Message:
    return receive(link, kind, timeout).message


def relay_log(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

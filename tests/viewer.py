"""Whoever looks at a run in these tests: over its own channel, or over a server that is a real process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import ClassVar

import msgspec
from websockets.client import ClientProtocol
from websockets.frames import DATA_OPCODES, Frame
from websockets.uri import parse_uri

from paddock.control.address import Address, read_address
from paddock.control.messages import LARGEST_MESSAGE
from paddock.core.paths import paddock_home
from warm_program import WarmProcess, warm_program

SMALL_RACING = [
    "environment.track=oval", "environment.num_envs=16", "workflow.rollout_steps=320", "workflow.minibatch_size=160",
    "workflow.epochs=1", "evaluation.episodes=1", "logging.every_steps=640", "logging.tensorboard=false",
]  # fmt: skip


def token_file(port: int) -> Path:
    """Where the owner of the server at a port finds what opens it."""
    return paddock_home() / "dashboard" / f"{port}.json"


def token_of(port: int) -> str:
    """What opens the server at a port, as its owner's scripts find it; empty while there is none."""
    file = token_file(port)
    return json.loads(file.read_bytes())["token"] if file.exists() else ""


class ChannelViewer:
    """A plain client of a run's channel, over a socket of its own. `opened`: all that a test has to close."""

    opened: ClassVar[list["ChannelViewer"]] = []

    def __init__(self, folder: Path, *, token: str | None = None, patience: float = 30.0) -> None:
        give_up = time.monotonic() + patience
        while (address := read_address(folder)) is None:
            assert time.monotonic() < give_up, "the run opens no channel"
            time.sleep(0.01)
        self.connection = socket.create_connection(("127.0.0.1", address.port), timeout=20)
        self.opened.append(self)
        self._protocol = ClientProtocol(parse_uri(f"ws://127.0.0.1:{address.port}"), max_size=LARGEST_MESSAGE)
        self._heard: list[dict] = []
        self._number = 0
        headers = address.headers if token is None else Address(address.port, token, address.pid).headers
        request = self._protocol.connect()
        request.headers.update(headers)
        self._protocol.send_request(request)
        self._flush()
        while self._protocol.state.name == "CONNECTING" and self._protocol.handshake_exc is None:
            self._read()

    @property
    def close_code(self) -> int | None:
        """What the run said when it closed the connection."""
        received = self._protocol.close_rcvd
        return received.code if received is not None else None

    def send(self, message: dict) -> None:
        self.send_bytes(msgspec.msgpack.encode(message))

    def send_bytes(self, data: bytes) -> None:
        self._protocol.send_binary(data)
        self._flush()

    def wait_for(self, kind: str, patience: float = 20.0) -> dict:
        """The next message of a kind; those before it are passed over."""
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up:
            while self._heard:
                message = self._heard.pop(0)
                if message["type"] == kind:
                    return message
            self._read()
        raise TimeoutError(f"no {kind}")

    def ask(self, command: str, **arguments) -> dict:
        """The reply to a request, with what it resulted in."""
        self._number += 1
        self.send({"type": "request", "id": self._number, "command": command, "arguments": arguments, "by": "test"})
        reply = self.wait_for("reply")
        assert reply["id"] == self._number
        return {**reply, **reply["result"]}

    def close(self) -> None:
        self.connection.close()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self.connection.sendall(data)

    def _read(self) -> None:
        data = self.connection.recv(1 << 16)
        if not data:
            raise EOFError("the run has hung up")
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in DATA_OPCODES:
                self._heard.append(msgspec.msgpack.decode(bytes(event.data), strict=False))
        with contextlib.suppress(OSError):
            self._flush()
        has_ended = self._protocol.handshake_exc is not None or self.close_code is not None
        if has_ended and not self._heard:  # What came before the end is heard first.
            raise EOFError("the run has hung up")


class Wall:
    """`paddock dashboard` as a process, in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.token = ""
        self.start()

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "paddock",
            "dashboard",
            "--no-browser",
            "--port",
            str(self.port),
            *self.options,
        ]
        self.log = self.folder / "server.log"
        with self.log.open("wb") as log:
            os.fchmod(log.fileno(), 0o644)  # whatever the umask is: see test_page_token.py
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT)
        give_up = time.monotonic() + 150
        while b"Ctrl-C" not in self.log.read_bytes():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < give_up, "the server does not come up"
            time.sleep(0.05)
        self.token = token_of(self.port)

    def ask(self, path: str, values: dict | None = None, **headers: str):
        """Status and JSON of GET, or of POST where values are given; with the token unless a header says otherwise."""
        data = None if values is None else json.dumps(values).encode()
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def get(self, path: str):
        status, values = self.ask(path)
        assert status == 200, values
        return values

    def post(self, path: str, **values):
        status, answer = self.ask(path, values)
        assert status == 200, answer
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the server, and the processes that were started in its folder."""
        self.kill()
        for file in [*self.folder.glob("runs/*/manifest.json"), *self.folder.glob("runs/drives/*/manifest.json")]:
            end(int(json.loads(file.read_text())["pid"]), self.folder)


def end(process: int, folder: Path) -> None:
    """Kill a process that works in `folder`, if there is one of this number."""
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/{process}/cwd").startswith(str(folder)):
            os.kill(process, signal.SIGKILL)


def train(folder: Path, *arguments: str) -> WarmProcess:
    """`paddock train` as a process of its own."""
    return warm_program().start(["train", *arguments, "logging.tensorboard=false"], folder, folder / "train.log")


def until(holds, patience: float = 150.0):
    """Wait for something to be true; what it was."""
    give_up = time.monotonic() + patience
    while not (found := holds()):
        assert time.monotonic() < give_up, "it did not come true"
        time.sleep(0.05)
    return found

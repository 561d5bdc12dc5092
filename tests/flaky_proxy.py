"""A TCP proxy on the loopback that delays bytes, breaks connections, and is away for moments."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from pathlib import Path


class FlakyProxy:
    """Forwards to the relay whose token file is in `relay`; writes such a file with its own port into `folder`."""

    def __init__(self, relay: Path, folder: Path, seed: int = 0) -> None:
        self._relay, self._chance = relay, random.Random(seed)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self.broken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def write_address(self) -> None:
        """Do so once the relay has written its own."""
        values = json.loads((self._relay / "local.json").read_text())
        values["port"] = self._listener.getsockname()[1]
        file = self._folder / "local.json"
        file.touch(0o600)
        file.write_text(json.dumps(values))

    def shake(self, seconds: float, every: float) -> None:
        """Break one connection after the other for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self._chance.uniform(0.5, 1.5) * every)
            with self._lock:
                if not self._pairs:
                    continue
                pair = self._pairs.pop(self._chance.randrange(len(self._pairs)))
            self.broken += 1
            for one in pair:
                _abort(one)

    def close(self) -> None:
        self._is_closed = True
        self._listener.close()
        for pair in self._pairs:
            for one in pair:
                _abort(one)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            port = json.loads((self._relay / "local.json").read_text())["port"]
            try:
                server = socket.create_connection(("127.0.0.1", port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                if self._chance.random() < 0.05:
                    time.sleep(self._chance.uniform(0.0, 0.1))
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            _abort(one)


def _abort(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()

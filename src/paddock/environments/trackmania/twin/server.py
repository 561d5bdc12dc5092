"""The twin as a process: telemetry, pad, screen and control on this machine, by a clock of its own or in lock-step."""

from __future__ import annotations

import json
import math
import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paddock.core.errors import InputError, PaddockError
from paddock.core.reading import parse_json
from paddock.environments.trackmania.pad import MAGIC, RUMBLE, read_datagram
from paddock.environments.trackmania.screen import SharedScreenWriter, shared_folder
from paddock.environments.trackmania.twin.faults import SLOW_FACTOR
from paddock.environments.trackmania.twin.game import TwinGame, TwinSettings
from paddock.environments.trackmania.twin.window import TwinWindow

HOST = "127.0.0.1"
LONGEST_COMMAND = 16 * 1024  # bytes
LATE = 0.25  # s behind its schedule from which on frames are not made up for
COMMAND_SECONDS = 1.0
ATTEMPTS = 50  # at three free ports in a row
MOST_FRAMES = 100_000  # of one command
CONTROL_PROTOCOL = "2"


class TwinServer:
    """Ports of this machine only: telemetry on `port`, control one above it, the pad two above, ghosts on their own.

    With port 0 three free ones in a row are taken; `addresses()` tells which.
    """

    def __init__(
        self,
        settings: TwinSettings,
        *,
        port: int = 9000,
        ghost_port: int = 10_000,
        lock_step: bool = False,
        window: TwinWindow | None = None,
    ) -> None:
        self.game, self.settings, self.lock_step, self._window = TwinGame(settings), settings, lock_step, window
        self._telemetry, self._control, self._pad = _open_ports(port) if port else _any_ports()
        self._ghosts = _listen(ghost_port if port else 0)
        self._pad_address: tuple[str, int] | None = None
        self._client: socket.socket | None = None
        self._commands: dict[socket.socket, bytes] = {}
        self.saved_ghosts = 0
        name = f"paddock-twin-{os.getpid()}-{self._port(self._telemetry)}"
        self._screen = SharedScreenWriter(shared_folder() / name, settings.width, settings.height)
        self._screen.write(self.game.picture())
        self.is_closing = False

    def addresses(self) -> dict[str, Any]:
        """Where a client finds what."""
        return {
            "telemetry": self._port(self._telemetry),
            "control": self._port(self._control),
            "pad": self._port(self._pad),
            "ghosts": self._port(self._ghosts),
            "screen": str(self._screen.path),
            "width": self.settings.width,
            "height": self.settings.height,
            "track": self.game.track.name,
            "countdown": self.settings.countdown,
        }

    def run(self) -> None:
        """Until `is_closing` is set, by a signal or a closed window."""
        period = 1.0 / self.settings.frame_rate
        due = time.perf_counter() + period
        while not self.is_closing:
            wait = 0.05 if self.lock_step else max(0.0, due - time.perf_counter())
            self._serve(wait)
            if self.lock_step or time.perf_counter() < due:
                continue
            self.frame()
            due += period * (SLOW_FACTOR if self.game.is_faulty("slow") else 1)
            if time.perf_counter() - due > LATE:
                due = time.perf_counter() + period
        self.close()

    def frame(self) -> None:
        """Move the game on by a frame, and show and tell what came of it."""
        self.game.frame()
        picture = self.game.picture()
        self._screen.write(picture)
        if self._window is not None:
            held = self._window.show(picture)
            self.is_closing |= self._window.is_closed
            if held is not None:
                self.game.use_pad(*held)
        if self.game.is_faulty("drop"):
            self._drop_client()
        data = self.game.packet()
        if data is not None and self._client is not None:
            try:
                self._client.send(data)
            except OSError:
                self._drop_client()
        if self.game.rumble and self._pad_address is not None:
            with suppress(OSError):
                self._pad.sendto(RUMBLE.pack(MAGIC, self.game.rumble), self._pad_address)

    def close(self) -> None:
        self._drop_client()
        for one in (self._telemetry, self._control, self._ghosts, self._pad, *self._commands):
            one.close()
        self._screen.close()
        if self._window is not None:
            self._window.close()

    def _serve(self, seconds: float) -> None:
        """Whatever comes in within so many seconds, at least once."""
        # One client at a time: a second one waits in the queue, as with the plugin.
        listeners = [self._control, self._ghosts, self._pad, *self._commands]
        listeners += [self._telemetry] if self._client is None else [self._client]
        ready, _, _ = select.select(listeners, [], [], seconds)
        for one in ready:
            if one is self._pad:
                self._read_pad()
            elif one is self._telemetry:
                self._client, _ = self._telemetry.accept()
                self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._client.setblocking(False)
            elif one is self._client:
                self._see_whether_client_is_gone()
            elif one is self._ghosts:
                self._ghosts.accept()[0].close()
                self.saved_ghosts += 1
            elif one is self._control:
                accepted, _ = self._control.accept()
                accepted.settimeout(COMMAND_SECONDS)
                self._commands[accepted] = b""
            else:
                self._read_command(one)

    def _see_whether_client_is_gone(self) -> None:
        assert self._client is not None
        try:
            data = self._client.recv(1_024)  # The plugin never reads; what a client says has no meaning.
        except OSError:
            data = b""
        if not data:
            self._drop_client()

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def _read_pad(self) -> None:
        while True:
            try:
                data, sender = self._pad.recvfrom(256)
            except OSError:
                return
            held = read_datagram(data)
            if held is not None:
                self._pad_address = sender
                self.game.use_pad(*held)

    def _read_command(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(4_096)
        except OSError:
            data = b""
        held = self._commands[connection] + data
        line, newline, rest = held.partition(b"\n")
        if newline:
            self._commands[connection] = rest
            with suppress(OSError):
                connection.sendall(json.dumps(self._answer(line)).encode() + b"\n")
                return
        elif data and len(held) <= LONGEST_COMMAND:
            self._commands[connection] = held
            return
        connection.close()
        del self._commands[connection]

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = parse_json(line, depth=4)
            if not isinstance(asked, dict) or not isinstance(asked.get("command"), str):
                raise ValueError("a command is an object with the key 'command'")
            command = COMMANDS.get(asked["command"])
            if command is None:
                raise ValueError(f"unknown command; allowed: {', '.join(COMMANDS)}")
            return {"ok": True, **command(self, asked)}
        except (PaddockError, ValueError, TypeError) as error:
            return {"ok": False, "error": str(error)}

    @staticmethod
    def _port(one: socket.socket) -> int:
        return int(one.getsockname()[1])


def _describe(server: TwinServer, _: dict[str, Any]) -> dict[str, Any]:
    return server.addresses()


def _state(server: TwinServer, _: dict[str, Any]) -> dict[str, Any]:
    game = server.game
    lap_time = None if math.isnan(game.lap_time) else game.lap_time
    return {"stage": game.stage.value, "frames": game.frames, "restarts": game.restarts, "lap_time": lap_time}


def _fault(server: TwinServer, asked: dict[str, Any]) -> dict[str, Any]:
    server.game.add_fault(str(asked.get("kind")), float(asked.get("seconds", math.inf)))
    return {}


def _clear(server: TwinServer, _: dict[str, Any]) -> dict[str, Any]:
    server.game.clear_faults()
    return {}


def _step(server: TwinServer, asked: dict[str, Any]) -> dict[str, Any]:
    if not server.lock_step:
        raise InputError("this twin goes by its own clock; start it with --lock-step to step it.")
    count = int(asked.get("frames", 1))
    if not 1 <= count <= MOST_FRAMES:
        raise InputError(f"frames is {count}; allowed: 1 to {MOST_FRAMES}.")
    for _ in range(count):
        server._read_pad()
        server.frame()
    return {"frames": server.game.frames}


def _verify(server: TwinServer, _: dict[str, Any]) -> dict[str, Any]:
    return {"protocol": CONTROL_PROTOCOL, "map_uid": server.game.track.fingerprint, "map_name": server.game.track.name}


COMMANDS: dict[str, Callable[[TwinServer, dict[str, Any]], dict[str, Any]]] = {
    "describe": _describe,
    "state": _state,
    "fault": _fault,
    "clear_faults": _clear,
    "step": _step,
    "verify_loaded_map": _verify,
    "confirm_ready": _verify,
}


def _open_ports(port: int) -> tuple[socket.socket, socket.socket, socket.socket]:
    """Telemetry, control and pad, one after another."""
    opened = [_listen(port)]
    try:
        opened.append(_listen(port + 1))
        pad = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.append(pad)
        pad.bind((HOST, port + 2))
    except (OSError, InputError):
        for one in opened:
            one.close()
        raise
    pad.setblocking(False)
    return opened[0], opened[1], pad


def _any_ports() -> tuple[socket.socket, socket.socket, socket.socket]:
    for _ in range(ATTEMPTS):
        with _listen(0) as found:
            port = int(found.getsockname()[1])
        try:
            return _open_ports(port)
        except (OSError, InputError, OverflowError):
            continue
    raise InputError("there are no three free ports in a row on this machine; choose them with --port.")


def _listen(port: int) -> socket.socket:
    try:
        server = socket.create_server((HOST, port), backlog=4)
    except OSError as error:
        raise InputError(
            f"port {port} of this machine cannot be used ({error.strerror}); the game or another twin may have it. "
            "Choose another one with --port, or 0 for any."
        ) from error
    server.setblocking(False)
    return server

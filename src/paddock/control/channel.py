"""The control channel of a running process: a WebSocket server on this machine, in a thread of its own. It sends
viewers what happens and passes on their requests. The loop never waits for it, and it never waits for a viewer."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as Handshake
from websockets.http11 import Response

from paddock.control import messages as m
from paddock.control.address import FILE, Address, new_token, write_address
from paddock.core.errors import PaddockError
from paddock.render.jpeg import to_jpeg

log = logging.getLogger(__name__)

STATUS_EVERY = 0.5  # s
HANDSHAKE_TIMEOUT = 5.0  # s for the handshake, in which the token has to come
STUCK_TIMEOUT = 30.0  # s that a viewer may take for one message
PING_EVERY, PING_TIMEOUT = 20.0, 60.0  # s
CLOSE_TIMEOUT = 1.0  # s for saying goodbye
MOST_VIEWERS = 16
MOST_STRANGERS = 64  # connections without a handshake; beyond that the oldest one goes
ACCEPTED_AT_ONCE = MOST_STRANGERS // 2  # so that those before them have a turn to send their token
BACKLOG = 128  # connections that may wait to be accepted
MOST_WAITING = 256  # messages that may wait for one viewer
FULL, UNREADABLE = 1013, 1008  # close codes
Latest = Literal["snapshot", "picture"]
quiet = logging.Logger("websockets", logging.CRITICAL + 1)  # Strangers' broken handshakes are no news.


class Source(Protocol):
    """The run behind a channel. Called from the channel's thread."""

    def welcome(self) -> m.Welcome: ...

    def status(self) -> m.Status: ...

    def scene(self, track: int) -> dict[str, Any]: ...

    def request(self, request: m.Request, answer: Callable[[m.Answer], None]) -> None: ...

    def input(self, message: m.DriverInput) -> None: ...


class Connection(ServerConnection):
    """A connection that counts as a stranger's until its handshake is complete."""

    def __init__(self, *arguments: Any, strangers: dict[ServerConnection, None], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._strangers = strangers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._strangers[self] = None
        if len(self._strangers) > MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.pop(self, None)
        super().connection_lost(exc)


class Viewer:
    """One connection: what it wants to see, and what waits to be sent to it."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.rate = 0.0  # snapshots a second; 0 is none
        self.cars: tuple[int, ...] = ()  # those it follows: their rays and dials are sent
        self.wants_pictures = False
        self.sent: dict[Latest, int] = {"snapshot": 0, "picture": 0}  # the newest that it got
        self.waiting: deque[bytes] = deque()
        self.is_sending = False
        self.news = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether everything has been sent."""
        return not self.waiting and not self.is_sending

    def put(self, message: bytes) -> None:
        if len(self.waiting) >= MOST_WAITING:
            self.connection.transport.abort()
            return
        self.waiting.append(message)
        self.news.set()

    def wants(self, kind: Latest) -> bool:
        return self.rate > 0.0 if kind == "snapshot" else self.wants_pictures


class Channel:
    """Listens from `open` to `close`. `rate`, `cars` and `wants_pictures` sum up what the viewers want to see now.

    on_watched: called in the channel's thread whenever `is_watched` may have changed.
    """

    def __init__(self, source: Source, on_watched: Callable[[], None] = lambda: None) -> None:
        self._source, self._on_watched = source, on_watched
        self.rate = 0.0
        self.cars: tuple[int, ...] = ()
        self.wants_pictures = False
        self._latest: dict[Latest, tuple[int, Any]] = {}
        self._encoded: dict[Latest, tuple[int, bytes]] = {}
        self._viewers: set[Viewer] = set()
        self._strangers: dict[ServerConnection, None] = {}
        self._folder: Path | None = None  # None while it is closed

    def open(self, folder: Path) -> None:
        """Listen, and write the address to `folder`; where no socket can be opened, the run goes on without viewers."""
        try:
            listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
            self._token = new_token()
            write_address(folder, Address(listener.getsockname()[1], self._token, os.getpid()))
        except OSError as error:
            log.warning("this run cannot be watched: its channel could not be opened (%s).", error)
            return
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._arrival = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(listener,), name="channel", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what waits, and close every connection."""
        if self._folder is None:
            return
        self._call(self._closing.set)
        self._thread.join(timeout=5.0)
        (self._folder / FILE).unlink(missing_ok=True)
        self._folder = None

    @property
    def is_watched(self) -> bool:
        return self.rate > 0.0 or self.wants_pictures

    def publish_snapshot(self, snapshot: m.Snapshot) -> None:
        """The newest snapshot; one that was not sent yet is dropped."""
        self._publish("snapshot", snapshot)

    def publish_picture(self, picture: NDArray[np.uint8]) -> None:
        """The newest picture, uint8 [height, width, 3]; one that was not sent yet is dropped."""
        self._publish("picture", picture)

    def send(self, message: m.Lap) -> None:
        """A message to every viewer."""
        self._call(partial(self._send_to_all, message))

    def _publish(self, kind: Latest, content: Any) -> None:
        number, _ = self._latest.get(kind, (0, None))
        self._latest[kind] = (number + 1, content)
        self._call(self._announce)

    def _call(self, function: Callable[[], object]) -> None:
        if self._folder is not None:
            with suppress(RuntimeError):  # The channel has failed and its loop is closed.
                self._loop.call_soon_threadsafe(function)

    # --- the channel's own thread ---

    def _run(self, listener: socket.socket) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve(listener))
        except Exception:  # The run goes on whatever happens here.
            log.exception("the channel has failed; this run can no longer be watched")
        finally:
            self.rate, self.wants_pictures = 0.0, False
            self._on_watched()
            listener.close()

    async def _serve(self, listener: socket.socket) -> None:
        server = serve(
            self._serve_viewer,
            sock=listener,
            backlog=ACCEPTED_AT_ONCE,
            # `serve` only calls it, but declares a class.
            create_connection=partial(Connection, strangers=self._strangers),  # type: ignore[arg-type]
            process_request=self._check_token,
            compression=None,
            max_size=m.LARGEST_REQUEST,
            open_timeout=HANDSHAKE_TIMEOUT,
            ping_interval=PING_EVERY,
            ping_timeout=PING_TIMEOUT,
            close_timeout=CLOSE_TIMEOUT,
            server_header=None,
            logger=quiet,
        )
        async with server:
            listener.listen(BACKLOG)  # More may wait than are accepted at once.
            statuses = asyncio.create_task(self._send_statuses())
            await self._closing.wait()
            statuses.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    while any(viewer.waiting for viewer in self._viewers):
                        await asyncio.sleep(0.01)

    def _check_token(self, connection: ServerConnection, handshake: Handshake) -> Response | None:
        given = handshake.headers.get("Authorization", "").encode()
        if secrets.compare_digest(given, f"Bearer {self._token}".encode()):
            return None
        return connection.respond(401, "this channel wants the token of its run\n")

    async def _serve_viewer(self, connection: ServerConnection) -> None:
        self._strangers.pop(connection, None)
        if len(self._viewers) >= MOST_VIEWERS:
            await connection.close(FULL, f"{MOST_VIEWERS} viewers are connected already")
            return
        viewer = Viewer(connection)
        viewer.put(m.encode(self._source.welcome()))
        self._viewers.add(viewer)
        self._arrival.set()
        tasks = [asyncio.create_task(work(viewer)) for work in (self._receive_all, self._send_all)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._viewers.discard(viewer)
            self._sum_up()
            for task in tasks:
                task.cancel()
            for error in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(error, Exception) and not isinstance(error, ConnectionClosed):
                    log.debug("a viewer is disconnected: %s: %s", type(error).__name__, error)
            await connection.close(UNREADABLE)

    async def _receive_all(self, viewer: Viewer) -> None:
        async for data in viewer.connection:
            message = m.decode_viewer_message(data.encode() if isinstance(data, str) else data)
            if isinstance(message, m.Watch):
                self._watch(viewer, message)
            elif isinstance(message, m.SceneRequest):
                viewer.put(m.encode(m.Scene(message.track, self._source.scene(message.track))))
            elif isinstance(message, m.DriverInput):
                self._source.input(message)
            else:
                self._request(viewer, message)

    async def _send_all(self, viewer: Viewer) -> None:
        while True:
            await viewer.news.wait()
            viewer.news.clear()
            while (message := self._next(viewer)) is not None:
                viewer.is_sending = True
                try:
                    async with asyncio.timeout(STUCK_TIMEOUT):
                        await viewer.connection.send(message)
                except TimeoutError:
                    viewer.connection.transport.abort()
                    return
                viewer.is_sending = False

    def _next(self, viewer: Viewer) -> bytes | None:
        """What waits for a viewer, then the newest snapshot or picture that it has not got."""
        if viewer.waiting:
            return viewer.waiting.popleft()
        for kind, (number, content) in list(self._latest.items()):
            if viewer.wants(kind) and viewer.sent[kind] < number:
                viewer.sent[kind] = number
                return self._encode_latest(kind, number, content)
        return None

    def _encode_latest(self, kind: Latest, number: int, content: Any) -> bytes:
        """Once for all viewers."""
        if self._encoded.get(kind, (0, b""))[0] != number:
            message = content if kind == "snapshot" else m.Picture(to_jpeg(content))
            self._encoded[kind] = (number, m.encode(message))
        return self._encoded[kind][1]

    def _watch(self, viewer: Viewer, message: m.Watch) -> None:
        viewer.rate = min(max(message.rate, 0.0), m.FASTEST_RATE)
        viewer.cars = tuple(message.cars[: m.MOST_CARS])
        viewer.wants_pictures = message.pictures
        self._sum_up()

    def _sum_up(self) -> None:
        self.cars = tuple(sorted({car for viewer in self._viewers for car in viewer.cars}))
        self.wants_pictures = any(viewer.wants_pictures for viewer in self._viewers)
        self.rate = max((viewer.rate for viewer in self._viewers), default=0.0)
        self._on_watched()

    def _request(self, viewer: Viewer, request: m.Request) -> None:
        def answer(values: m.Answer) -> None:
            result = {name: value for name, value in values.items() if name not in ("ok", "error")}
            reply = m.Reply(request.id, bool(values["ok"]), values.get("error"), result)
            self._call(partial(self._put, viewer, m.encode(reply)))

        try:
            self._source.request(request, answer)
        except PaddockError as error:
            answer({"ok": False, "error": str(error)})

    def _put(self, viewer: Viewer, message: bytes) -> None:
        if viewer in self._viewers:
            viewer.put(message)

    def _announce(self) -> None:
        for viewer in self._viewers:
            viewer.news.set()

    def _send_to_all(self, message: m.RunMessage) -> None:
        data = m.encode(message)
        for viewer in self._viewers:
            viewer.put(data)

    async def _send_statuses(self) -> None:
        """Twice a second to viewers that have got everything else; nothing is computed while there are none."""
        while True:
            await self._arrival.wait()
            await asyncio.sleep(STATUS_EVERY)
            if not self._viewers:
                self._arrival.clear()
                continue
            try:
                status = m.encode(self._source.status())
            except Exception:  # Viewers go without; the run is not disturbed.
                log.exception("the run's status could not be read")
                continue
            for viewer in self._viewers:
                if viewer.is_idle:
                    viewer.put(status)

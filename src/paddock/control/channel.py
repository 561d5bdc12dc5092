"""The control channel of a running process: a thread that listens on this machine, tells whoever is connected what
goes on, and hands their requests over. The loop never waits for it, and it never waits for a viewer."""

from __future__ import annotations

import io
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paddock.control.messages import (
    FILE,
    LARGEST_REQUEST,
    Address,
    FrameError,
    Unpacker,
    new_token,
    pack,
    write_address,
)
from paddock.core.errors import PaddockError

log = logging.getLogger(__name__)

STATUS_EVERY = 0.5  # s
PATIENCE = 5.0  # s that a stranger has for saying the word
STUCK = 30.0  # s without taking a byte of what waits for it, after which a viewer is gone
MOST_VIEWERS = 16
MOST_STRANGERS = 64  # connections that have not said the word yet; beyond that the oldest one goes
BACKLOG = 128  # connections that may wait to be accepted
WAITING = 256  # frames that may wait for one viewer
FASTEST = 60.0  # snapshots a second
JPEG_QUALITY = 80
Message = dict[str, Any]


class Source(Protocol):
    """What the channel tells of, and whom requests are for. Called from the channel's thread."""

    def welcome(self) -> Message: ...

    def status(self) -> Message: ...

    def scene(self, track: int) -> Message: ...

    def request(self, message: Message, answer: Callable[[Message], None]) -> None: ...

    def input(self, message: Message) -> None: ...


class Viewer:
    """One connection: what it wants to see, and what waits to be sent to it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.unpacker = Unpacker(LARGEST_REQUEST)
        self.is_known = False
        self.rate = 0.0  # snapshots a second; 0 is none
        self.cars: tuple[int, ...] = ()  # whom it follows: their rays and dials are sent
        self.wants_pictures = False
        self.seen = {"snapshot": 0, "picture": 0}
        self.last_taken = time.monotonic()
        self._waiting: deque[memoryview] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether everything has been sent."""
        return not self._waiting

    @property
    def is_hopeless(self) -> bool:
        silence = time.monotonic() - self.last_taken
        return silence > PATIENCE if not self.is_known else not self.is_idle and silence > STUCK

    def send(self, frame: bytes) -> None:
        """Queue a frame and send what the connection takes."""
        if len(self._waiting) >= WAITING:
            raise FrameError("it does not read")
        if self.is_idle:
            self.last_taken = time.monotonic()
        self._waiting.append(memoryview(frame))
        self.flush()

    def flush(self) -> None:
        while self._waiting:
            try:
                sent = self.connection.send(self._waiting[0])
            except BlockingIOError:
                return
            self.last_taken = time.monotonic()
            if sent == len(self._waiting[0]):
                self._waiting.popleft()
            else:
                self._waiting[0] = self._waiting[0][sent:]


class Channel:
    """Listens from `open` to `close`. `rate`, `cars` and `wants_pictures` say what anybody wants to see right now."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.rate = 0.0
        self.cars: tuple[int, ...] = ()
        self.wants_pictures = False
        self._latest: dict[str, tuple[int, Any]] = {}
        self._said: deque[tuple[Viewer | None, Message]] = deque(maxlen=4 * WAITING)
        self._viewers: dict[socket.socket, Viewer] = {}
        self._is_closing = False
        self._folder: Path | None = None  # None while it is closed

    def open(self, folder: Path) -> None:
        """Listen, and say where in `folder`. A machine without sockets costs the run nothing but its viewers."""
        try:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
            self._token = new_token()
            write_address(folder, Address(self._listener.getsockname()[1], self._token, os.getpid()))
        except OSError as error:
            log.warning("nobody can watch this run: its channel could not be opened (%s).", error)
            return
        self._wake_end, self._woken_end = socket.socketpair()
        self._folder = folder
        for end in (self._listener, self._wake_end, self._woken_end):
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken_end, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="channel", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up on everybody."""
        if self._folder is None:
            return
        self._is_closing = True
        self._wake()
        self._thread.join(timeout=5.0)
        (self._folder / FILE).unlink(missing_ok=True)
        self._folder = None

    @property
    def is_watched(self) -> bool:
        return self.rate > 0.0 or self.wants_pictures

    def publish(self, kind: str, content: Any) -> None:
        """The newest `snapshot` (a message) or `picture` (uint8 [height, width, 3]); an older one is forgotten."""
        number, _ = self._latest.get(kind, (0, None))
        self._latest[kind] = (number + 1, content)
        self._wake()

    def say(self, message: Message) -> None:
        """Something that everybody who is there shall hear."""
        self._said.append((None, message))
        self._wake()

    def _wake(self) -> None:
        if self._folder is not None:
            with suppress(OSError):  # Full means that the thread will wake anyway.
                self._wake_end.send(b"!")

    # --- the channel's own thread ---

    def _serve(self) -> None:
        next_status = 0.0
        try:
            while not self._is_closing:
                for key, events in self._selector.select(STATUS_EVERY if self._viewers else None):
                    self._attend(key.fileobj, events)
                self._send_said()
                self._send_latest()
                if self._viewers and time.monotonic() >= next_status:
                    next_status = time.monotonic() + STATUS_EVERY
                    self._send_status()
            self._send_said()
        except Exception:  # The run goes on whatever happens here.
            log.exception("the channel has failed; this run can no more be watched")
        finally:
            self.rate, self.wants_pictures = 0.0, False
            for viewer in list(self._viewers.values()):
                self._drop(viewer)
            for end in (self._listener, self._wake_end, self._woken_end):
                end.close()
            self._selector.close()

    def _attend(self, connection: Any, events: int) -> None:
        if connection is self._listener:
            self._accept()
        elif connection is self._woken_end:
            with suppress(OSError):
                self._woken_end.recv(4096)
        elif (viewer := self._viewers.get(connection)) is not None:
            self._guarded(viewer, self._serve_viewer, viewer, events)

    def _accept(self) -> None:
        """Take in who waits. Strangers have places of their own: who knows the word always finds one to say it."""
        for _ in range(MOST_STRANGERS // 2):  # Half of them at once: who came before has a turn to say the word.
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._viewers[connection] = Viewer(connection)
            self._selector.register(connection, selectors.EVENT_READ)
            strangers = [viewer for viewer in self._viewers.values() if not viewer.is_known]
            if len(strangers) > MOST_STRANGERS:
                self._drop(strangers[0])

    def _serve_viewer(self, viewer: Viewer, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            viewer.flush()
        if events & selectors.EVENT_READ:
            data = viewer.connection.recv(1 << 16)
            if not data:
                raise FrameError("it has hung up")
            for message in viewer.unpacker.feed(data):
                self._hear(viewer, message)

    def _hear(self, viewer: Viewer, message: Message) -> None:
        kind = message.get("type")
        if not viewer.is_known:
            if kind != "hello" or not secrets.compare_digest(str(message.get("token")).encode(), self._token.encode()):
                raise FrameError("it does not know the word")
            if sum(one.is_known for one in self._viewers.values()) >= MOST_VIEWERS:
                raise FrameError(f"{MOST_VIEWERS} are there already")
            viewer.is_known = True
            viewer.send(pack({"type": "welcome", **self._source.welcome()}))
        elif kind == "watch":
            self._watch(viewer, message)
        elif kind == "scene":
            viewer.send(pack({"type": "scene", "track": int(message.get("track", 0)), **self._scene(message)}))
        elif kind == "input":
            self._source.input(message)
        elif kind == "request":
            self._request(viewer, message)

    def _scene(self, message: Message) -> Message:
        return {"scene": self._source.scene(int(message.get("track", 0)))}

    def _watch(self, viewer: Viewer, message: Message) -> None:
        viewer.rate = min(max(float(message.get("rate", 0.0)), 0.0), FASTEST)
        viewer.cars = tuple(int(car) for car in message.get("cars", ())[:64])
        viewer.wants_pictures = bool(message.get("pictures", False))
        self._sum_up()

    def _sum_up(self) -> None:
        viewers = list(self._viewers.values())
        self.cars = tuple(sorted({car for viewer in viewers for car in viewer.cars}))
        self.wants_pictures = any(viewer.wants_pictures for viewer in viewers)
        self.rate = max((viewer.rate for viewer in viewers), default=0.0)

    def _request(self, viewer: Viewer, message: Message) -> None:
        number = message.get("id")

        def answer(values: Message) -> None:
            self._said.append((viewer, {"type": "reply", "id": number, **values}))
            self._wake()

        try:
            self._source.request(message, answer)
        except PaddockError as error:
            answer({"ok": False, "error": str(error)})

    def _send_said(self) -> None:
        while self._said:
            target, message = self._said.popleft()
            frame = pack(message)
            for viewer in [target] if target is not None else list(self._viewers.values()):
                if viewer.is_known and viewer.connection in self._viewers:
                    self._guarded(viewer, viewer.send, frame)

    def _send_latest(self) -> None:
        for kind, (number, content) in list(self._latest.items()):
            frame: bytes | None = None
            for viewer in list(self._viewers.values()):
                is_wanted = viewer.rate > 0.0 if kind == "snapshot" else viewer.wants_pictures
                if not is_wanted or not viewer.is_idle or viewer.seen[kind] >= number:
                    continue
                if frame is None:
                    frame = pack(content if kind == "snapshot" else {"type": kind, "jpeg": to_jpeg(content)})
                viewer.seen[kind] = number
                self._guarded(viewer, viewer.send, frame)

    def _send_status(self) -> None:
        frame = pack({"type": "status", **self._source.status()})
        for viewer in list(self._viewers.values()):
            if viewer.is_hopeless:
                self._drop(viewer)
            elif viewer.is_known and viewer.is_idle:
                self._guarded(viewer, viewer.send, frame)

    def _guarded(self, viewer: Viewer, act: Callable[..., None], *arguments: Any) -> None:
        """Whatever goes wrong with one viewer is the end of that viewer only."""
        try:
            act(*arguments)
        except Exception as error:
            log.debug("a viewer is let go of: %s: %s", type(error).__name__, error)
            self._drop(viewer)
            return
        wanted = selectors.EVENT_READ if viewer.is_idle else selectors.EVENT_READ | selectors.EVENT_WRITE
        if viewer.connection in self._viewers and self._selector.get_key(viewer.connection).events != wanted:
            self._selector.modify(viewer.connection, wanted)

    def _drop(self, viewer: Viewer) -> None:
        if self._viewers.pop(viewer.connection, None) is not None:
            self._selector.unregister(viewer.connection)
        viewer.connection.close()
        self._sum_up()


def to_jpeg(picture: NDArray[np.uint8]) -> bytes:
    """A picture [height, width, 3] as a JPEG file."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()

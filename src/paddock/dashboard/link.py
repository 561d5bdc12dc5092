"""The server's end of a run's control channel: one connection a run, shared by everybody who looks at it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections import deque
from contextlib import suppress
from typing import Any

import psutil

from paddock.control.messages import LARGEST_FRAME, LENGTH, Address, FrameError, decode, pack, read_address
from paddock.dashboard.errors import Refused
from paddock.experiments.run import RunFolder

log = logging.getLogger(__name__)

PATIENCE = 20.0  # s that a request waits for the run's safe point
GREETING = 5.0  # s that a run has for its welcome
WAITING = 256  # messages kept for a listener that does not come to fetch them
Message = dict[str, Any]


def proven_address(run: RunFolder) -> Address:
    """Where a run listens, if it is the run's own process that does.

    The file is data: one that came from elsewhere could name any port of this machine and any bytes to send there.
    So it has to name a process of this user that holds the run and listens at that port.
    """
    address = read_address(run.path)
    if address is None or not run.is_held():
        raise FrameError("it has no channel")
    try:
        process = psutil.Process(address.pid)
        is_mine = process.uids().effective == os.geteuid()
        holds_run = str((run.path / "lock").resolve()) in [file.path for file in process.open_files()]
        listens = ("127.0.0.1", address.port) in [
            tuple(one.laddr) for one in process.net_connections("tcp4") if one.status == psutil.CONN_LISTEN
        ]
    except psutil.Error as error:
        raise FrameError("the process that its channel names cannot be looked at") from error
    if not (is_mine and holds_run and listens):
        raise FrameError("its channel names a process or a port that is not the run's")
    return address


class Listener:
    """Somebody who looks at a run: what it wants, and what is new for it. Only the newest picture is kept."""

    def __init__(self) -> None:
        self.rate = 0.0
        self.car: int | None = None
        self.wants_rays = False
        self.wants_pictures = False
        self.snapshot: Message | None = None
        self.picture: bytes | None = None
        self.messages: deque[Message] = deque(maxlen=WAITING)
        self.news = asyncio.Event()


class RunLink:
    """A connection to one run."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.welcome: Message = {}
        self.is_open = False
        self.listeners: set[Listener] = set()
        self._scenes: dict[int, asyncio.Future[Message]] = {}
        self._replies: dict[int, asyncio.Future[Message]] = {}
        self._numbers = itertools.count(1)
        self.status: Message = {}

    async def open(self) -> None:
        """Connect and be welcomed."""
        try:
            address = await asyncio.to_thread(proven_address, self.run)
            async with asyncio.timeout(GREETING):
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", address.port)
                self._send({"type": "hello", "token": address.token})
                self.welcome = await self._receive()
        except (OSError, EOFError, FrameError, TimeoutError) as error:
            raise Refused(f"run '{self.run.name}' cannot be reached: {error or 'it does not answer'}.", 409) from error
        self.status = {"type": "status", **self.welcome.get("status", {})}
        self.is_open = True
        self._task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        if self.is_open:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def join(self, listener: Listener) -> None:
        self.listeners.add(listener)
        listener.messages.append(self.status)
        self.watch()

    def leave(self, listener: Listener) -> None:
        self.listeners.discard(listener)
        self.watch()

    def watch(self) -> None:
        """Tell the run what its listeners want by now."""
        cars = {listener.car for listener in self.listeners if listener.car is not None}
        self._send(
            {
                "type": "watch",
                "rate": max((listener.rate for listener in self.listeners), default=0.0),
                "cars": sorted(cars),
                "pictures": any(listener.wants_pictures for listener in self.listeners),
            }
        )

    def give(self, message: Message) -> None:
        """Pass something on that wants no answer."""
        self._send(message)

    async def request(self, command: str, arguments: Message) -> Message:
        """What came of it, or a refusal with the run's own sentence."""
        number = next(self._numbers)
        future = self._replies[number] = asyncio.get_running_loop().create_future()
        self._send({"type": "request", "id": number, "command": command, "arguments": arguments, "by": "dashboard"})
        try:
            async with asyncio.timeout(PATIENCE):
                reply = await future
        except TimeoutError:
            return {"ok": True, "is_pending": True}
        finally:
            self._replies.pop(number, None)
        if not reply.pop("ok", False):
            raise Refused(str(reply.get("error")))
        return {"ok": True, **{key: value for key, value in reply.items() if key not in ("type", "id")}}

    async def scene(self, track: int) -> Message:
        """What stands still on one of the run's tracks."""
        if track not in self._scenes:
            self._scenes[track] = asyncio.get_running_loop().create_future()
            self._send({"type": "scene", "track": track})
        return await self._scenes[track]

    async def _listen(self) -> None:
        try:
            while True:
                self._hear(await self._receive())
        except (OSError, EOFError, FrameError) as error:
            log.debug("run '%s' has hung up: %s", self.run.name, error)
        finally:
            self.is_open = False
            self._writer.close()
            gone = {"ok": False, "error": f"run '{self.run.name}' has ended."}
            for future in [*self._replies.values(), *self._scenes.values()]:
                if not future.done():
                    future.set_result(gone)
            for listener in self.listeners:
                listener.news.set()

    def _hear(self, message: Message) -> None:
        kind = message.get("type")
        if kind == "reply":
            future = self._replies.get(message["id"])
            if future is not None and not future.done():
                future.set_result(message)
        elif kind == "scene":
            future = self._scenes.get(message["track"])
            if future is not None and not future.done():
                future.set_result(message["scene"])
        else:
            if kind == "status":
                self.status = message
            for listener in self.listeners:
                _tell(listener, kind, message)

    def _send(self, message: Message) -> None:
        if not self._writer.is_closing():
            self._writer.write(pack(message))

    async def _receive(self) -> Message:
        length = int.from_bytes(await self._reader.readexactly(LENGTH), "big")
        if length > LARGEST_FRAME:
            raise FrameError(f"a frame of {length} bytes")
        return decode(await self._reader.readexactly(length))


def _tell(listener: Listener, kind: Any, message: Message) -> None:
    if kind == "snapshot":
        if listener.rate <= 0.0:
            return
        listener.snapshot = message
    elif kind == "picture":
        if not listener.wants_pictures:
            return
        listener.picture = message["jpeg"]
    else:
        listener.messages.append(message)
    listener.news.set()


class Links:
    """The open connections by run; one is closed when nobody needs it any more."""

    def __init__(self) -> None:
        self._links: dict[str, RunLink] = {}
        self._users: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def take(self, run: RunFolder) -> RunLink:
        """The connection to a run, made if need be; to be given back."""
        async with self._lock:
            link = self._links.get(run.name)
            if link is None or not link.is_open:
                link = RunLink(run)
                await link.open()
                self._links[run.name] = link
                self._users[run.name] = 0
            self._users[run.name] += 1
            return link

    async def give_back(self, link: RunLink) -> None:
        async with self._lock:
            name = link.run.name
            if self._links.get(name) is not link:
                return
            self._users[name] -= 1
            if self._users[name] == 0:
                del self._links[name], self._users[name]
                await link.close()

    async def close(self) -> None:
        for link in list(self._links.values()):
            await link.close()
        self._links.clear()

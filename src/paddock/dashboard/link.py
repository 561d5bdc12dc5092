"""The server's end of a run's control channel: one connection a run, shared by everything that shows it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from contextlib import suppress
from typing import Any

import msgspec
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from paddock.control import messages as m
from paddock.control.address import Address, read_address
from paddock.dashboard.errors import Refused
from paddock.experiments.run import RunFolder

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 20.0  # s that a request waits for the run's safe point
WELCOME_TIMEOUT = 5.0  # s that a run has for its welcome
MOST_WAITING = 256  # messages kept for a listener that does not read them
quiet = logging.Logger("websockets", logging.CRITICAL + 1)  # A run that ends in the middle of a message is no news.


class UnreachableError(Exception):
    """A run that has no channel, or one that cannot be trusted."""


def proven_address(run: RunFolder) -> Address:
    """Where a run listens, if it is the run's own process that does.

    The file is data: one that came from elsewhere could name any port of this machine and any bytes to send there.
    So it has to name a process of this user that holds the run and listens at that port.
    """
    address = read_address(run.path)
    if address is None or not run.is_held():
        raise UnreachableError("it has no channel")
    try:
        process = psutil.Process(address.pid)
        is_mine = _owner(process) == _owner(psutil.Process())
        holds_run = str((run.path / "lock").resolve()) in [file.path for file in process.open_files()]
        listens = ("127.0.0.1", address.port) in [
            tuple(one.laddr) for one in process.net_connections("tcp4") if one.status == psutil.CONN_LISTEN
        ]
    except psutil.Error as error:
        raise UnreachableError("the process that its channel names cannot be looked at") from error
    if not (is_mine and holds_run and listens):
        raise UnreachableError("its channel names a process or a port that is not the run's")
    return address


def _owner(process: psutil.Process) -> int | str:
    return process.uids().effective if hasattr(process, "uids") else process.username()


class Listener:
    """One viewer of a run: what it wants, and what is new for it. Only the newest snapshot and picture are kept."""

    def __init__(self) -> None:
        self.rate = 0.0
        self.car: int | None = None
        self.wants_rays = False
        self.wants_pictures = False
        self.snapshot: m.Snapshot | None = None
        self.picture: bytes | None = None
        self.messages: deque[m.Status | m.Lap] = deque(maxlen=MOST_WAITING)
        self.news = asyncio.Event()

    def put(self, message: m.RunMessage) -> None:
        """Keep a message, if it is wanted."""
        if isinstance(message, m.Snapshot):
            if self.rate <= 0.0:
                return
            self.snapshot = message
        elif isinstance(message, m.Picture):
            if not self.wants_pictures:
                return
            self.picture = message.jpeg
        elif isinstance(message, m.Status | m.Lap):
            self.messages.append(message)
        self.news.set()


class RunLink:
    """A connection to one run."""

    welcome: m.Welcome
    status: m.Status

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.is_open = False
        self.listeners: set[Listener] = set()
        self._scenes: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._replies: dict[int, asyncio.Future[m.Reply]] = {}
        self._numbers = itertools.count(1)
        self._outgoing: asyncio.Queue[m.ViewerMessage] = asyncio.Queue()

    async def open(self) -> None:
        """Connect and receive the welcome."""
        try:
            address = await asyncio.to_thread(proven_address, self.run)
            async with asyncio.timeout(WELCOME_TIMEOUT):
                connection = await _connect(address)
                welcome = m.decode_run_message(_bytes(await connection.recv()))
            if not isinstance(welcome, m.Welcome):
                raise UnreachableError("its first message is no welcome")
        except (OSError, WebSocketException, UnreachableError, TimeoutError, msgspec.MsgspecError) as error:
            raise Refused(f"run '{self.run.name}' cannot be reached: {error or 'it does not answer'}.", 409) from error
        self.welcome, self.status = welcome, welcome.status
        self.is_open = True
        self._task = asyncio.create_task(self._serve(connection))

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
        """Send the run what its listeners want by now."""
        cars = {listener.car for listener in self.listeners if listener.car is not None}
        rate = max((listener.rate for listener in self.listeners), default=0.0)
        self._send(m.Watch(rate, sorted(cars), any(listener.wants_pictures for listener in self.listeners)))

    def drive(self, message: m.DriverInput) -> None:
        """Pass on what a person does at the wheel."""
        self._send(message)

    async def request(self, command: m.Command) -> dict[str, Any]:
        """The result, or a refusal with the run's own sentence."""
        number = next(self._numbers)
        future = self._replies[number] = asyncio.get_running_loop().create_future()
        arguments = msgspec.structs.asdict(command)
        self._send(m.Request(number, m.command_name(command), arguments, by="dashboard"))
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                reply = await future
        except TimeoutError:
            return {"ok": True, "is_pending": True}
        finally:
            self._replies.pop(number, None)
        if not reply.ok:
            raise Refused(str(reply.error))
        return {"ok": True, **reply.result}

    async def scene(self, track: int) -> dict[str, Any]:
        """What stands still on one of the run's tracks; empty where the run has ended meanwhile."""
        if track not in self._scenes:
            self._scenes[track] = asyncio.get_running_loop().create_future()
            self._send(m.SceneRequest(track))
        return await self._scenes[track]

    async def _serve(self, connection: ClientConnection) -> None:
        sending = asyncio.create_task(self._send_all(connection))
        try:
            async for data in connection:
                self._receive(m.decode_run_message(_bytes(data)))
        except (OSError, WebSocketException, msgspec.MsgspecError) as error:
            log.debug("run '%s' has disconnected: %s", self.run.name, error)
        finally:
            self.is_open = False
            sending.cancel()
            connection.transport.abort()
            self._give_up()

    async def _send_all(self, connection: ClientConnection) -> None:
        with suppress(WebSocketException, OSError):
            while True:
                await connection.send(m.encode(await self._outgoing.get()))

    def _give_up(self) -> None:
        """Answer what still waits, and wake the listeners."""
        for reply in self._replies.values():
            if not reply.done():
                reply.set_result(m.Reply(0, ok=False, error=f"run '{self.run.name}' has ended."))
        for scene in self._scenes.values():
            if not scene.done():
                scene.set_result({})
        for listener in self.listeners:
            listener.news.set()

    def _receive(self, message: m.RunMessage) -> None:
        if isinstance(message, m.Reply):
            reply = self._replies.get(message.id)
            if reply is not None and not reply.done():
                reply.set_result(message)
        elif isinstance(message, m.Scene):
            scene = self._scenes.get(message.track)
            if scene is not None and not scene.done():
                scene.set_result(message.scene)
        else:
            if isinstance(message, m.Status):
                self.status = message
            for listener in self.listeners:
                listener.put(message)

    def _send(self, message: m.ViewerMessage) -> None:
        if self.is_open:
            self._outgoing.put_nowait(message)


async def _connect(address: Address) -> ClientConnection:
    """No pings from this end: a run that compiles may be silent for a minute, and one that dies closes its socket."""
    return await connect(
        f"ws://127.0.0.1:{address.port}",
        additional_headers=address.headers,
        compression=None,
        max_size=m.LARGEST_MESSAGE,
        ping_interval=None,
        proxy=None,
        user_agent_header=None,
        logger=quiet,
    )


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


class Links:
    """The open connections by run; one is closed when its last user is gone."""

    def __init__(self) -> None:
        self._links: dict[str, RunLink] = {}
        self._users: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def take(self, run: RunFolder) -> RunLink:
        """The connection to a run, made if need be; every call needs a `give_back`."""
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

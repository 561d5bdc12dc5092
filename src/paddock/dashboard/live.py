"""The WebSocket of one viewer: binary snapshots, latest wins, and messages as JSON. See docs/dashboard_api.md."""

from __future__ import annotations

import asyncio
import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from paddock.control import messages as m
from paddock.core.pace import RateLimit
from paddock.core.reading import DamagedError, open_regular, parse_json
from paddock.dashboard.errors import Refused
from paddock.dashboard.ghosts import Ghosts
from paddock.dashboard.link import Links, Listener, RunLink
from paddock.experiments.run import RunFolder

LOOK_EVERY = 0.25  # s between two looks at the files of the run
RETRY = 1.0  # s between two tries to reach a run that is gone
SCENE_REST = 1.0  # s between two changes of the track that is shown
TAIL = 256 * 1024  # bytes of new lines that are read at once
DEFAULT_RATE = 30.0  # snapshots a second
Message = dict[str, Any]


class Tail:
    """New lines of a file of JSON lines, from where it ended when this was made."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = _size(file)

    def lines(self) -> list[Any]:
        size = _size(self._file)
        if size <= self._position:
            self._position = min(self._position, size)
            return []
        try:
            with open_regular(self._file) as file:
                file.seek(self._position)
                text = file.read(TAIL)
        except (DamagedError, OSError):
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        found = []
        for line in whole.splitlines():
            with suppress(ValueError):
                found.append(parse_json(line))
        return [row for row in found if isinstance(row, dict)]


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0


class LiveView:
    """Bridges one WebSocket and one run, for as long as the browser stays; the run may end and come back."""

    def __init__(self, socket: WebSocket, run: RunFolder, links: Links, ghosts: Ghosts) -> None:
        self._socket, self._run, self._links = socket, run, links
        self._listener = Listener()
        self._listener.rate = DEFAULT_RATE
        self._link: RunLink | None = None
        self._ghosts = ghosts
        self._tails = {"event": Tail(run.events_file), "metrics": Tail(run.metrics_file)}
        self._track: int | None = None
        self._scene_changed = self._next_look = self._next_try = 0.0
        self._snapshots = RateLimit(time.monotonic)
        self._is_gone = False

    async def serve(self) -> None:
        """Until the browser leaves."""
        listening = asyncio.create_task(self._listen())
        try:
            while not listening.done():
                await self._attach()
                await self._send_news()
                await self._look_at_files()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):
                        await self._listener.news.wait()
                self._listener.news.clear()
        except (WebSocketDisconnect, RuntimeError):  # It left while something was sent to it.
            pass
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await listening
            await self._detach()

    # --- run to browser ---

    async def _attach(self) -> None:
        if self._link is not None and self._link.is_open:
            return
        await self._detach()
        if time.monotonic() < self._next_try:
            return
        self._next_try = time.monotonic() + RETRY
        try:
            link = await self._links.take(self._run)
        except Refused:
            if not self._is_gone:
                await self._say({"type": "gone"})
            self._is_gone = True
            return
        self._link, self._is_gone, self._track = link, False, None
        await self._show_scene(0)
        link.join(self._listener)

    async def _detach(self) -> None:
        if self._link is not None:
            if self._link.is_open:
                self._link.leave(self._listener)
            await self._links.give_back(self._link)
            self._link = None

    async def _show_scene(self, track: int) -> None:
        assert self._link is not None
        scene = await self._link.scene(track)
        if "kind" not in scene:  # The run ended meanwhile.
            return
        self._track, self._scene_changed = track, time.monotonic()
        await self._say({"type": "scene", **scene})
        if scene["kind"] == "racing":
            self._ghosts.show(scene["track"]["name"], scene["car"]["name"])
            for ghost in self._link.welcome.ghosts:
                await self._say(ghost)

    async def _send_news(self) -> None:
        listener = self._listener
        while listener.messages:
            await self._say(msgspec.to_builtins(listener.messages.popleft()))
        snapshot = listener.snapshot
        if snapshot is None or self._link is None:
            return
        if (wait := self._snapshots.wait) > 0.0:
            asyncio.get_running_loop().call_later(wait, listener.news.set)
            return
        listener.snapshot = None
        self._snapshots.took(max(listener.rate, 0.1))
        await self._follow_track(snapshot)
        await self._socket.send_bytes(packed(snapshot, listener, self._track or 0))

    async def _follow_track(self, snapshot: m.Snapshot) -> None:
        """Show the track of the followed car, if that is another one than before."""
        tracks = np.frombuffer(snapshot.tracks, "<u2")
        car = self._listener.car or 0
        track = int(tracks[car if car < len(tracks) else 0])
        if track != self._track and time.monotonic() - self._scene_changed > SCENE_REST:
            await self._show_scene(track)

    async def _look_at_files(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_EVERY
        for row in self._tails["event"].lines():
            await self._say({**row, "type": "event"})
        for row in self._tails["metrics"].lines():
            await self._say({"type": "metrics", "row": row})
        for ghost in await asyncio.to_thread(self._ghosts.news):
            await self._say(ghost)

    async def _say(self, message: Message) -> None:
        await self._socket.send_text(to_json(message))

    # --- browser to run ---

    async def _listen(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._listener.news.set()
                return
            text = message.get("text")
            if text is not None:
                await self._hear(text)

    async def _hear(self, text: str) -> None:
        """Do what a message says; one that cannot be read is passed over."""
        try:
            message = m.decode_page_message(text.encode())
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        listener, link = self._listener, self._link
        if isinstance(message, m.Ping):
            await self._say({"type": "pong", "t": number(message.t)})
        elif isinstance(message, m.DriverInput | m.Release):
            if link is not None:
                link.drive(driving_input(message))
        else:
            if isinstance(message, m.Follow):
                listener.car = message.car if message.car is not None and 0 <= message.car < m.MOST_CARS else None
            elif isinstance(message, m.ShowRays):
                listener.wants_rays = message.on
            elif isinstance(message, m.SetRate):
                listener.rate = clamp(message.hz, 0.0, m.FASTEST_RATE)
            if link is not None:
                link.watch()


def packed(snapshot: m.Snapshot, listener: Listener, track: int) -> bytes:
    """A snapshot as this viewer gets it; cars that are on another track than the one shown have no place."""
    tracks = np.frombuffer(snapshot.tracks, "<u2")
    cars = snapshot.cars
    if (tracks != track).any():
        values = np.frombuffer(cars, "<f4").reshape(-1, len(m.CAR_COLUMNS)).copy()
        values[tracks != track, :2] = np.nan
        cars = values.tobytes()
    followed = listener.car if listener.car is not None and listener.car < len(tracks) else None
    rays = snapshot.rays.get(followed, b"") if listener.wants_rays and followed is not None else b""
    header = m.HEADER.pack(
        m.SNAPSHOT_VERSION,
        m.HAS_RAYS if rays else 0,
        len(tracks),
        len(rays) // 4,
        m.NO_CAR if followed is None else followed,
        snapshot.time,
        snapshot.wall,
        snapshot.sequence & 0xFFFFFFFF,
        snapshot.dials.get(followed, 0) if followed is not None else 0,
    )
    return header + cars + rays


def driving_input(message: m.DriverInput | m.Release) -> m.DriverInput:
    """What a browser sends of its pedals, within their bounds."""
    if isinstance(message, m.Release):
        return m.DriverInput(is_released=True)
    return m.DriverInput(
        clamp(message.steer, -1.0, 1.0), clamp(message.throttle, 0.0, 1.0), clamp(message.brake, 0.0, 1.0)
    )


def clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def to_json(message: Message) -> str:
    """JSON that browsers read: what is not finite becomes null."""
    try:
        return json.dumps(message, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(message))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

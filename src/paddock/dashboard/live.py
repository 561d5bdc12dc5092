"""The WebSocket of one viewer: binary snapshots, latest wins, and messages as JSON. See docs/dashboard_api.md."""

from __future__ import annotations

import asyncio
import json
import math
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from paddock.core.reading import DamagedError, open_regular, parse_json
from paddock.dashboard.errors import Refused
from paddock.dashboard.ghosts import GhostKeeper
from paddock.dashboard.link import Links, Listener, Message, RunLink
from paddock.experiments.run import RunFolder

VERSION = 1
HEADER = struct.Struct("<BBHHHddII")
COLUMNS = 10  # numbers of a car
NOBODY = 65535
LOOK_EVERY = 0.25  # s between two looks at the files of the run
RETRY = 1.0  # s between two tries to reach a run that is gone
SCENE_REST = 1.0  # s between two changes of the track that is shown
TAIL = 256 * 1024  # bytes of new lines that are read at once
DEFAULT_RATE, FASTEST = 30.0, 60.0


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

    def __init__(self, socket: WebSocket, run: RunFolder, links: Links, ghosts: GhostKeeper) -> None:
        self._socket, self._run, self._links = socket, run, links
        self._listener = Listener()
        self._listener.rate = DEFAULT_RATE
        self._link: RunLink | None = None
        self._ghosts = ghosts
        self._tails = {"event": Tail(run.events_file), "metrics": Tail(run.metrics_file)}
        self._track: int | None = None
        self._scene_changed = self._next_look = self._next_snapshot = self._next_try = 0.0
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
            for ghost in self._link.welcome.get("ghosts", []):
                await self._say(ghost)

    async def _send_news(self) -> None:
        listener = self._listener
        while listener.messages:
            await self._say(listener.messages.popleft())
        snapshot = listener.snapshot
        if snapshot is None or self._link is None:
            return
        now = time.monotonic()
        if now < self._next_snapshot:
            asyncio.get_running_loop().call_later(self._next_snapshot - now, listener.news.set)
            return
        listener.snapshot = None
        period = 1.0 / max(listener.rate, 0.1)
        self._next_snapshot = max(self._next_snapshot + period, now + 0.5 * period)
        await self._follow_track(snapshot)
        await self._socket.send_bytes(packed(snapshot, listener, self._track or 0))

    async def _follow_track(self, snapshot: Message) -> None:
        """Show the track of the followed car, if that is another one than before."""
        tracks = np.frombuffer(snapshot["tracks"], "<u2")
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
        """Do what a message says; one that makes no sense is passed over."""
        try:
            message = json.loads(text)
            kind = message["type"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        listener = self._listener
        if kind == "ping":
            await self._say({"type": "pong", "t": number(message.get("t"))})
        elif kind == "follow":
            car = message.get("car")
            listener.car = car if isinstance(car, int) and 0 <= car < 64 else None
        elif kind == "rays":
            listener.wants_rays = message.get("on") is True
        elif kind == "rate":
            listener.rate = min(max(number(message.get("hz")) or 0.0, 0.0), FASTEST)
        elif kind in ("input", "release") and self._link is not None and self._link.is_open:
            self._link.give(driving_input(message))
        if kind in ("follow", "rays", "rate") and self._link is not None and self._link.is_open:
            self._link.watch()


def packed(snapshot: Message, listener: Listener, track: int) -> bytes:
    """A snapshot as this viewer gets it; cars that are on another track than the one shown have no place."""
    tracks = np.frombuffer(snapshot["tracks"], "<u2")
    cars: bytes = snapshot["cars"]
    if (tracks != track).any():
        values = np.frombuffer(cars, "<f4").reshape(-1, COLUMNS).copy()
        values[tracks != track, :2] = np.nan
        cars = values.tobytes()
    followed = listener.car if listener.car is not None and listener.car < len(tracks) else None
    rays = snapshot["rays"].get(followed, b"") if listener.wants_rays and followed is not None else b""
    header = HEADER.pack(
        VERSION,
        1 if rays else 0,
        len(tracks),
        len(rays) // 4,
        NOBODY if followed is None else followed,
        snapshot["time"],
        snapshot["wall"],
        snapshot["sequence"] & 0xFFFFFFFF,
        snapshot.get("dials", {}).get(followed, 0),
    )
    return header + cars + rays


def driving_input(message: Message) -> Message:
    """What a browser says of its pedals, with nothing in it but numbers within their bounds."""
    if message["type"] == "release":
        return {"type": "input", "steer": 0.0, "throttle": 0.0, "brake": 0.0, "is_released": True}
    steer = min(max(number(message.get("steer")) or 0.0, -1.0), 1.0)
    pedals = {name: min(max(number(message.get(name)) or 0.0, 0.0), 1.0) for name in ("throttle", "brake")}
    return {"type": "input", "steer": steer, **pedals, "t": number(message.get("t"))}


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

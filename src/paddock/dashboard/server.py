"""The server: routes, static files, and the loop that serves them."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketClose

from paddock.control.messages import REFUSED
from paddock.core.errors import InputError, PaddockError
from paddock.dashboard.access import Access
from paddock.dashboard.api import Api, error_reply
from paddock.dashboard.catalog import Tracks
from paddock.dashboard.connections import Connection
from paddock.dashboard.demonstrations import DemonstrationCatalog
from paddock.dashboard.errors import Refused
from paddock.dashboard.ghosts import Ghosts
from paddock.dashboard.guard import Guard
from paddock.dashboard.link import Links
from paddock.dashboard.live import LiveView
from paddock.dashboard.mine import Mine
from paddock.dashboard.processes import ProcessLauncher
from paddock.dashboard.research_api import ResearchApi
from paddock.dashboard.returning import return_routes
from paddock.dashboard.runs import RunCatalog
from paddock.dashboard.standings import Standings
from paddock.dashboard.story_api import StoryApi
from paddock.render.web import FOLDER as KIT

STATIC = Path(__file__).parent / "static"
DEFAULT_PORT, TRIED_PORTS = 8321, 20
LARGEST_FRAME = 4096  # bytes of a WebSocket message from a browser


class Dashboard:
    """What all requests share."""

    def __init__(
        self,
        runs_dir: Path,
        laps_dir: Path,
        access: Access,
        mine: Mine | None = None,
        *,
        demonstrations_dir: Path = Path("demonstrations"),
    ) -> None:
        self.runs_dir, self.laps_dir = runs_dir.resolve(), laps_dir.resolve()
        self.access = access
        self.runs = RunCatalog(self.runs_dir)
        self.demonstrations = DemonstrationCatalog(demonstrations_dir.resolve(), self.runs.drives_dir)
        self.links = Links()
        self.tracks = Tracks()
        self.launcher = ProcessLauncher(self.runs_dir)
        self.standings = Standings(self.laps_dir)
        self.mine = mine


def make_app(dashboard: Dashboard, *, host: str, port: int) -> ASGIApp:
    """The whole server as an ASGI application."""

    async def live(socket: WebSocket) -> None:
        try:
            run = await asyncio.to_thread(dashboard.runs.find, socket.path_params["id"])
        except Refused as refusal:
            await socket.close(REFUSED + refusal.status)
            return
        await socket.accept()
        await LiveView(socket, run, dashboard.links, Ghosts(run, dashboard.laps_dir)).serve()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asking = asyncio.create_task(_quietly(dashboard.tracks.all()))
        yield
        asking.cancel()
        dashboard.tracks.close()
        dashboard.standings.close()
        await dashboard.links.close()

    routes: list[Any] = [
        *Api(dashboard).routes(),
        *StoryApi(dashboard).routes(),
        *ResearchApi(dashboard).routes(),
        *return_routes(dashboard.access, port),
    ]
    routes.append(WebSocketRoute("/api/runs/{id}/live", live))
    routes += [Mount("/kit", PageFiles(directory=KIT)), Mount("/", PageFiles(directory=STATIC, html=True))]
    handlers: dict[Any, Any] = {PaddockError: _on_paddock_error, HTTPException: _on_http_error, OSError: _on_os_error}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    return Guard(app, host=host, port=port, access=dashboard.access)


async def _quietly(awaitable: Any) -> None:
    """Read ahead of the first request; a request that needs it reports the failure."""
    try:
        await awaitable
    except (PaddockError, OSError, ValueError):
        return


class PageFiles(StaticFiles):
    """The files of the page. Links are not followed, and there are no WebSockets here."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await WebSocketClose(REFUSED + 404)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


async def _on_paddock_error(request: Request, error: Exception) -> Response:
    return error_reply(error.status if isinstance(error, Refused) else 400, str(error))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "there is nothing at this address." if error.status_code == 404 else str(error.detail)
    return error_reply(error.status_code, message)


async def _on_os_error(request: Request, error: Exception) -> Response:
    return error_reply(409, f"a file could not be read or written: {error}.")


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port the usual one, or the next that is free."""
    wanted = [port] if port is not None else list(range(DEFAULT_PORT, DEFAULT_PORT + TRIED_PORTS))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for one in wanted:
        try:
            return socket.create_server((host, one), family=family, backlog=128)
        except PermissionError as error:
            raise InputError(f"port {one} is reserved by the system; choose one from 1024 to 65535.") from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise InputError(f"--host '{host}' cannot be used: {error.strerror or error}.") from error
    if port is None:
        tried = f"{wanted[0]} to {wanted[-1]}"
        raise InputError(f"the ports {tried} of '{host}' are all taken; choose a free one with --port.")
    raise InputError(
        f"port {port} of '{host}' is taken already. Another dashboard may run there; "
        "choose another one with --port, or leave --port out to have a free one found."
    )


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="websockets-sansio",
        ws_max_size=LARGEST_FRAME,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=1,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])

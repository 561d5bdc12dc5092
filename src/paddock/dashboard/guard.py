"""Access control: checks of host, origin, token and size before anything else sees a request, and the headers that keep
the page to itself."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.control.messages import REFUSED
from paddock.dashboard.access import Access

LARGEST_BODY = 64 * 1024  # bytes
MOST_SOCKETS = 64
LOCAL = ("127.0.0.1", "localhost", "[::1]")
PUBLIC = "/api/return"  # where a page that was let in before proves it
NEEDS_TOKEN = "this server wants its token: open the address that `paddock dashboard` printed when it started."
WELCOME = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Paddock</title><script src="/welcome.js"></script></html>
"""
REFUSAL = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Paddock</title>
<h1>This page needs its token</h1>
<p>Open the address that <code>paddock dashboard</code> printed when it started, or start it again:
it opens the page for its owner.</p></html>
"""
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; connect-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard:
    """An ASGI layer around everything."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, access: Access) -> None:
        self._app, self._port, self._access = app, port, access
        names = {*LOCAL, host}
        # Beyond this machine the server cannot know by which names it is reached; the token has to do.
        self._hosts = (
            {f"{name}:{port}" for name in names} | (names if port == 80 else set()) if is_local(host) else None
        )
        self._sockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": REFUSED + refusal.status_code})
            else:
                await refusal(scope, receive, _with_headers(scope, send))
        elif scope["type"] == "websocket":
            self._sockets += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._sockets -= 1
        else:
            await self._app(scope, receive, _with_headers(scope, send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._hosts is not None and host not in self._hosts:
            return _error(403, f"this server answers to {', '.join(sorted(self._hosts))} only, not to '{host[:80]}'.")
        # The server speaks plain HTTP: a page at https:// with the same name is another one.
        if _changes(scope) and origin is not None and origin != f"http://{host}":
            return _error(403, "requests from other pages are refused.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or len(length) > 12 or int(length) > LARGEST_BODY:
            return _error(413, f"a request may have {LARGEST_BODY} bytes.")
        refusal = self._token_refusal(scope, headers)
        if refusal is None and scope["type"] == "websocket" and self._sockets >= MOST_SOCKETS:
            return _error(409, f"{MOST_SOCKETS} viewers are connected already.")
        return refusal

    def _token_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        is_http = scope["type"] == "http"
        if is_http and scope["path"] == PUBLIC:
            return None
        # An address ends up in histories and logs: it opens the page and is good for looking, not for more.
        if is_http and scope["method"] == "GET" and self._access.is_token(_parameter(scope, "token")):
            return let_in(HTMLResponse(WELCOME), self._access, self._port) if scope["path"] == "/" else None
        bearer = headers.get("authorization", "")
        if bearer.startswith("Bearer ") and self._access.is_token(bearer.removeprefix("Bearer ")):
            return None
        # Browsers send the cookie by themselves, so that what changes something has to come from the page, provably.
        is_page = not _changes(scope) or headers.get("origin") is not None
        if is_page and self._access.is_token(_cookie(headers, cookie_name(self._port))):
            return None
        if is_http and scope["path"] == "/" and scope["method"] == "GET":
            return HTMLResponse(REFUSAL, status_code=401)
        return _error(401, NEEDS_TOKEN)


def is_local(host: str) -> bool:
    """Whether only this machine can reach it."""
    return host in ("localhost", "::1") or host.startswith("127.")


def cookie_name(port: int) -> str:
    """Cookies are shared by all ports of a host: two servers must not take each other's place."""
    return f"paddock_token_{port}"


def let_in(response: Response, access: Access, port: int) -> Response:
    """The response with a cookie that scripts cannot read and that other sites' pages cannot use."""
    response.set_cookie(cookie_name(port), access.token, httponly=True, samesite="strict")
    return response


def _changes(scope: Scope) -> bool:
    return scope["type"] == "websocket" or scope.get("method") not in ("GET", "HEAD")


def _parameter(scope: Scope, name: str) -> str:
    return parse_qs(scope.get("query_string", b"").decode("latin-1")).get(name, [""])[0]


def _cookie(headers: Headers, name: str) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)


def _with_headers(scope: Scope, send: Send) -> Send:
    extra = dict(HEADERS)
    if scope["path"].startswith(("/api/", "/stream")) or b"token=" in scope.get("query_string", b""):
        extra["cache-control"] = "no-store"
    else:
        extra["cache-control"] = "no-cache"
    encoded: list[Any] = [(name.encode(), value.encode()) for name, value in extra.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", [])
            own = {name for name, _ in given}  # A page with a policy of its own keeps it.
            message["headers"] = [*given, *(pair for pair in encoded if pair[0] not in own)]
        await send(message)

    return sending

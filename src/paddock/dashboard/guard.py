"""Who may ask: checks of host, origin, token and size before anything else sees a request, and the headers that keep
the page to itself."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "paddock_token"
LARGEST_BODY = 64 * 1024  # bytes
MOST_SOCKETS = 64
LOCAL = ("127.0.0.1", "localhost", "[::1]")
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
    """An ASGI layer around everything. token: None where the server can be reached from this machine only."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, token: str | None) -> None:
        self._app = app
        self._token = token
        names = {*LOCAL, host}
        self._hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set())
        self._sockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 4000 + refusal.status_code})
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
        if self._token is None and host not in self._hosts:
            return _error(403, f"this server answers to {', '.join(sorted(self._hosts))} only, not to '{host[:80]}'.")
        changes = scope["type"] == "websocket" or scope.get("method") not in ("GET", "HEAD")
        if changes and origin is not None and not _is_same(origin, host):
            return _error(403, "requests from other pages are refused.")
        if scope["type"] == "websocket" and self._sockets >= MOST_SOCKETS:
            return _error(409, f"{MOST_SOCKETS} viewers are connected already.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return _error(413, f"a request may have {LARGEST_BODY} bytes.")
        return self._token_refusal(scope, headers)

    def _token_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if self._token is None:
            return None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if _equal(given, self._token):
            if scope["type"] == "http" and scope["path"] == "/" and scope["method"] == "GET":
                return _welcomed(self._token, _other_parameters(scope))
            return None
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _equal(_cookie(headers), self._token) or _equal(bearer, self._token):
            return None
        return _error(401, "this server wants its token: open the address that it printed when it started.")


def _other_parameters(scope: Scope) -> str:
    parts = scope.get("query_string", b"").decode("latin-1").split("&")
    return "&".join(part for part in parts if part and not part.startswith("token="))


def _welcomed(token: str, query: str) -> Response:
    """The page without the token in its address; a cookie that scripts cannot read has it from here on."""
    response = RedirectResponse(f"/?{query}" if query else "/", status_code=303)
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
    return response


def _cookie(headers: Headers) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


def _equal(given: str, expected: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _is_same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host and urlsplit(origin).scheme in ("http", "https")
    except ValueError:
        return False


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)


def _with_headers(scope: Scope, send: Send) -> Send:
    extra = dict(HEADERS)
    if scope["path"].startswith(("/api/", "/stream")):
        extra["cache-control"] = "no-store"
    else:
        extra["cache-control"] = "no-cache"
    encoded: list[Any] = [(name.encode(), value.encode()) for name, value in extra.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *encoded]
        await send(message)

    return sending

"""Clients that are slow, cut off or too long on purpose: they cost the server nothing that lasts."""

import contextlib
import json
import socket
import time

import psutil

from paddock.dashboard.connections import MOST_WAITING, PATIENCE
from viewer import until

HALF = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def is_gone(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def answer_of(connection: socket.socket) -> tuple[int, bytes]:
    answer = b""
    while chunk := connection.recv(65536):
        answer += chunk
    return int(answer.split()[1]), answer


def test_half_sent_requests_are_gone_after_some_seconds(wall):
    assert wall.get("/api/runs") == []
    server = psutil.Process(wall.process.pid)
    before = server.num_fds()
    with contextlib.ExitStack() as opened:
        silent = [opened.enter_context(connect(wall.port)) for _ in range(150)]
        half = [opened.enter_context(connect(wall.port)) for _ in range(150)]
        for connection in half:
            connection.sendall(HALF)
        body = opened.enter_context(connect(wall.port))
        head = f"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{wall.port}\r\nAuthorization: Bearer {wall.token}\r\n"
        body.sendall(f"{head}Content-Length: 50\r\nConnection: close\r\n\r\n{{".encode())
        assert wall.get("/api/runs") == [], "others are served meanwhile"
        for connection in half[:20]:  # Whoever sends a byte now and then gains nothing by it.
            with contextlib.suppress(OSError):
                connection.sendall(b"x")
        until(lambda: all(is_gone(connection) for connection in silent + half), PATIENCE + 30)
        assert answer_of(body)[0] == 408
    until(lambda: server.num_fds() <= before + 5, 20)


def test_more_half_sent_requests_than_there_are_places_do_not_keep_the_owner_out(wall):
    with contextlib.ExitStack() as opened:
        for _ in range(400):
            opened.enter_context(connect(wall.port)).sendall(HALF)
        until(lambda: psutil.Process(wall.process.pid).num_fds() < MOST_WAITING + 50, 5)
        assert wall.get("/api/runs") == []


def test_a_chunked_body_beyond_the_limit_gets_413(wall):
    """70 MB are sent to the end by a client that reads no answer before; it still gets to read it."""
    for close in ("Connection: close\r\n", ""):
        with connect(wall.port) as connection:
            head = f"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{wall.port}\r\nAuthorization: Bearer {wall.token}\r\n"
            connection.sendall(f"{head}{close}Transfer-Encoding: chunked\r\n\r\n".encode())
            chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
            for _ in range(70):
                connection.sendall(chunk)
            connection.sendall(b"0\r\n\r\n")
            answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
    assert psutil.Process(wall.process.pid).memory_info().rss < 150e6


def test_a_refused_body_that_is_still_being_sent_never_takes_the_answer_back(wall):
    body = json.dumps({"command": "x" * 60_000}).encode()
    for _ in range(30):
        with connect(wall.port) as connection:
            head = f"POST /api/runs HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {len(body)}\r\n"
            connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
            time.sleep(0.005)  # The refusal is under way before the body is.
            connection.sendall(body)
            assert answer_of(connection)[0] == 403

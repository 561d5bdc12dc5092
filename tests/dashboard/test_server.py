"""The server as a process: lists, attaches, steers, starts; and what it refuses."""

import asyncio
import json
import random
import socket
import struct
import time
import urllib.request

import numpy as np
import psutil
import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from paddock.dashboard.runs import thinned
from viewer import SMALL_RACING, Wall, end, train, until

LONG = [*SMALL_RACING, "training.total_steps=null", "training.max_seconds=600", "evaluation.episodes=1"]
HEADER = struct.Struct("<BBHHHddII")


@pytest.fixture(scope="module")
def wall(tmp_path_factory):
    """A server and one racing run beside it, shared by the tests of this file."""
    folder = tmp_path_factory.mktemp("wall")
    run = train(folder, "racing", "--name", "race", *LONG)
    opened = Wall(folder)
    try:
        opened.run = until(lambda: next((row for row in opened.get("/api/runs") if row["is_live"]), None))["id"]
        yield opened
    finally:
        opened.close()
        end(run.pid, folder)
        run.wait()


async def look(wall, act, run=None, **headers):
    """Do something with an open WebSocket."""
    address = f"ws://127.0.0.1:{wall.port}/api/runs/{run or wall.run}/live"
    headers = {"Authorization": f"Bearer {wall.token}", **headers}
    async with websockets.connect(address, compression=None, additional_headers=headers, max_size=None) as opened:
        return await asyncio.wait_for(act(opened), 150)


async def wait_for(opened, kind):
    """The next message of a kind; binary ones are snapshots."""
    while True:
        message = await opened.recv()
        if isinstance(message, bytes):
            if kind == "snapshot":
                return message
        elif (values := json.loads(message))["type"] == kind:
            return values


def test_it_lists_what_there_is(wall):
    assert wall.get("/api/health")["runs_dir"] == str(wall.folder / "runs")
    experiments = {row["name"]: row for row in wall.get("/api/experiments")}
    assert experiments["sac_racing"]["is_racing"]
    assert experiments["sac_racing"]["workflow"] == "sac"
    assert not experiments["ppo_cartpole"]["is_racing"]
    assert "gt" in wall.get("/api/cars")
    assert "oval" in [track["name"] for track in wall.get("/api/tracks")]
    (row,) = wall.get("/api/runs")
    assert (row["name"], row["experiment"], row["kind"], row["status"]) == ("race", "racing", "training", "running")
    details = wall.get(f"/api/runs/{wall.run}")
    assert details["config"]["environment"]["track"] == "oval"
    assert details["phases"][0]["is_current"]
    assert "reward" in details["can"]
    assert wall.get("/api/laps") == []


def test_curves_come_thinned_with_their_spikes(wall):
    until(lambda: len(wall.get(f"/api/runs/{wall.run}")["metrics"]) > 3)
    got = wall.get(f"/api/runs/{wall.run}/metrics?names=collect/steps_per_second,no/such&points=50&axis=seconds")
    assert list(got["names"]) == ["collect/steps_per_second"]
    assert len(got["names"]["collect/steps_per_second"]["x"]) <= 50
    x, y = np.arange(100_000.0), np.random.default_rng(1).normal(size=100_000)
    y[[777, 55_555]] = [100.0, -100.0]
    few_x, few_y = thinned(x, y, 1000)
    assert len(few_x) <= 1000
    assert {100.0, -100.0} <= set(few_y)
    assert (np.diff(few_x) > 0).all()
    assert (few_x[0], few_x[-1]) == (0.0, 99_999.0)


def test_two_viewers_see_cars_and_each_its_own(wall):
    async def act(opened):
        scene = await wait_for(opened, "scene")
        await opened.send(json.dumps({"type": "follow", "car": 2}))
        await opened.send(json.dumps({"type": "rate", "hz": 60}))
        await opened.send(json.dumps({"type": "ping", "t": 17}))
        assert (await wait_for(opened, "pong"))["t"] == 17
        frames = [HEADER.unpack_from(await wait_for(opened, "snapshot")) for _ in range(10)]
        return scene, frames, await wait_for(opened, "status")

    async def other(opened):
        return [await wait_for(opened, "snapshot") for _ in range(5)]

    async def both():
        return await asyncio.gather(look(wall, act), look(wall, other))

    (scene, frames, status), others = asyncio.run(both())
    assert scene["kind"] == "racing"
    assert len(scene["track"]["left"]) == len(scene["track"]["right"]) > 100
    assert status["agent_steps"] > 0
    versions, _, cars, _, followed, times, *_ = zip(*frames, strict=True)
    assert (set(versions), set(cars), followed[-1]) == ({1}, {16}, 2)
    assert times[-1] > times[0]
    assert all(len(frame) == 32 + 16 * 40 for frame in others)
    assert HEADER.unpack_from(others[0])[4] == 65535


def test_control_acts_on_the_run_and_is_seen_as_an_event(wall):
    async def act(opened):
        await wait_for(opened, "scene")
        answer = await asyncio.to_thread(
            wall.post, f"/api/runs/{wall.run}/control", command="reward", term="wheels_off", weight=1.25
        )
        assert answer["weight"] == 1.25
        while (event := await wait_for(opened, "event"))["event"] != "control":
            pass
        assert (event["term"], event["weight"], event["by"]) == ("wheels_off", 1.25, "dashboard")
        while (await wait_for(opened, "status"))["rewards"]["wheels_off"] != 1.25:
            pass
        return await wait_for(opened, "metrics")

    row = asyncio.run(look(wall, act))["row"]
    assert row["agent_steps"] > 0
    address = f"/api/runs/{wall.run}/control"
    wall.post(address, command="pause")
    until(lambda: wall.get(f"/api/runs/{wall.run}")["status"] == "paused")
    wall.post(address, command="save", name="kept")
    wall.post(address, command="load", policy="kept")
    wall.post(address, command="resume")
    until(lambda: wall.get(f"/api/runs/{wall.run}")["status"] == "running")
    policies = {row["name"]: row for row in wall.get(f"/api/runs/{wall.run}/policies")}
    assert policies["kept"]["is_loaded"]
    assert ("kept", "oval", "gt") in [(row["name"], row["track"], row["car"]) for row in wall.get("/api/policies")]


@pytest.mark.parametrize(
    ("path", "values", "status", "words"),
    [
        ("control", {"command": "reward", "term": "progres", "weight": 1}, 400, "Did you mean 'progress'?"),
        ("control", {"command": "reward", "term": "progress", "weight": "much"}, 400, "must be a number"),
        ("control", {"command": "reward", "term": "progress", "weight": -1}, 400, "-1"),
        ("control", {"command": "dance"}, 400, "allowed: pause"),
        ("control", {"command": "load", "policy": "../../etc"}, 404, "there is no run"),
        ("control", {"command": "load", "policy": "nobody"}, 400, "has no policy 'nobody'"),
        ("control", {"command": "save", "name": "a/b"}, 400, "cannot name a policy"),
        ("control", {"command": "pause", "folder": "/etc"}, 400, "does not take"),
        ("control", {"command": "mode", "mode": "ai"}, 400, "unknown command 'mode'"),
        ("/api/runs", {"experiment": "racin"}, 400, "Did you mean 'racing'?"),
        ("/api/runs", {"experiment": "ppo_cartpole", "overrides": ["--config=/etc/passwd"]}, 400, "not an override"),
        ("/api/runs", {"experiment": "ppo_cartpole", "overrides": ["runs_dir=/tmp"]}, 400, "runs_dir"),
        ("/api/runs", {"experiment": "ppo_cartpole", "name": "../x"}, 400, "cannot name a run"),
        ("/api/drive", {"track": "/etc/passwd"}, 400, "unknown track"),
        ("/api/drive", {"track": "oval", "car": "tank"}, 400, "unknown car 'tank'"),
        ("/api/drive", {"track": "oval", "opponent": "../x/best"}, 404, "there is no run"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(wall, path, values, status, words):
    address = path if path.startswith("/") else f"/api/runs/{wall.run}/{path}"
    got, answer = wall.ask(address, values)
    assert (got, words in answer["error"]) == (status, True), answer


def test_a_run_is_started_and_a_wrong_one_is_refused_as_on_the_command_line(wall, paddock):
    wrong = ["training.total_step=100", "workflow.epochs=none"]
    status, answer = wall.ask("/api/runs", {"experiment": "ppo_cartpole", "overrides": wrong})
    told = paddock("train", "ppo_cartpole", *wrong).stderr
    assert status == 400
    assert answer["error"].split() == told.removeprefix("error:").split()
    started = wall.post(
        "/api/runs", experiment="ppo_cartpole", name="pole", seed=3, overrides=["training.max_seconds=300"]
    )["id"]
    row = until(lambda: next(row for row in wall.get("/api/runs") if row["id"] == started and row["is_live"]))
    assert (row["name"], row["seed"]) == ("pole", 3)
    stream = f"http://127.0.0.1:{wall.port}/stream.mjpg?run={started}&token={wall.token}"
    with urllib.request.urlopen(stream, timeout=60) as film:
        assert b"image/jpeg" in film.read(2000)
    wall.post(f"/api/runs/{started}/control", command="stop")
    until(lambda: next(row for row in wall.get("/api/runs") if row["id"] == started)["status"] == "stopped")
    with urllib.request.urlopen(stream, timeout=60) as film:
        assert (film.status, film.read()) == (204, b"")


def raw(wall, text: str) -> tuple[int, bytes]:
    """A request as it stands, and what came back."""
    with socket.create_connection(("127.0.0.1", wall.port), timeout=20) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return int(answer.split()[1]), answer


def test_other_hosts_pages_and_paths_are_kept_out(wall):
    host = f"127.0.0.1:{wall.port}\nAuthorization: Bearer {wall.token}"
    control = f"/api/runs/{wall.run}/control"
    body = json.dumps({"command": "stop"})
    length = f"Content-Length: {len(body)}\nConnection: close\n\n{body}"
    assert raw(wall, "GET /api/runs HTTP/1.1\nHost: evil.example\nConnection: close\n\n")[0] == 403
    assert raw(wall, f"POST {control} HTTP/1.1\nHost: {host}\nOrigin: http://evil.example\n{length}")[0] == 403
    assert raw(wall, f"POST {control} HTTP/1.1\nHost: {host}\nOrigin: null\n{length}")[0] == 403
    big = f"POST {control} HTTP/1.1\nHost: {host}\nContent-Length: 70000\nConnection: close\n\n" + "x" * 70_000
    assert raw(wall, big)[0] == 413
    chunks = "Transfer-Encoding: chunked\nConnection: close\n\n" + "4000\n" + "x" * 0x4000 + "\n"
    assert raw(wall, f"POST {control} HTTP/1.1\nHost: {host}\n{chunks}" + "4000\n" + "x" * 0x4000 + "\n" * 3)[0] in (
        400,
        413,
    )
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../server.py", "/api/runs/..%2f..%2fetc",
                 "/api/runs/%00", "/.started/", "//etc/passwd"):  # fmt: skip
        status, answer = raw(wall, f"GET {path} HTTP/1.1\nHost: {host}\nConnection: close\n\n")
        assert status in (400, 404), (path, answer)
        assert b"root:" not in answer
    status, answer = raw(wall, f"GET /api/health HTTP/1.1\nHost: {host}\nConnection: close\n\n")
    head = answer.lower()
    assert status == 200
    assert b"content-security-policy: default-src 'self'" in head
    assert b"x-content-type-options: nosniff" in head
    assert b"cache-control: no-store" in head

    async def rejected(**headers):
        with pytest.raises(InvalidStatus) as refusal:
            await look(wall, lambda opened: wait_for(opened, "scene"), **headers)
        return refusal.value.response.status_code

    assert asyncio.run(rejected(Origin="http://evil.example")) == 403
    assert wall.get(f"/api/runs/{wall.run}")["status"] == "running"


def noise(random_source: random.Random) -> str:
    """Something that somebody might send by mistake or on purpose."""
    pieces = [
        '{"type":', '"input"', '"follow"', '"car":', "-1", "1e999", "null", "[", "]", "}", '"steer":', "NaN", "é",
        '"rate"', '"hz":', "99999999999999999999", "\u0000", "{", ",", '"type":"rays"', '"on":"maybe"',
    ]  # fmt: skip
    if random_source.random() < 0.3:
        kind = random_source.choice(["input", "follow", "rays", "rate", "ping", "release", "scene", 5, None, [1]])
        value = random_source.choice([-1, 2, 10**400, "9", None, [], {}, True, 0.5, 63, 64])
        names = random_source.sample(["car", "on", "hz", "steer", "throttle", "brake", "t"], 3)
        return json.dumps({"type": kind, **dict.fromkeys(names, value)})
    return "".join(random_source.choice(pieces) for _ in range(random_source.randrange(1, 12)))


def test_ten_thousand_bad_requests_and_frames_harm_nobody(wall):
    random_source = random.Random(8)
    run = f"/api/runs/{wall.run}"
    paths = [
        "/api/runs", run, f"{run}/control", "/api/drive", "/stream.mjpg?run=", f"{run}/metrics?points=", "/",
        "/api/laps?track=", "/api/policies", "/api/runs/%ff%fe",
    ]  # fmt: skip
    methods = ["POST", "POST", "POST", "GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "BREW"]

    def bad_request() -> tuple[bytes, bool]:
        method, path = random_source.choice(methods), random_source.choice(paths)
        if method == "GET" or random_source.random() < 0.3:
            path += "".join(random_source.choice("/%.a&=?9-_~é") for _ in range(random_source.randrange(1, 12)))
        body = noise(random_source).encode("utf-8", "replace") if method in ("POST", "PUT", "PATCH") else b""
        host = f"127.0.0.1:{wall.port}\r\nAuthorization: Bearer {wall.token}"
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1", "replace") + body, method == "HEAD"

    async def ask(count: int) -> list[int]:
        statuses, connection = [], None
        for _ in range(count):
            if connection is None:
                connection = await asyncio.open_connection("127.0.0.1", wall.port)
            reader, writer = connection
            request, has_no_body = bad_request()
            writer.write(request)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            statuses.append(int(head.split()[1]))
            fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
            if not has_no_body:
                await reader.readexactly(int(fields.get(b"content-length", b"0")))
            if fields.get(b"connection") == b"close" or b"transfer-encoding" in fields:
                writer.close()
                await writer.wait_closed()
                connection = None
        if connection is not None:
            connection[1].close()
            await connection[1].wait_closed()
        return statuses

    async def shout(count: int) -> None:
        async def act(opened):
            for number in range(count):
                await opened.send(noise(random_source) if number % 3 else random_source.randbytes(50))
            await opened.send(json.dumps({"type": "ping", "t": 1}))
            await wait_for(opened, "pong")
            await opened.send(json.dumps({"type": "rate", "hz": 60}))
            return await wait_for(opened, "snapshot")

        await look(wall, act)

    async def too_long() -> None:
        async def act(opened):
            await opened.send("x" * 5000)
            while True:
                await opened.recv()

        with pytest.raises(ConnectionClosed) as closed:
            await look(wall, act)
        assert closed.value.rcvd.code == 1009

    async def everything():
        return await asyncio.gather(*(ask(750) for _ in range(4)), *(shout(1750) for _ in range(4)), too_long())

    began = time.monotonic()
    statuses = [status for part in asyncio.run(everything())[:4] for status in part]
    took = time.monotonic() - began
    assert len(statuses) == 3000
    assert max(statuses) < 500, sorted(set(statuses))
    assert wall.process.poll() is None
    assert wall.get(f"/api/runs/{wall.run}")["status"] == "running"
    assert b"Traceback" not in wall.log.read_bytes(), wall.log.read_text()
    assert psutil.Process(wall.process.pid).memory_info().rss < 150e6
    print(f"10,000 in {took:.1f} s")


def test_killed_and_restarted_it_finds_the_run_again(wall):
    before = wall.get(f"/api/runs/{wall.run}")["agent_steps"]
    wall.kill()
    time.sleep(0.5)
    wall.start()
    until(lambda: wall.get(f"/api/runs/{wall.run}")["agent_steps"] > before)
    assert asyncio.run(look(wall, lambda opened: wait_for(opened, "snapshot")))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_wants_its_token_on_this_machine_and_beyond(tmp_path, host):
    wall = Wall(tmp_path, "--host", host)
    try:
        assert wall.ask("/api/runs", Authorization="")[0] == 401
        assert wall.ask("/api/runs?token=guess", Authorization="")[0] == 401
        assert wall.ask("/api/runs", Authorization="Bearer guess")[0] == 401
        assert wall.ask("/api/runs", Authorization=f"Bearer {wall.token}") == (200, [])
        asked = f"Host: 127.0.0.1:{wall.port}\nConnection: close\n\n"
        status, answer = raw(wall, f"GET /?token={wall.token} HTTP/1.1\n{asked}")
        head = answer.lower()
        assert status == 200
        assert b"httponly" in head
        assert b"samesite=strict" in head
        assert b"no-store" in head
        assert wall.token.encode() not in answer.partition(b"\r\n\r\n")[2]
        assert raw(wall, f"GET / HTTP/1.1\n{asked}")[0] == 401
        cookie = {"Authorization": "", "Cookie": f"paddock_token_{wall.port}={wall.token}"}
        assert wall.ask("/api/runs", **cookie)[0] == 200
    finally:
        wall.close()


def test_a_taken_port_is_told(wall, paddock):
    told = paddock("dashboard", "--no-browser", "--port", str(wall.port))
    assert told.returncode == 2
    assert f"port {wall.port}" in told.stderr
    assert "--port" in told.stderr

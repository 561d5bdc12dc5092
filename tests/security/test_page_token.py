"""The page's server lets in nobody but its owner: not another user of the machine, not another site, not a reader of
the process list or of a log."""

import asyncio
import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import websockets
from websockets.exceptions import InvalidStatus

from paddock.dashboard.access import Access, _digest
from viewer import Wall, end, token_file, token_of, until

NOBODY = 65534
ALERT = "+monitoring.alerts.x={when: 'train/entropy > -9', command: 'touch MARKER'}"
EXIT = 'exec 3<>/dev/tcp/127.0.0.1/"$0"; printf "%b" "$1" >&3; head -n 1 <&3'


def as_another_user(*command: str) -> subprocess.CompletedProcess[str]:
    """Run as `nobody` where this is root, else as a client that knows no more than they do."""
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, **other)


def ask_as_another_user(port: int, method: str, path: str, body: str = "", *headers: str) -> int:
    head = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}", *headers]
    request = "\\r\\n".join([*head, "Connection: close", "", body.replace("\\", "\\\\")])
    return int(as_another_user("bash", "-c", EXIT, str(port), request).stdout.split()[1])


def test_another_user_without_the_token_starts_no_run_and_sees_nothing(wall):
    body = json.dumps({"experiment": "ppo_cartpole", "overrides": ["training.total_steps=2048", ALERT]})
    assert ask_as_another_user(wall.port, "POST", "/api/runs", body) == 401
    for path in ("/", "/api/runs", "/api/health", "/api/return/key", "/app.js", "/stream.mjpg?run=x"):
        assert ask_as_another_user(wall.port, "GET", path) == 401, path
    assert ask_as_another_user(wall.port, "GET", "/api/runs", "", "Authorization: Bearer guess") == 401
    assert ask_as_another_user(wall.port, "POST", "/api/return", '{"proof": "guess"}') == 401
    assert not list(wall.folder.glob("runs/*")), "a run was started"
    assert not list(wall.folder.rglob("MARKER"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_the_token_file_is_for_its_owner(wall):
    file = token_file(wall.port)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.with_suffix(".html").stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    told = as_another_user("cat", str(file))
    assert (told.returncode, told.stdout) == (1, "")


@pytest.mark.parametrize(
    "origin", ["https://HOST", "http://evil.example", "null", "http://localhost:PORT", "http://127.0.0.1"]
)
def test_pages_of_another_origin_are_refused_even_with_the_token(wall, origin):
    origin = origin.replace("HOST", f"127.0.0.1:{wall.port}").replace("PORT", str(wall.port))
    assert wall.ask("/api/runs", {"experiment": "ppo_cartpole"}, Origin=origin)[0] == 403
    assert live_status(wall, Origin=origin, Authorization=f"Bearer {wall.token}") == 403


def live_status(wall, **headers: str) -> int:
    """The status that a WebSocket is refused with."""

    async def knock() -> int:
        address = f"ws://127.0.0.1:{wall.port}/api/runs/some/live"
        with pytest.raises(InvalidStatus) as refusal:
            async with websockets.connect(address, additional_headers=headers):
                pass
        return refusal.value.response.status_code

    return asyncio.run(knock())


def test_what_changes_something_needs_the_token_and_a_cookie_needs_the_page(wall):
    cookie = f"paddock_token_{wall.port}={wall.token}"
    page = f"http://127.0.0.1:{wall.port}"
    start = {"experiment": "no_such_experiment"}
    assert wall.ask("/api/runs", start, Authorization="")[0] == 401
    assert wall.ask("/api/runs", start, Authorization="", Cookie=cookie)[0] == 401, "no origin: not the page"
    assert wall.ask(f"/api/runs?token={wall.token}", start, Authorization="")[0] == 401, "addresses are for looking"
    assert wall.ask("/api/runs", start, Authorization="", Cookie=cookie, Origin=page)[0] == 400, "let in"
    assert wall.ask("/api/runs", Authorization="", Cookie=cookie)[0] == 200
    assert wall.ask("/api/runs", Authorization="", Cookie=f"paddock_token_1={wall.token}")[0] == 401, "another port's"
    assert live_status(wall) == 403
    assert live_status(wall, Cookie=cookie) == 403


def test_a_server_that_was_restarted_has_another_token(tmp_path):
    wall = Wall(tmp_path)
    try:
        before = wall.token
        wall.kill()
        wall.start()
        assert wall.token != before
        assert wall.ask("/api/runs", Authorization=f"Bearer {before}")[0] == 401
    finally:
        wall.close()


def test_a_proof_of_having_been_let_in_is_worth_nothing_elsewhere():
    """A page answers whoever has taken the server's port; the answer opens no other host and no later server."""
    key = b"k" * 32
    server, later = Access(key), Access(key)
    host = "127.0.0.1:8321"
    proof = _digest(server.page_key(host).encode(), server.challenge)
    assert server.is_proof(host, proof)
    assert not server.is_proof("127.0.0.1:8322", proof)
    assert not later.is_proof(host, proof)
    assert not server.is_proof(host, "")
    assert not Access(b"j" * 32).is_proof(host, proof)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_token_file_goes_with_the_server(tmp_path, number):
    wall = Wall(tmp_path)
    file = token_file(wall.port)
    assert file.exists()
    wall.process.send_signal(number)
    wall.process.wait(timeout=30)
    assert not file.exists()
    assert not file.with_suffix(".html").exists()


def test_a_log_that_others_can_read_does_not_have_the_token(wall):
    assert stat.S_IMODE(wall.log.stat().st_mode) == 0o644
    printed = wall.log.read_text()
    assert wall.token not in printed
    assert re.search(r"running at: file:///\S+\.html", printed)


SMALL = [
    "environment.num_envs=2",
    "workflow.rollout_steps=64",
    "workflow.minibatch_size=32",
    "logging.tensorboard=false",
]
COMMANDS = {
    "dashboard": ["dashboard"],
    "drive": ["drive", "--track", "oval"],
    "train": ["train", "ppo_cartpole", "--dashboard", "training.max_seconds=200", *SMALL],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_token_is_in_no_process_list(tmp_path, name):
    """The browser that is opened notes what it was given, and stays for a while as a browser does."""
    browser, given = tmp_path / "browser", tmp_path / "given"
    browser.write_text(f'#!/bin/sh\necho "$@" >> {given}\nsleep 60\n')
    browser.chmod(0o755)
    environment = {**os.environ, "BROWSER": f"{browser} %s &"}
    command = [sys.executable, "-m", "paddock", *COMMANDS[name]]
    with (tmp_path / "out").open("w") as out:
        os.fchmod(out.fileno(), 0o600)
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        until(lambda: given.exists() and given.read_text().endswith("\n"))
        page = Path(given.read_text().strip().removeprefix("file://"))
        token = token_of(int(page.stem))
        seen = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
        assert any(str(page) in line for line in seen), "the browser was not seen at all"
        assert len(token) == 32
        assert not [line for line in seen if token in line]
        assert token in page.read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert token in (tmp_path / "out").read_text(), "the owner's own terminal shows an address that works"
        assert token not in Path(f"/proc/{process.pid}/environ").read_text()
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        for one in psutil.process_iter():
            end(one.pid, tmp_path)
        process.wait()

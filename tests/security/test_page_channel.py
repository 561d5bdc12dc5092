"""A run's control channel: its places are for those who know the word, and the server sends the word to nobody but the
run."""

import asyncio
import contextlib
import json
import os
import socket

import msgspec
import pytest
import websockets

from paddock.control.address import FILE, read_address
from paddock.control.channel import MOST_VIEWERS, Channel
from paddock.control.messages import Status, Welcome
from paddock.experiments.run import RunFolder
from viewer import ChannelViewer

TOKEN = "t" * 32


class QuietSource:
    """A run that has nothing to tell."""

    def welcome(self):
        return Welcome("video", [], self.status())

    def status(self):
        return Status(status="running", agent_steps=0, seconds=0.0, steps_per_second=0.0, speed=None)

    def scene(self, track):
        return {}

    def request(self, request, answer):
        answer({"ok": True})

    def input(self, message):
        pass


@pytest.fixture
def channel(tmp_path):
    opened = Channel(QuietSource())
    opened.open(tmp_path)
    yield tmp_path
    while ChannelViewer.opened:
        ChannelViewer.opened.pop().close()
    opened.close()


@pytest.mark.parametrize("count", [20, 300])
def test_strangers_do_not_take_the_places_of_a_channel(channel, count):
    port = read_address(channel).port
    with contextlib.ExitStack() as opened:
        for number in range(count):
            stranger = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            if number % 2:
                stranger.sendall(b"\x00\x00")
        viewers = [ChannelViewer(channel) for _ in range(MOST_VIEWERS)]
        for viewer in viewers:
            assert viewer.wait_for("welcome", 10)["kind"] == "video"
        with pytest.raises((EOFError, ConnectionError)):
            ChannelViewer(channel).wait_for("welcome", 10)
        viewers[0].close()
        for _ in range(50):
            with contextlib.suppress(EOFError, ConnectionError):
                assert ChannelViewer(channel).wait_for("welcome", 10)
                return
    raise AssertionError("a place that was left is not given on")


def foreign_run(folder, values) -> RunFolder:
    """A run's folder as somebody else may have made it."""
    run = RunFolder.create(folder / "runs", "foreign", {"name": "foreign"})
    run.write_manifest(status="running", pid=os.getpid())
    (run.path / FILE).write_text(json.dumps(values))
    return run


CASES = {
    "its token is a command for that service": ("\r\nFLUSHALL\r\n", "test", True),
    "nobody holds the run": (TOKEN, "test", False),
    "its process is another one of this user": (TOKEN, "server", True),
    "its process is another user's or the system's": (TOKEN, 1, True),
    "its process does not exist": (TOKEN, 2**30, True),
    "its process is no number of one": (TOKEN, -1, True),
}


@pytest.mark.parametrize("case", CASES)
def test_the_channel_file_of_a_foreign_run_connects_the_server_to_nothing(wall, case):
    """It names the port of another service of this machine, which this process plays; it holds the run, too."""
    token, pid, is_held = CASES[case]
    pid = {"test": os.getpid(), "server": wall.process.pid}.get(pid, pid)
    with socket.create_server(("127.0.0.1", 0)) as service:
        service.settimeout(0.3)
        run = foreign_run(wall.folder, {"port": service.getsockname()[1], "token": token, "pid": pid})
        with run.lock() if is_held else contextlib.nullcontext():
            details = wall.get(f"/api/runs/{run.name}")
            status, _ = wall.ask(f"/api/runs/{run.name}/control", {"command": "stop"})
            wall.get(f"/api/runs/{run.name}/policies")
            assert asyncio.run(first_message(wall, run.name)) == "gone"
        assert (details["is_live"], status) == (False, 409)
        with pytest.raises(TimeoutError):
            service.accept()


async def first_message(wall, run: str) -> str:
    address = f"ws://127.0.0.1:{wall.port}/api/runs/{run}/live"
    async with websockets.connect(address, additional_headers={"Authorization": f"Bearer {wall.token}"}) as opened:
        return json.loads(await asyncio.wait_for(opened.recv(), 20))["type"]


def test_the_file_itself_may_be_anything(tmp_path):
    file = tmp_path / FILE
    good = {"port": 5, "token": TOKEN, "pid": 7}
    file.write_text(json.dumps(good))
    assert read_address(tmp_path).port == 5
    changes = [{"port": 0}, {"port": 70_000}, {"port": "5"}, {"pid": 0}, {"token": "short"}, {"token": TOKEN + "\n"}]
    for change in changes:
        file.write_text(json.dumps({**good, **change}))
        assert read_address(tmp_path) is None, change
    for content in (b"", b"[", b"[" * 100_000, b"\xff", b'{"port": 5}' + b" " * 5000, msgspec.msgpack.encode(good)):
        file.write_bytes(content)
        assert read_address(tmp_path) is None
    file.unlink()
    os.mkfifo(file)
    assert read_address(tmp_path) is None
    file.unlink()
    (tmp_path / "real").write_text(json.dumps(good))
    file.symlink_to(tmp_path / "real")
    assert read_address(tmp_path) is None

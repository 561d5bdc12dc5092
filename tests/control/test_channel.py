"""The control channel of a running experiment: real sockets, a real loop, viewers of every kind."""

import os
import random
import socket
import stat
import struct
import threading
import time

import msgspec
import numpy as np
import pytest
import torch
from rich.console import Console

from paddock.control.address import FILE, read_address
from paddock.control.channel import MOST_VIEWERS
from paddock.control.messages import LARGEST_REQUEST
from paddock.experiments.run import RunFolder, manifest
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve
from paddock.orchestration.orchestrator import Orchestrator
from viewer import SMALL_RACING, ChannelViewer


@pytest.fixture(autouse=True)
def _hang_up():
    yield
    while ChannelViewer.opened:
        ChannelViewer.opened.pop().close()


@pytest.fixture
def race(tmp_path):
    """Build a small racing run in this process; gives its orchestrator."""

    def make(*overrides: str) -> Orchestrator:
        hooks = "{collect: {steps: 320}}, update"
        phases = f"training.phases=[{{name: train, buffer: rollout, workflow_hooks: [{hooks}]}}]"
        options = [*SMALL_RACING, phases, "logging.terminal=false", f"runs_dir={tmp_path}", *overrides]
        config, _ = resolve(Request("racing", name="race", overrides=options))
        values = config.model_dump(mode="json", by_alias=True)
        run = RunFolder.create(tmp_path, "race", values)
        run.write_manifest(**manifest(values, seed=config.seed))
        return build(config, run, Console(quiet=True))

    return make


def beside(orchestrator, act):
    """Run to the end while `act(folder)` happens in a thread; what it returned or raised."""
    came_of_it = {}

    def watch():
        try:
            came_of_it["result"] = act(orchestrator.run_folder.path)
        except BaseException as error:
            came_of_it["error"] = error
        finally:
            if "error" in came_of_it:
                orchestrator.control.stop("the test")

    thread = threading.Thread(target=watch)
    thread.start()
    outcome = orchestrator.run()
    thread.join(timeout=60)
    if "error" in came_of_it:
        raise came_of_it["error"]
    return outcome, came_of_it["result"]


def parameters(orchestrator):
    return torch.cat([p.flatten() for p in orchestrator.context.components["policy"].parameters()])


def test_what_viewers_ask_for_is_done_and_written_down(race):
    orchestrator = race("training.total_steps=null", "training.max_seconds=120")

    def act(folder):
        viewer = ChannelViewer(folder)
        welcome = viewer.wait_for("welcome")
        assert welcome["kind"] == "racing"
        assert {"pause", "reward", "load"} <= set(welcome["can"])
        answer = viewer.ask("reward", term="progress", weight=0.25)
        assert (answer["ok"], answer["weight"], answer["before"]) == (True, 0.25, 0.1)
        refused = viewer.ask("reward", term="progres", weight=0.25)
        assert not refused["ok"]
        assert "Did you mean 'progress'?" in refused["error"]
        assert viewer.ask("explore", on=False)["ok"]
        assert viewer.ask("speed", factor=4.0)["factor"] == 4.0
        assert "allowed" in viewer.ask("speed", factor=-1.0)["error"]
        assert viewer.ask("speed", factor=None)["ok"]
        assert viewer.ask("save", name="mine")["policy"] == "mine"
        assert "cannot name a policy" in viewer.ask("save", name="../mine")["error"]
        assert viewer.ask("pause")["ok"]
        while viewer.wait_for("status")["status"] != "paused":
            pass
        policy = str(folder / "policy" / "mine")
        loaded = viewer.ask("load", folder=policy, policy="mine")
        assert loaded["ok"], loaded
        assert "unknown command" in viewer.ask("dance")["error"]
        assert viewer.ask("resume")["ok"]
        while (status := viewer.wait_for("status"))["status"] != "running":
            pass
        assert (status["rewards"]["progress"], status["explore"], status["policy"]) == (0.25, False, "mine")
        assert viewer.ask("stop")["ok"]
        return welcome

    outcome, _ = beside(orchestrator, act)
    assert outcome.status == "stopped"
    events = orchestrator.run_folder.read_events()
    commands = [event["command"] for event in events if event["event"] == "control"]
    assert commands == ["reward", "explore", "speed", "speed", "save", "load"]
    assert [event["event"] for event in events if event["event"] in ("paused", "continued", "stopped")] == [
        "paused",
        "continued",
        "stopped",
    ]
    assert orchestrator.context.experience.reward_weights["progress"] == 0.25


def test_snapshots_show_the_cars_and_the_address_is_for_this_user_only(race):
    orchestrator = race("training.total_steps=null", "training.max_seconds=60")

    def act(folder):
        viewer = ChannelViewer(folder)
        mode = stat.S_IMODE(os.stat(folder / FILE).st_mode)
        viewer.send({"type": "scene", "track": 0})
        scene = viewer.wait_for("scene")["scene"]
        viewer.send({"type": "watch", "rate": 60, "cars": [3]})
        snapshots = [viewer.wait_for("snapshot") for _ in range(20)]
        viewer.ask("stop")
        return mode, scene, snapshots

    _, (mode, scene, snapshots) = beside(orchestrator, act)
    assert mode == 0o600
    assert not (orchestrator.run_folder.path / FILE).exists()
    cars = [np.frombuffer(one["cars"], "<f4").reshape(16, 10) for one in snapshots]
    assert np.isfinite(cars[0][:, :8]).all()
    assert not np.array_equal(cars[0][:, :2], cars[-1][:, :2])
    assert [one["sequence"] for one in snapshots] == sorted({one["sequence"] for one in snapshots})
    edges = np.array(scene["track"]["left"] + scene["track"]["right"])
    assert (cars[0][:, :2] > edges.min(0) - 60).all()
    assert (cars[0][:, :2] < edges.max(0) + 60).all()
    assert scene["rays"] is None
    assert snapshots[0]["rays"] == {}


def test_after_step_is_set_only_while_a_viewer_watches_or_a_speed_is_held(race):
    orchestrator = race("training.total_steps=null", "training.max_seconds=120")
    experience = orchestrator.context.experience

    def settles(is_set):
        give_up = time.monotonic() + 20
        while (experience.after_step is not None) != is_set:
            assert time.monotonic() < give_up
            time.sleep(0.005)

    def act(folder):
        viewer = ChannelViewer(folder)
        viewer.wait_for("welcome")
        while viewer.wait_for("status")["agent_steps"] == 0:
            pass
        settles(False)
        viewer.send({"type": "watch", "rate": 60})
        first = [viewer.wait_for("snapshot") for _ in range(3)]
        settles(True)
        viewer.send({"type": "watch", "rate": 0})
        settles(False)
        viewer.send({"type": "watch", "rate": 60})
        second = viewer.wait_for("snapshot")
        viewer.ask("speed", factor=50.0)
        viewer.close()
        time.sleep(0.1)
        settles(True)
        other = ChannelViewer(folder)
        other.ask("speed", factor=None)
        settles(False)
        other.ask("stop")
        return [*first, second]

    _, snapshots = beside(orchestrator, act)
    assert experience.after_step is None
    times = [one["time"] for one in snapshots]
    assert times == sorted(set(times))


def test_watching_changes_nothing_of_what_is_learned(race):
    plain = race("training.total_steps=6400")
    plain.run()

    watched = race("training.total_steps=6400")

    def act(folder):
        viewer = ChannelViewer(folder)
        viewer.send({"type": "watch", "rate": 60, "cars": [0, 1], "pictures": True})
        viewer.send({"type": "scene", "track": 0})
        viewer.wait_for("snapshot")
        viewer.wait_for("picture")
        seen = 0
        try:
            while viewer.wait_for("snapshot"):
                seen += 1
        except (EOFError, OSError):
            return seen

    _, seen = beside(watched, act)
    assert seen > 0
    assert torch.equal(parameters(plain), parameters(watched))

    def rows(orchestrator):
        clocked = ("seconds", "collect/steps_per_second")
        lines = orchestrator.run_folder.read_metrics()
        return [{k: v for k, v in line.items() if k not in clocked and not k.startswith("system/")} for line in lines]

    assert rows(plain) == rows(watched)


def test_a_viewer_that_does_not_read_harms_nobody(race):
    orchestrator = race("training.total_steps=null", "training.max_seconds=120")

    def act(folder):
        stuck = [ChannelViewer(folder) for _ in range(2)]
        for viewer in stuck:
            viewer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            viewer.send({"type": "watch", "rate": 60, "cars": list(range(16)), "pictures": True})
            for _ in range(40):
                viewer.send({"type": "scene", "track": 0})  # some megabytes that it will never fetch
        dead = ChannelViewer(folder)
        dead.send({"type": "watch", "rate": 60})
        dead.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        dead.close()  # a reset, as when a process is killed
        lively = ChannelViewer(folder)
        lively.send({"type": "watch", "rate": 60})
        steps = lively.wait_for("status")["agent_steps"]
        for _ in range(30):
            lively.wait_for("snapshot")
        while lively.wait_for("status")["agent_steps"] <= steps + 640:
            pass
        lively.ask("stop")
        for viewer in stuck:
            viewer.close()
        return True

    outcome, _ = beside(orchestrator, act)
    assert outcome.status == "stopped"


def test_strangers_and_noise_are_hung_up_on(race):
    orchestrator = race("training.total_steps=null", "training.max_seconds=120")
    random_bytes = random.Random(3)

    def act(folder):
        with pytest.raises((EOFError, ConnectionError)):
            ChannelViewer(folder, token="guess").wait_for("welcome")
        port = read_address(folder).port
        for _ in range(60):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as noise:
                noise.sendall(random_bytes.randbytes(random_bytes.randrange(1, 200)))
        knows = ChannelViewer(folder)
        for message in (
            {"type": "watch", "rate": "fast"},
            {"type": "watch", "cars": 5},
            {"type": "scene", "track": "x"},
        ):
            viewer = ChannelViewer(folder)
            viewer.wait_for("welcome")
            viewer.send(message)
            with pytest.raises((EOFError, ConnectionError)):
                viewer.wait_for("scene")
        knows.send({"type": "request", "id": 1, "command": "reward", "arguments": {"nonsense": 1}})
        assert not knows.wait_for("reply")["ok"]
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(MOST_VIEWERS + 4)]
        time.sleep(0.2)
        for one in crowd:
            one.close()
        assert knows.ask("stop")["ok"]
        return True

    outcome, _ = beside(orchestrator, act)
    assert outcome.status == "stopped"


def test_other_environments_are_filmed_while_somebody_watches(experiment):
    orchestrator = experiment("training.total_steps=null", "training.max_seconds=120")

    def act(folder):
        viewer = ChannelViewer(folder)
        assert viewer.wait_for("welcome")["kind"] == "video"
        viewer.send({"type": "watch", "pictures": True})
        pictures = [viewer.wait_for("picture")["jpeg"] for _ in range(3)]
        viewer.ask("stop")
        return pictures

    _, pictures = beside(orchestrator, act)
    assert all(picture[:2] == b"\xff\xd8" for picture in pictures)


def test_real_time_is_held_when_asked_for(race):
    orchestrator = race("training.total_steps=null", "training.max_seconds=120")

    def act(folder):
        viewer = ChannelViewer(folder)
        viewer.ask("speed", factor=2.0)
        viewer.send({"type": "watch", "rate": 60})
        times = [(one["time"], one["wall"]) for one in (viewer.wait_for("snapshot") for _ in range(25))]
        viewer.ask("stop")
        return times

    _, times = beside(orchestrator, act)
    steps = np.diff(np.array(times), axis=0)
    pace = np.median(steps[:, 0] / steps[:, 1])
    assert 1.2 < pace < 2.6, pace


def test_messages_come_in_any_pieces_and_none_may_be_too_large(race):
    orchestrator = race("training.total_steps=null", "training.max_seconds=120")

    def act(folder):
        viewer = ChannelViewer(folder)
        viewer.wait_for("welcome")
        message = msgspec.msgpack.encode({"type": "scene", "track": 0})
        viewer._protocol.send_binary(message)
        for data in viewer._protocol.data_to_send():
            for start in range(len(data)):
                viewer.connection.sendall(data[start : start + 1])
        assert viewer.wait_for("scene")["track"] == 0
        for wrong, code in ((b"\xc1" * 3, 1008), (b"x" * (LARGEST_REQUEST + 1), 1009)):
            other = ChannelViewer(folder)
            other.wait_for("welcome")
            other.send_bytes(wrong)
            with pytest.raises((EOFError, ConnectionError)):
                other.wait_for("reply")
            assert other.close_code == code
        viewer.ask("stop")
        return True

    outcome, _ = beside(orchestrator, act)
    assert outcome.status == "stopped"

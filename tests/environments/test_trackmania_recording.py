"""Recording a trajectory: it waits for the start, begins anew after a restart, and ends with the finish."""

import socket
import threading

import numpy as np
import pytest

from paddock.cli.main import main
from paddock.environments.trackmania.packets import GRAB, Packet
from paddock.environments.trackmania.recording import RaceRecorder, RecordingError, record_race
from paddock.environments.trackmania.telemetry import TcpTelemetry
from paddock.environments.trackmania.trajectory import load_trajectory
from trackmania_cases import small_road


def packet(x, speed=20.0, finished=False, number=1):
    return Packet(number, 0, speed, x, (float(x), 10.0, 5.0), 0.0, 1.0, 0.0, finished, 1.0, 5_000.0)


def race():
    """A finish of before, a start, a restart in the middle, and a whole race of 60 m from 0."""
    yield packet(500, finished=True)
    yield packet(300)  # on the way, without a start
    yield from [packet(0, speed=0.0)] * 3
    yield from (packet(x) for x in range(1, 40))
    yield from [packet(0, speed=0.0)] * 3
    yield from (packet(x) for x in np.arange(0.7, 60, 0.9))
    yield packet(60, finished=True)
    yield packet(61, finished=True)


def test_recorded_trajectory_is_the_whole_last_race():
    recorder = RaceRecorder()
    for one in race():
        recorder.add(one)
    assert recorder.is_complete
    points = recorder.trajectory("map").points
    np.testing.assert_allclose(points[[0, -1], 0], [0, 60])
    assert len(points) == 601
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    assert np.abs(steps - 0.1).max() < 1e-9


def test_recorded_trajectory_needs_a_finish():
    recorder = RaceRecorder()
    for one in list(race())[:-2]:
        recorder.add(one)
    with pytest.raises(RecordingError, match="from its start to its finish; 59 m"):
        recorder.trajectory("map")


def test_recording_follows_telemetry_until_the_finish():
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        client, _ = server.accept()
        with client:
            client.sendall(b"".join(GRAB.pack(one) for one in race()))
            client.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    telemetry = TcpTelemetry(server.getsockname()[1])
    told = []
    try:
        trajectory = record_race(telemetry, "map", 10.0, lambda metres, problem: told.append(metres))
        assert trajectory.length == pytest.approx(60.0)
        assert told[-1] == pytest.approx(60.0)
        with pytest.raises(RecordingError, match="within 0 s"):
            record_race(telemetry, "map", 0.0, lambda *_: None)
    finally:
        telemetry.close()
        server.close()
        thread.join(5)


def test_record_trajectory_command_drives_the_simulator(tmp_path, monkeypatch, capsys):
    file = tmp_path / "small.safetensors"
    arguments = ["record", "trajectory", str(file), "--game", "simulator", "--track", small_road(tmp_path)]
    monkeypatch.setattr("sys.argv", ["paddock", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    trajectory = load_trajectory(file)
    assert f"{len(trajectory):,} points" in capsys.readouterr().out
    assert len(trajectory) - 1 == pytest.approx(trajectory.length / 0.1, abs=1)

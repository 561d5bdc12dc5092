"""The doctor finds every fault of the twin by itself: a sentence, a fix and an exit code of its own."""

import json

import pytest

from paddock.core.findings import exit_code
from paddock.environments.trackmania import doctor
from paddock.environments.trackmania.calibration import load_curve
from paddock.environments.trackmania.doctor import Examination, examine_game
from paddock.environments.trackmania.recording import drive_and_record
from paddock.environments.trackmania.trajectory import Trajectory, save_trajectory
from paddock.environments.trackmania.twin.faults import parse_fault
from paddock.environments.trackmania.twin.game import TwinSettings
from trackmania_cases import running_twin, small_road


@pytest.fixture
def quick(monkeypatch):
    """The twin's countdown is short, so the doctor need not wait long."""
    for name, seconds in (
        ("CONNECT_SECONDS", 1.5), ("LISTEN_SECONDS", 0.8), ("COUNTDOWN_SECONDS", 0.6), ("REACT_SECONDS", 0.2),
        ("DRIVE_SECONDS", 0.8), ("BACK_SECONDS", 1.0),
    ):  # fmt: skip
        monkeypatch.setattr(doctor, name, seconds)


def examine(tmp_path, *faults, **wanted):
    options = {"track": small_road(tmp_path), "countdown": 0.2, "faults": tuple(parse_fault(one) for one in faults)}
    with running_twin(**options) as server:
        return list(examine_game(Examination("twin", server.addresses()["telemetry"], **wanted)))


def test_doctor_finds_nothing_wrong_with_a_healthy_twin(tmp_path, quick):
    trajectory, _ = drive_and_record(TwinSettings(track=small_road(tmp_path)))
    save_trajectory(trajectory, tmp_path / "small.safetensors")
    wanted = {"trajectory": tmp_path / "small.safetensors", "calibrate": tmp_path / "curve.json"}
    found = examine(tmp_path, **wanted)
    assert [finding.level for finding in found] == ["ok"] * 8, found
    assert exit_code(found) == 0
    assert "11 floats" in found[0].sentence
    assert load_curve(tmp_path / "curve.json").stick_for(0.5) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("menu", doctor.SILENT, "sends nothing"),
        ("protocol", doctor.UNKNOWN_PROTOCOL, "no plugin's telemetry"),
        ("drop", doctor.DROPPED, "closes every connection"),
        ("slow", doctor.SLOW_FRAMES, "frames a second, fewer"),
        ("dialog", doctor.DIALOG, "dialog"),
        ("pad", doctor.PAD_WITHOUT_EFFECT, "does not move the car's steering"),
        ("refuse", doctor.NO_RESTART, "does not bring the car back"),
        ("refuse_once", doctor.SECOND_RESTART, "first press of the restart button"),
    ],
)
def test_doctor_names_each_fault_of_the_twin(tmp_path, quick, fault, code, words):
    found = examine(tmp_path, fault)
    assert words in found[-1].sentence
    assert found[-1].fix
    assert exit_code(found) == code
    assert [finding.level for finding in found].count("fault") == 1


def test_doctor_names_telemetry_that_stops_while_it_listens(tmp_path, quick):
    with running_twin(track=small_road(tmp_path), countdown=0.2) as server:
        examination = examine_game(Examination("twin", server.addresses()["telemetry"]))
        found = [next(examination)]
        server.game.add_fault("stall")
        found += list(examination)
    assert exit_code(found) == doctor.STALLED
    assert "came and stopped" in found[-1].sentence


def test_doctor_names_a_window_of_another_size_and_a_trajectory_of_another_map(tmp_path, quick):
    found = examine(tmp_path, width=958, height=488)
    assert (exit_code(found), found[-1].subject) == (doctor.WRONG_SIZE, "window")
    assert "256x128 pixels, and 958x488 are expected" in found[-1].sentence
    save_trajectory(Trajectory([[900, 10, 900], [901, 10, 900]]), tmp_path / "other.safetensors")
    found = examine(tmp_path, trajectory=tmp_path / "other.safetensors")
    assert exit_code(found) == doctor.OTHER_MAP
    assert "another map" in found[-1].sentence


def test_doctor_without_a_game_says_what_to_start(tmp_path, quick, monkeypatch, capsys):
    from paddock.cli.main import main

    with running_twin(track=small_road(tmp_path)) as server:
        port = server.addresses()["telemetry"]
    monkeypatch.setattr("sys.argv", ["paddock", "doctor", "--trackmania", "--port", str(port), "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == doctor.UNREACHABLE
    assert "Start the game" in json.loads(capsys.readouterr().out)[0]["fix"]

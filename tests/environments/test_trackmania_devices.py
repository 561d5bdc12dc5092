"""Screen, pad, keyboard, images and calibration of TrackMania: loopback everywhere, real devices where they are."""

import os
import struct
import time
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.core.reading import DamagedError
from paddock.environments.realtime.clock import VirtualClock, WallClock
from paddock.environments.trackmania.calibration import SteeringCurve, load_curve, measure_steering, save_curve
from paddock.environments.trackmania.doctor import Examination, examine_game
from paddock.environments.trackmania.images import Resizer, seen
from paddock.environments.trackmania.keyboard import Keyboard, X11Keys, held_keys
from paddock.environments.trackmania.link import connect_to_twin
from paddock.environments.trackmania.pad import Button, VirtualGamepad, press, read_datagram
from paddock.environments.trackmania.recording import drive_and_record
from paddock.environments.trackmania.screen import ScreenError, SharedScreen, SharedScreenWriter, WindowScreen
from paddock.environments.trackmania.trajectory import save_trajectory
from paddock.environments.trackmania.twin.game import TwinSettings
from paddock.environments.trackmania.twin.local import LocalTwin
from paddock.environments.trackmania.twin.process import TwinProcess, ask_twin
from paddock.environments.trackmania.window import Area, WindowError, X11Windows
from trackmania_cases import drive, make_env, running_twin, small_road, xvfb


def test_shared_screen_shows_the_newest_picture_and_a_new_twin(tmp_path):
    path = tmp_path / "screen"
    writer = SharedScreenWriter(path, 40, 30)
    reader = SharedScreen(path)
    for value in range(1, 9):
        writer.write(np.full((30, 40, 3), value, np.uint8))
        assert (reader.grab() == value).all()
    assert reader.frames == 8
    writer.close()
    again = SharedScreenWriter(path, 64, 48)
    again.write(np.full((48, 64, 3), 77, np.uint8))
    assert reader.grab().shape == (48, 64, 3)
    reader.close()
    again.close()
    with pytest.raises(ScreenError, match="start one: paddock twin"):
        SharedScreen(path)


@pytest.mark.parametrize("content", [b"", b"x" * 100, struct.pack("<4sIIQ", b"PSCR", 2**31, 2**31, 0) + b"\0" * 60])
def test_shared_screen_refuses_other_files(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ScreenError, match="no twin's screen"):
        SharedScreen(tmp_path / "other")


def test_pad_datagrams_from_elsewhere_are_cut_or_refused():
    assert read_datagram(struct.pack("<4sBfff", b"PAD1", 3, 5.0, -1.0, -9.0)) == (Button(3), (1.0, 0.0, -1.0))
    assert read_datagram(struct.pack("<4sBfff", b"PAD1", 0, float("nan"), 0, 0)) is None
    assert read_datagram(b"PAD1") is None
    assert read_datagram(b"\xff" * 17) is None


def test_loopback_link_drives_a_twin_of_its_own_clock(tmp_path):
    with running_twin(track=small_road(tmp_path), countdown=0.2) as server:
        link = connect_to_twin(server.addresses(), WallClock())
        try:
            assert link.telemetry.wait(0, 5) is not None
            assert link.screen.grab().shape == (128, 256, 3)
            press(link.pad, Button.RESTART, link.clock)
            link.pad.apply(1.0, 0.0, 0.5)
            deadline = time.monotonic() + 10
            while not link.pad.rumbled() and time.monotonic() < deadline:
                time.sleep(0.05)
            packet = link.telemetry.newest
            assert packet.steer == pytest.approx(0.5)
            assert time.monotonic() < deadline, "a car that hits the wall makes the pad rumble"
            control = server.addresses()["control"]
            assert ask_twin(control, "verify_loaded_map")["map_uid"] == server.game.track.fingerprint
            assert ask_twin(control, "state")["restarts"] == 2
        finally:
            link.close()


def test_twin_process_in_lock_step_answers_commands(tmp_path):
    twin = TwinProcess(TwinSettings(track=small_road(tmp_path)), "--lock-step")
    try:
        assert twin.ask("step", frames=90)["frames"] == 90
        assert twin.ask("state")["frames"] == 90
        assert "did you mean" not in str(twin.ask("fault", kind="stall"))
        with pytest.raises(Exception, match="refuses 'step': frames is 0"):
            twin.ask("step", frames=0)
        with pytest.raises(Exception, match="unknown command"):
            twin.ask("explode")
        screen = Path(twin.addresses["screen"])
        assert screen.exists()
    finally:
        twin.close()
    assert not screen.exists()


class Keys:
    def __init__(self):
        self.events = []

    def set(self, name, is_down):
        self.events.append((name, is_down))

    def close(self):
        self.events.append("closed")


def test_keyboard_presses_what_the_action_means():
    assert held_keys(0.1, 0.0, 0.4, Button(0)) == {"gas"}
    assert held_keys(0.0, 1.0, -0.6, Button.RESTART) == {"brake", "left", "restart"}
    keys = Keys()
    keyboard = Keyboard(keys)
    keyboard.apply(1.0, 0.0, 0.9)
    keyboard.apply(1.0, 0.0, -0.9)
    keyboard.close()
    assert keys.events == [
        ("gas", True), ("right", True), ("left", True), ("right", False), ("gas", False), ("left", False), "closed",
    ]  # fmt: skip


def bilinear(picture, height, width):
    """Pixel by pixel, by the centres of pixels."""
    rows, columns, _ = picture.shape
    made = np.zeros((height, width, 3))
    for i in range(height):
        for j in range(width):
            y = min(max((i + 0.5) * rows / height - 0.5, 0), rows - 1)
            x = min(max((j + 0.5) * columns / width - 0.5, 0), columns - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            v, u = y - top, x - left
            made[i, j] = (1 - v) * ((1 - u) * picture[top, left] + u * picture[top, right]) + v * (
                (1 - u) * picture[bottom, left] + u * picture[bottom, right]
            )
    return made


def test_images_are_resized_and_grey_as_defined():
    picture = np.random.default_rng(1).integers(0, 255, (37, 61, 3), np.uint8)
    expected = bilinear(picture.astype(float), 16, 24)
    found = Resizer(16, 24)(picture)
    assert np.abs(found - expected).max() <= 0.51
    grey = seen(picture, Resizer(16, 24), True)
    assert np.abs(grey - expected @ [0.114, 0.587, 0.299]).max() <= 1.1
    assert (seen(picture, None, False) == picture[:, :, ::-1]).all()


def test_steering_calibration_undoes_a_measured_curve(tmp_path):
    clock = VirtualClock()
    twin = LocalTwin(TwinSettings(track=small_road(tmp_path), countdown=0.1, steering="measured"), clock)
    clock.sleep(0.5)
    curve = measure_steering(twin, twin, clock)
    save_curve(curve, tmp_path / "curve.json")
    curve = load_curve(tmp_path / "curve.json")
    for wanted in np.linspace(-1, 1, 41):
        twin.apply(0.0, 0.0, curve.stick_for(float(wanted)))
        clock.sleep(0.05)
        assert twin.newest.steer == pytest.approx(wanted, abs=0.01)


def test_steering_calibration_needs_a_pad_that_works(tmp_path):
    clock = VirtualClock()
    twin = LocalTwin(TwinSettings(track=small_road(tmp_path), countdown=10.0), clock)
    clock.sleep(0.2)
    with pytest.raises(InputError, match="does not reach the game"):
        measure_steering(twin, twin, clock, positions=5)
    with pytest.raises(InputError, match="rise from left to right"):
        SteeringCurve((-1.0, 0.0, 1.0), (1.0, 0.0, -1.0))
    (tmp_path / "curve.json").write_text('{"stick": [1], "applied": "x"}')
    with pytest.raises(DamagedError, match="no steering curve"):
        load_curve(tmp_path / "curve.json")


def test_virtual_gamepad_is_made_where_uinput_exists():
    if not os.access("/dev/uinput", os.W_OK):
        pytest.skip("/dev/uinput is not here or cannot be written to")
    pytest.importorskip("vgamepad")
    pad = VirtualGamepad()
    pad.apply(1.0, 0.0, -0.5)
    pad.hold(Button.RESTART)
    assert pad.rumbled() is False
    pad.close()


@pytest.mark.skipif(which("Xvfb") is None, reason="Xvfb is not installed")
def test_x11_window_is_captured_at_any_place_and_takes_keys(tmp_path, monkeypatch):
    pytest.importorskip("mss")
    with xvfb() as display:
        monkeypatch.setenv("DISPLAY", display)
        monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
        with pytest.raises(WindowError, match="no window with the title 'Trackmania'"):
            X11Windows().area("Trackmania")
        settings = TwinSettings(track=small_road(tmp_path), width=255, height=127, countdown=0.0)
        twin = TwinProcess(settings, "--lock-step", "--window", "137,53")
        screen = None
        try:
            twin.ask("step", frames=3)
            assert X11Windows().area("Trackmania") == Area(137, 53, 255, 127)
            screen = WindowScreen(255, 127)
            assert (screen.grab() == SharedScreen(Path(twin.addresses["screen"])).grab()).all()
            with pytest.raises(InputError, match="shows 255x127 pixels, and 256x128 are expected"):
                WindowScreen(256, 128)
            keyboard = Keyboard(X11Keys())
            keyboard.apply(1.0, 0.0, 0.0)
            time.sleep(0.2)
            before = screen.grab()
            twin.ask("step", frames=120)
            keyboard.close()
            assert (screen.grab() != before).any(), "the key drives the car"
        finally:
            if screen is not None:
                screen.close()
            twin.close()


@pytest.mark.skipif(which("Xvfb") is None, reason="Xvfb is not installed")
def test_x11_game_is_examined_and_driven_by_window_and_keys(tmp_path, monkeypatch):
    """All that stands between an agent and the game, but the game: its window, keys, and telemetry over TCP."""
    pytest.importorskip("mss")
    road = small_road(tmp_path)
    trajectory, _ = drive_and_record(TwinSettings(track=road))
    save_trajectory(trajectory, tmp_path / "map.safetensors")
    with xvfb() as display:
        monkeypatch.setenv("DISPLAY", display)
        monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
        twin = TwinProcess(TwinSettings(track=road, countdown=0.5), "--window", "61,33")
        port = twin.addresses["telemetry"]
        env = None
        try:
            wanted = Examination("trackmania", port, pad="keyboard", trajectory=tmp_path / "map.safetensors")
            assert [finding.level for finding in examine_game(wanted)] == ["ok"] * 7
            options = {"pad": "keyboard", "port": port, "trajectory": str(wanted.trajectory), "sleep_at_reset": 0.5}
            env = make_env(game="trackmania", clock="wall", **options)
            observation, *_, info = drive(env, 30, lambda _: np.array([[1, 0, 0]], np.float32))
            assert info["progress"][0] > 0
            assert observation["speed"][0, 0] > 0
        finally:
            if env is not None:
                env.close()
            twin.close()

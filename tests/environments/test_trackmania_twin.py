"""The twin of TrackMania in lock-step: the same bytes, a picture that lidar can read, faults, restarts, a finish."""

import math
from dataclasses import replace

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.environments.trackmania.lidar import PixelLidar
from paddock.environments.trackmania.packets import FORMATS, PacketStream
from paddock.environments.trackmania.pad import Button
from paddock.environments.trackmania.twin.faults import FAULTS, Fault, parse_fault
from paddock.environments.trackmania.twin.game import Stage, TwinGame, TwinSettings
from trackmania_cases import small_road

GO = (1.0, 0.0, 0.0)
NOTHING = Button(0)
STILL = (0.0, 0.0, 0.0)


@pytest.fixture
def small(tmp_path):
    return TwinSettings(track=small_road(tmp_path), countdown=0.5)


def frames(game, count, buttons=NOTHING, axes=None):
    if axes is not None:
        game.use_pad(buttons, axes)
    for _ in range(count):
        game.frame()
    return game.telemetry()


def tap(game, button):
    game.use_pad(button, STILL)
    game.frame()
    game.use_pad(Button(0), STILL)
    game.frame()


def scripted(settings):
    """Bytes and pictures of two seconds of a wild drive."""
    game, data = TwinGame(settings), b""
    for number in range(120):
        game.use_pad(Button(0), (1.0, 0.0, math.sin(number / 9)))
        game.frame()
        data += game.packet() or b""
        data += game.picture().tobytes() if number % 20 == 0 else b""
    return data


@pytest.mark.parametrize("protocol", FORMATS)
def test_twin_in_lock_step_gives_the_same_bytes_for_the_same_seed(small, protocol):
    settings = replace(small, protocol=protocol)
    assert scripted(settings) == scripted(settings)
    stream = PacketStream()
    game = TwinGame(settings)
    for _ in range(10):
        game.frame()
        stream.feed(game.packet())
    assert stream.format is FORMATS[protocol]


def test_twin_waits_for_the_countdown_and_restarts_to_the_line(small):
    game = TwinGame(small)
    start = frames(game, 28, axes=GO).position
    assert game.telemetry().speed == 0.0
    assert game.stage is Stage.COUNTDOWN
    driven = frames(game, 60)
    assert driven.speed > 3.0
    assert driven.gas == 1.0
    assert driven.distance == pytest.approx(math.dist(driven.position, start), rel=0.1)
    tap(game, Button.RESTART)
    assert game.telemetry().position == start
    assert game.stage is Stage.COUNTDOWN
    assert game.restarts == 2


def test_twin_steers_to_the_side_that_it_says(small):
    for side in (1.0, -1.0):
        game = TwinGame(small)
        before = frames(game, 45, axes=GO)
        heading = float(game.world.heading[0])
        after = frames(game, 20, axes=(0.5, 0.0, side))
        assert after.steer == side
        assert np.sign(float(game.world.heading[0]) - heading) == -side  # Paddock's angles grow to the left.
        assert before.direction[0] != after.direction[0]


def test_twin_picture_shows_right_on_the_right(small):
    game = TwinGame(small)
    game.frame()
    lidar = PixelLidar(128, 256)
    middle = lidar.read(game.picture())
    assert abs(middle[0] - middle[18]) < 15
    game.world.reset(s=0.0, lateral=-3.0)  # to the right of the centreline
    game._poses.append((float(game.world.x[0]), float(game.world.y[0]), float(game.world.heading[0])))
    moved = lidar.read(game.picture())
    assert moved[0] < middle[0] - 15
    assert moved[18] > middle[18] + 15


@pytest.mark.parametrize("size", [(256, 128), (958, 488), (301, 217)])
def test_twin_borders_stop_every_beam_before_the_grass(small, size):
    """Grass is greener than red by far, road is grey: no sample before the first dark one may be grass."""
    width, height = size
    game = TwinGame(replace(small, width=width, height=height))
    lidar = PixelLidar(height, width)
    for place in range(0, 220, 20):
        game.world.reset(s=float(place), lateral=float(place % 5 - 2), heading_error=0.3 * (place % 3 - 1))
        game._poses.append((float(game.world.x[0]), float(game.world.y[0]), float(game.world.heading[0])))
        picture = game.picture()
        is_grass = picture[:, :, 1].astype(int) - picture[:, :, 2] > 40
        flat, hits = is_grass.ravel(), lidar.read(picture).astype(int)
        for beam in range(19):
            pixels = lidar._pixels[beam, : hits[beam]]
            assert not flat[pixels].any(), (place, beam)


def test_twin_finish_shows_a_dialog_that_confirm_closes(small):
    game = TwinGame(small)
    frames(game, 40)
    game.world.lap_count[0] = 1
    game.world.last_lap_time[0] = 12.5
    packet = frames(game, 2, axes=GO)
    assert packet.is_finished
    assert game.stage is Stage.DIALOG
    assert game.lap_time == 12.5
    position = packet.position
    assert frames(game, 30, axes=GO).position == position  # The car ignores the pad.
    tap(game, Button.RESTART)
    assert game.stage is Stage.DIALOG
    tap(game, Button.CONFIRM)
    assert game.stage is Stage.FINISHED
    assert game.telemetry().is_finished
    tap(game, Button.RESTART)
    assert not game.telemetry().is_finished


def test_twin_display_delay_shows_earlier_frames(small):
    pictures = {}
    for delay in (0, 2):
        game = TwinGame(replace(small, display_delay=delay))
        game.use_pad(Button(0), GO)
        pictures[delay] = []
        for _ in range(60):
            game.frame()
            pictures[delay].append(game.picture())
    for number in range(40, 60):
        assert (pictures[2][number] == pictures[0][number - 2]).all()
    assert (pictures[2][50] != pictures[0][50]).any()


def test_twin_faults_do_what_they_say(small):
    def with_fault(kind):
        game = TwinGame(replace(small, faults=(Fault(kind),)))
        frames(game, 60, axes=GO)
        return game

    assert with_fault("stall").packet() is None
    assert with_fault("stall").telemetry().speed > 1.0
    menu = with_fault("menu")
    assert menu.packet() is None
    assert menu.stage is Stage.MENU
    menu.clear_faults()
    menu.frame()
    assert menu.stage is Stage.COUNTDOWN
    dialog = with_fault("dialog")
    assert (dialog.stage, dialog.telemetry().speed) == (Stage.DIALOG, 0.0)
    tap(dialog, Button.CONFIRM)
    assert frames(dialog, 60, axes=GO).speed > 1.0
    refusing, once = with_fault("refuse"), with_fault("refuse_once")
    for _ in range(2):
        tap(refusing, Button.RESTART)
        tap(once, Button.RESTART)
    assert (refusing.restarts, once.restarts) == (1, 2)
    assert with_fault("pad").telemetry().speed == 0.0
    assert with_fault("slow").is_faulty("slow")
    assert with_fault("drop").is_faulty("drop")
    with pytest.raises(Exception, match="known format"):
        PacketStream().feed(with_fault("protocol").packet() * 4)
    assert set(FAULTS) >= {"stall", "drop", "slow", "menu", "dialog", "refuse", "pad", "protocol"}


def test_twin_faults_are_written_with_their_times():
    assert parse_fault("stall") == Fault("stall")
    assert parse_fault("stall@10+2.5") == Fault("stall", 10.0, 12.5)
    with pytest.raises(InputError, match=r"unknown fault 'stal'.*stall"):
        parse_fault("stal@3")
    with pytest.raises(InputError, match="KIND@BEGINS"):
        parse_fault("stall at 3")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("frame_rate", 10, "30 to 120"),
        ("display_delay", 3, "0 to 2"),
        ("protocol", 12, "protocol"),
        ("edge", "x", "edge"),
    ],
)
def test_twin_settings_are_checked(option, value, message):
    with pytest.raises(InputError, match=message):
        TwinSettings(**{option: value})

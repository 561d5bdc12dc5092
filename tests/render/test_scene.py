"""Frames for people: right size, headless, cars and instruments where they belong."""

import math

import numpy as np
import pygame
import pytest

from paddock.core.errors import InputError
from paddock.render.lap_time import format_lap_time
from paddock.render.scene.cars import PALETTE
from paddock.render.scene.ground import ASPHALT, TrackArt, speed_colours
from paddock.render.scene.hud import _text
from paddock.render.scene.renderer import CAMERAS, Hud, Renderer, Scene, SpeedLine
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track


@pytest.fixture(scope="module")
def track():
    return with_obstacles(load_track("oval"), 6, seed=1)


def scene_at(track, index, cars=1, **more):
    at = (index - 12 * np.arange(cars)) % len(track.x)
    return Scene(x=track.x[at], y=track.y[at], heading=track.heading[at], **more)


@pytest.mark.parametrize("camera", CAMERAS)
@pytest.mark.parametrize("size", [(640, 480), (321, 243)])
def test_a_frame_has_the_size_asked_for_and_is_a_new_array(track, camera, size):
    renderer = Renderer(track, size, camera)
    hud = Hud(speed=30.0, gear=3, rpm=7000.0, lap=1, lap_time=12.3, best_lap=45.6, title="oval")
    scene = scene_at(track, 40, cars=3, ghost=[False, True, False], hud=hud, rays=np.zeros((5, 2)))
    first, second = renderer.draw(scene), renderer.draw(scene)
    assert first.shape == (size[1], size[0], 3)
    assert first.dtype == np.uint8
    assert first.flags.writeable
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("camera", ["follow", "north_up"])
def test_the_followed_car_is_where_the_camera_looks(track, camera):
    frame = Renderer(track, (640, 480), camera, minimap=False).draw(scene_at(track, 40, colour=[0]))
    row = round(480 * (0.66 if camera == "follow" else 0.5))
    near = frame[row - 12 : row + 12, 308:332].reshape(-1, 3).astype(int)
    distance = np.abs(near - np.array(PALETTE[0])).sum(axis=1)
    assert (distance < 60).sum() > 10


def test_road_and_grass_lie_where_the_track_says(track):
    renderer = Renderer(track, (640, 480), "north_up", minimap=False, view_metres=60.0)
    far = Scene(x=np.array([track.x[0], 1e6]), y=np.array([track.y[0], 1e6]), heading=np.zeros(2))
    frame = renderer.draw(far).astype(int)
    pixels = 480 / 60.0
    ahead, aside = track.heading[0], track.heading[0] + math.pi / 2
    on_road = 6.0 * np.array([math.cos(ahead), math.sin(ahead)])
    off_road = (track.left_width[0] + 8.0) * np.array([math.cos(aside), math.sin(aside)])
    for (dx, dy), is_road in ((on_road, True), (off_road, False)):
        colour = frame[round(240 - dy * pixels), round(320 + dx * pixels)]
        assert (np.abs(colour - np.array(ASPHALT)).sum() < 40) == is_road


def test_a_ghost_is_fainter_than_a_car(track):
    renderer = Renderer(track, (320, 240), "north_up", minimap=False)
    empty = renderer.draw(Scene(x=track.x[40:41], y=track.y[40:41] + 1e5, heading=np.zeros(1))).shape
    solid = renderer.draw(scene_at(track, 40)).astype(int)
    ghost = renderer.draw(scene_at(track, 40, ghost=[True])).astype(int)
    assert empty == solid.shape
    red = np.abs(solid - np.array(PALETTE[0])).sum(axis=2) < 40
    assert red.sum() > 10
    assert np.abs(ghost[red] - np.array(PALETTE[0])).sum(axis=1).min() > 60


def test_tiles_are_forgotten_when_there_are_too_many(track):
    art = TrackArt(track, detail=16.0, max_tiles=8)
    for index in range(0, len(track.x), 10):
        x, y = track.x[index], track.y[index]
        art.require(np.array([[x - 3, y - 3], [x + 3, y - 3], [x - 3, y + 3], [x + 3, y + 3]]))
        column, row = int((x - art.left) / art.tile_metres), int((art.top - y) / art.tile_metres)
        assert art.lookup[row, column] > 0


def test_a_speed_line_is_drawn_in_its_colours(track):
    line = SpeedLine(track.x, track.y, np.linspace(10.0, 60.0, len(track.x)))
    with_line = Renderer(track, (320, 240), "track", line=line).draw(scene_at(track, 0))
    without = Renderer(track, (320, 240), "track").draw(scene_at(track, 0))
    assert (with_line != without).any(axis=2).sum() > 200
    colours = speed_colours(line.speed)
    assert colours[0][0] > colours[0][1]
    assert colours[-1][1] > colours[-1][0]


def test_times_are_written_as_people_write_them():
    assert format_lap_time(83.4564, with_minutes=True) == "1:23.456"
    assert format_lap_time(59.9996, with_minutes=True) == "1:00.000"
    assert format_lap_time(math.nan, with_minutes=True) == "-:--.---"


def test_an_unknown_camera_is_named(track):
    with pytest.raises(InputError, match="north_up"):
        Renderer(track, camera="northup")


def test_frames_go_on_after_somebody_else_ended_pygame(track):
    scene = scene_at(track, 40, hud=Hud(speed=30.0, title="before"))
    renderer = Renderer(track, (320, 240), "follow")
    expected = renderer.draw(scene)
    pygame.quit()
    pygame.init()  # as Gymnasium's own environments do when they are closed and opened
    _text.cache_clear()
    assert np.array_equal(renderer.draw(scene), expected)

"""The camera: what is where in the picture, in colour and grey, from the bonnet and from above."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from world_tracks import stadium_track

from paddock.sim.lens import COLOURS, build_palette
from paddock.sim.settings import CameraSettings, Imperfection, WorldSettings
from paddock.sim.world import World

SKY, GRASS, LINE, ROAD, _, OBSTACLE, _, SIDE, TOP, OWN = (np.array(colour) for colour in COLOURS)


def picture(camera: CameraSettings, lateral: float = 0.0, **options: object) -> np.ndarray:
    world = World(stadium_track(), "gt", 1, settings=WorldSettings(camera=camera, **options))  # type: ignore[arg-type]
    world.reset(s=5.0, lateral=lateral, heading_error=0.0)
    return world.camera[0, 0]


def share(image: np.ndarray, colour: np.ndarray) -> float:
    return float((image == colour).all(axis=-1).mean())


def test_from_the_bonnet_there_is_sky_above_and_road_below() -> None:
    image = picture(CameraSettings())
    assert image.shape == (64, 64, 3)
    assert (image[0] == SKY).all()
    assert share(image[-1:], ROAD) > 0.8
    assert share(image, GRASS) > 0.02
    assert share(image, LINE) > 0.003
    mirrored = (image == ROAD).all(axis=-1)
    assert (mirrored == mirrored[:, ::-1]).mean() > 0.97


def test_the_edge_is_where_the_projection_says() -> None:
    """From above, with 1 m per pixel, an 8 m half road seen from 3 m left of its middle."""
    image = picture(CameraSettings(view="above", width=64, height=64, span=64.0), lateral=3.0)
    row = image[10]
    on_road = ~(row == GRASS).all(axis=-1)
    assert on_road.sum() == 16
    assert np.flatnonzero(on_road)[0] == 32 - 5
    assert share(image[54:62, 30:34], OWN) > 0.2


def test_obstacles_and_other_cars_are_drawn_near_over_far() -> None:
    track = stadium_track()
    track = replace(track, obstacles=np.array([[track.x[0] + 25.0, 0.0, 1.0]]))
    camera = CameraSettings(mount_height=1.0, pitch=0.1)
    world = World(track, "gt", 2, settings=WorldSettings(group_size=2, camera=camera))
    world.reset(s=[5.0, 15.0], lateral=[0.0, 4.0], heading_error=0.0)
    beside = world.camera[0, 0].copy()
    assert share(beside, SIDE) + share(beside, TOP) > 0.004
    assert share(beside, OBSTACLE) > 0.001
    world.reset(s=[5.0, 15.0], lateral=0.0, heading_error=0.0)
    assert share(world.camera[0, 0], OBSTACLE) < 0.7 * share(beside, OBSTACLE)


def test_grey_is_the_luminance_of_colour() -> None:
    colour = picture(CameraSettings())
    grey = picture(CameraSettings(colour=False))
    assert grey.shape == (64, 64, 1)
    palette = build_palette(CameraSettings(colour=False))[:, 0]
    for index in (0, 1, 3):
        pixels = (colour == np.array(COLOURS[index])).all(axis=-1)
        assert (grey[pixels] == palette[index]).all()


def test_history_latency_and_noise() -> None:
    settings = WorldSettings(camera=CameraSettings(width=32, height=24, history=4))
    plain = World(stadium_track(), "gt", 2, settings=settings)
    late = World(
        stadium_track(), "gt", 2,
        settings=WorldSettings(camera=CameraSettings(width=32, height=24, imperfection=Imperfection(latency=2))),
    )  # fmt: skip
    for world in (plain, late):
        world.reset(s=5.0, lateral=0.0, heading_error=0.3, speed=20.0)
        for _ in range(6):
            world.step(np.zeros((2, 2)))
    assert plain.camera.shape == (2, 4, 24, 32, 3)
    assert not np.array_equal(plain.camera[:, 0], plain.camera[:, 3])
    np.testing.assert_array_equal(late.camera[:, 0], plain.camera[:, 2])
    noisy = picture(CameraSettings(imperfection=Imperfection(noise=10.0)))
    clean = picture(CameraSettings())
    assert 7.0 < (noisy.astype(float) - clean).std() < 11.0


def test_surfaces_differ_in_grey_too() -> None:
    greys = np.sort(build_palette(CameraSettings(colour=False))[:4, 0].astype(int))  # sky, grass, edge line, road
    assert np.diff(greys).min() >= 30

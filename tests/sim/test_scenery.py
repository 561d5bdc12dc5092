"""Scenery: kerbs inside corners and at their exits, gravel outside, trees off the road, and what a page is sent."""

from __future__ import annotations

import json

import numpy as np
import pytest
from world_tracks import circle_track, stadium_track

from paddock.racing.view import drawn_track
from paddock.sim.tracks.scenery import GRAVEL_DEPTH, lay_scenery, start_patches
from paddock.sim.tracks.sources import load_track
from paddock.sim.tracks.track import Track


def scenery_of(track: Track):
    return lay_scenery(track, np.arange(len(track)))


def test_scenery_has_kerbs_inside_a_left_corner_and_outside_its_exit() -> None:
    track = stadium_track(400.0)
    scenery = scenery_of(track)
    turning = track.curvature > 0
    assert scenery.kerb_left[turning].mean() > 0.9
    assert not scenery.kerb_left[~turning].all()
    exits = scenery.kerb_right & ~turning
    assert exits.any()
    assert not (scenery.kerb_right & turning & np.roll(turning, 40) & np.roll(turning, -40)).any()


def test_scenery_gravel_lies_outside_sharp_corners_only() -> None:
    track = circle_track(40.0, half_width=5.0)
    scenery = scenery_of(track)
    np.testing.assert_allclose(scenery.gravel_right, GRAVEL_DEPTH * scenery.unit)
    assert (scenery.gravel_left == 0.0).all()
    assert (scenery_of(circle_track(400.0, half_width=5.0)).gravel_right == 0.0).all()


def test_scenery_trees_stand_off_every_piece_of_road_at_any_scale() -> None:
    track = load_track("ridgeway")
    trees = scenery_of(track).trees
    assert len(trees) > 20
    gaps = np.hypot(trees[:, :1] - track.x, trees[:, 1:2] - track.y).min(axis=1)
    assert (gaps - trees[:, 2] > track.left_width.max()).all()
    np.testing.assert_allclose(scenery_of(track.scaled(0.1)).trees, 0.1 * trees, rtol=1e-6)


def test_scenery_start_patches_lie_across_the_road_and_behind_the_line() -> None:
    track = stadium_track(400.0)
    patches = start_patches(track)
    assert {is_white for is_white, _ in patches} == {True, False}
    corners = np.concatenate([corners for _, corners in patches])
    across = (corners - [track.x[0], track.y[0]]) @ track.normal[0]
    assert across.max() == pytest.approx(track.left_width[0])
    assert across.min() == pytest.approx(-track.right_width[0])


@pytest.mark.parametrize("name", ["meadow", "oval", "serpent"])
def test_drawn_track_has_kerbs_of_equal_blocks(name: str) -> None:
    drawn = drawn_track(load_track(name))
    centre = np.array(drawn["centre"])
    steps = np.hypot(*np.diff(centre, axis=0).T)
    np.testing.assert_allclose(steps, steps[0], rtol=0.1)
    kerb = np.array(drawn["scenery"]["sides"][0]["kerb"])
    blocks = np.split(kerb, np.flatnonzero(np.diff(kerb)) + 1)
    whole = [here for before, here, after in zip(blocks, blocks[1:], blocks[2:], strict=False)
             if before[0] and here[0] and after[0]]  # fmt: skip
    assert len({len(block) for block in whole}) == 1


def test_drawn_track_sends_the_scenery_of_each_point_as_json() -> None:
    track = load_track("ridgeway")
    drawn = json.loads(json.dumps(drawn_track(track)))
    assert drawn["scenery"]["unit"] == pytest.approx(track.mean_width / 10)
    for side in drawn["scenery"]["sides"]:
        assert len(side["kerb"]) == len(side["gravel"]) == len(drawn["centre"])
        assert set(side["kerb"]) == {0, 1, 2}

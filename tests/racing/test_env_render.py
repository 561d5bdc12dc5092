"""Pictures of the racing environment."""

import gymnasium
import numpy as np
import pytest

import paddock.environments  # noqa: F401 - makes the id known
from paddock.racing.env.vector import RacingVectorEnv
from racing_cases import ID


@pytest.mark.parametrize("camera", ["follow", "north_up", "track"])
def test_pictures_of_one_and_of_several(camera):
    picture = {"width": 320, "height": 240, "camera": camera, "rays": True, "line": True, "ghosts": 3, "frames": 2}
    env = RacingVectorEnv(6, render_mode="rgb_array", track="oval", picture=picture)
    env.reset(seed=0)
    frames = env.render()
    assert len(frames) == 2
    assert all(frame.shape == (240, 320, 3) and frame.dtype == np.uint8 for frame in frames)
    single = gymnasium.make(ID, render_mode="rgb_array", track="oval", picture=picture)
    single.reset(seed=0)
    assert single.render().shape == (240, 320, 3)


def test_a_camera_above_sees_as_far_as_it_is_told():
    grass = {}
    for span in (None, 50.0, 200.0):
        env = RacingVectorEnv(1, observation="camera", sensing={"camera_view": "above", "camera_span": span})
        picture = env.reset(seed=1)[0][0]
        grass[span] = (picture == picture[0, 0]).all(-1).mean()
    assert grass[None] == grass[50.0] < grass[200.0] - 0.1


def test_procedural_tracks_may_differ_in_width_and_size():
    options = {"procedural": 6, "procedural_width": [7.0, 16.0], "procedural_radius": [120.0, 400.0]}
    tracks = RacingVectorEnv(6, **options).world.tracks
    widths = [float((track.left_width + track.right_width)[0]) for track in tracks]
    assert 7.0 <= min(widths) < 9.5 < 13.0 < max(widths) <= 16.0
    assert max(track.length for track in tracks) > 2 * min(track.length for track in tracks)
    again = RacingVectorEnv(6, **options).world.tracks
    assert [track.name for track in again] == [track.name for track in tracks]

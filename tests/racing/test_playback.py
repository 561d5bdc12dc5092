"""Playback of demonstrations: which step is shown, and the road that racing's observations tell of."""

import numpy as np
import pytest

from demonstration_cases import make_episode, write_set
from paddock.buffers.episodes import Description
from paddock.core.errors import InputError
from paddock.environments.spaces import spec_of_spaces
from paddock.racing.env.config import RacingConfig
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.playback import Playback, road_reader


def test_playback_shows_every_step_of_every_episode_and_begins_again(tmp_path):
    folder = write_set(tmp_path / "set", make_episode(3), make_episode(2, seed=1, marked=True))
    playback = Playback(folder, 1)
    shown, pictures = [], []
    for _ in range(6):
        shown.append((playback.number, playback.step))
        pictures.append(playback.picture())
        playback.advance()
    assert shown == [(1, 0), (1, 1), (0, 0), (0, 1), (0, 2), (1, 0)]
    assert (pictures[0] == pictures[5]).all()
    assert len({picture.tobytes() for picture in pictures}) == 5
    # The left half is the image that was seen: its corner is the first pixel, enlarged.
    seen = playback.episodes[1].observations["image"][0]
    assert (pictures[0][5, 5] == seen[0, 0]).all()
    playback.begin()
    assert playback.step == 0
    with pytest.raises(InputError, match=r"no episode 2 .* which has 2"):
        Playback(folder, 2)


@pytest.mark.parametrize("progress", [0, 3])
def test_playback_reads_the_road_of_racing_observations(progress):
    config = RacingConfig(
        _target_="paddock.racing.env.vector.make", track="oval", observation="course", sensing={"progress": progress}
    )
    env = RacingVectorEnv(1, config=config)
    observation, _ = env.reset(seed=3)
    about = Description(spec_of_spaces(env.single_observation_space, env.single_action_space), config.to_dict(), 0.05)
    road = road_reader(about)({"observation": observation[0]})
    np.testing.assert_allclose(road, env.world.course[0, 0].reshape(-1, 4), atol=1e-3)
    other = Description(about.spec, {**config.to_dict(), "observation": "lidar"}, 0.05)
    assert road_reader(other) is None
    broken = Description(about.spec, {**config.to_dict(), "sensing": {"course_points": "many"}}, 0.05)
    assert road_reader(broken) is None
    env.close()

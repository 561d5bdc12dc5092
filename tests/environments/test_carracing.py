import gymnasium
import numpy as np

from paddock.environments.carracing import DrawnOnce
from paddock.environments.wrappers import ActionRepeat


def test_pictures_are_the_simulators_own(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    theirs = ActionRepeat(gymnasium.make("CarRacing-v3", disable_env_checker=True), 8)
    ours = DrawnOnce(ActionRepeat(gymnasium.make("CarRacing-v3", disable_env_checker=True), 8))
    for seed in (1, 2):
        one, other = theirs.reset(seed=seed)[0], ours.reset(seed=seed)[0]
        assert np.array_equal(one, other)
        for steer in (0.0, -0.6, 0.8):
            action = np.array([steer, 0.7, 0.0], np.float32)
            one, other = theirs.step(action), ours.step(action)
            assert np.array_equal(one[0], other[0])
            assert one[1:4] == other[1:4]
    theirs.close()
    ours.close()

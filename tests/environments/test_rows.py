"""Rows of a larger environment in an environment of their own begin and go on as they do there."""

import numpy as np
import pytest

from paddock.environments.dodge import DodgeVectorEnv
from paddock.environments.gym import GymConfig, make
from paddock.environments.rows import reset_rows, take_rows
from paddock.environments.two_ways import TwoWaysVectorEnv
from paddock.racing.env.vector import RacingVectorEnv

MAKERS = {
    "sync": lambda n: make(GymConfig(_target_="", id="CartPole-v1", num_envs=n), n),
    "dodge": DodgeVectorEnv,
    "two_ways": TwoWaysVectorEnv,
    "racing": lambda n: RacingVectorEnv(
        n,
        track=["meadow", "harbour"],
        observation="lidar",
        sensing={"noise": 0.05, "dropout": 0.1},
        randomise={"friction": [0.8, 1.1]},
        max_episode_steps=5,
        delays={"action": 0.05, "jitter": 0.05, "observation": 0.02, "observation_jitter": 0.05},
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_rows_of_a_larger_environment_are_bit_identical_in_one_of_their_own(kind):
    first, count, total = 3, 2, 6
    whole, some = MAKERS[kind](total), MAKERS[kind](count)
    assert take_rows(some, first)
    rows = slice(first, first + count)
    seen = [reset_rows(whole, seed=7, first=0)[0][rows], reset_rows(some, seed=7, first=first)[0]]
    assert np.array_equal(*seen)
    whole.action_space.seed(0)
    for _ in range(12):
        actions = whole.action_space.sample()
        one, other = whole.step(actions), some.step(actions[rows])
        for k in range(4):
            assert np.array_equal(one[k][rows], other[k]), k

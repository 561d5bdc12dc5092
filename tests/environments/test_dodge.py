"""The dodging task: what falls where, what it is worth to look, and that its state is all of it."""

import gymnasium
import numpy as np
import pytest

from paddock.environments.dodge import LEFT, RIGHT, SIDE, STAY, DodgeVectorEnv


def scores(env, choose):
    """The length of the first episode in each copy."""
    env.reset(seed=1)
    total, is_running = np.zeros(env.num_envs), np.ones(env.num_envs, bool)
    while is_running.any():
        _, reward, terminated, truncated, _ = env.step(choose(env))
        total += reward * is_running
        is_running &= ~(terminated | truncated)
    return total


def test_dodge_scores_of_chance_and_of_an_oracle():
    draws, env = np.random.default_rng(0), DodgeVectorEnv(1_000)

    def aside(env):
        return np.where(env.figure == env.column, np.where(env.figure < SIDE - 1, RIGHT, LEFT), STAY)

    assert scores(env, lambda env: draws.integers(3, size=1_000)).mean() == pytest.approx(22, abs=1.5)
    assert (scores(env, aside) == 60).all()


def test_fire_in_dodge_falls_a_row_a_step_and_hits_who_stands_below():
    env = DodgeVectorEnv(1, picture=False)
    observation, _ = env.reset(seed=3)
    env.figure[:], env.column[:] = 2, 2
    for row in range(1, SIDE):
        observation, reward, terminated, _, info = env.step(np.array([STAY]))
        assert reward == 1
        assert terminated == (row == SIDE - 1)
    assert info["final_obs"][0].tolist() == [0.0, 0.0, 1.0]
    assert observation[0, 2] == -1.0  # A new episode, fire in the top row.


def test_dodge_goes_on_to_the_bit_from_its_state():
    env = DodgeVectorEnv(5)
    env.reset(seed=2)
    draws = np.random.default_rng(0).integers(3, size=(40, 5))
    for actions in draws[:10]:
        env.step(actions)
    state = env.get_state()
    first = [env.step(actions)[0] for actions in draws[10:]]
    env.set_state(state)
    assert all(np.array_equal(one, env.step(actions)[0]) for one, actions in zip(first, draws[10:], strict=True))


def test_dodge_begins_alike_and_is_made_by_gymnasium():
    env = gymnasium.make_vec("paddock/Dodge-v0", 6)
    observation, _ = env.unwrapped.reset_alike(seed=1, starts=2)
    assert observation.shape == (6, 16, 16, 3)
    assert np.array_equal(observation[:2], observation[2:4])
    for _ in range(12):  # As long as all choose alike.
        observation, *_ = env.step(np.full(6, STAY))
        assert np.array_equal(observation[:2], observation[4:])

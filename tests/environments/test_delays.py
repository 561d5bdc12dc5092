"""Delays in virtual time around any Gymnasium environment: actions, observations, lost ones, the elastic clock."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from paddock.core.errors import InputError
from paddock.environments.delayed import Delayed, StepDelays
from paddock.environments.delays import ActionLine, Delays, draw
from paddock.environments.gym import GymConfig, make


class Echo(gymnasium.Env):
    """Observes the number of steps taken and the action that had its effect in the last one; 10 steps a second."""

    metadata = {"render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(-100.0, 100.0, (2,), np.float32)
    action_space = spaces.Box(-100.0, 100.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.array([self.count, action[0]], np.float32), float(self.count), False, False, {}


def played(steps=8, **delays):
    env = Delayed(Echo(), StepDelays(**delays))
    seen = [env.reset(seed=3)[0]]
    for number in range(1, steps + 1):
        observation, reward, *_ = env.step(np.array([number], np.float32))
        assert reward == number, "rewards are not delayed"
        seen.append(observation)
    return seen


def effects(seen):
    return [float(one[1]) for one in seen[1:]]


def test_action_delay_and_elastic_clock_shift_effects_by_whole_steps():
    assert effects(played()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert effects(played(action=0.2)) == [0, 0, 1, 2, 3, 4, 5, 6]
    assert effects(played(elastic=True)) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert effects(played(elastic=True, action=0.1)) == [0, 0, 1, 2, 3, 4, 5, 6]
    assert effects(played(action=0.1, time_step=0.05)) == [0, 0, 1, 2, 3, 4, 5, 6]


def test_observation_delay_shows_the_past_and_never_goes_back():
    assert [float(one[0]) for one in played(observation=0.2)] == [0, 0, 0, 1, 2, 3, 4, 5, 6]
    assert [float(one[0]) for one in played(observation=0.05)] == [0, 0, 1, 2, 3, 4, 5, 6, 7]
    late = [float(one[0]) for one in played(steps=200, observation=0.1, observation_jitter=0.3)]
    ages = np.arange(201) - late
    assert (np.diff(late) >= 0).all()
    assert {1, 2, 3, 4} >= set(ages[5:].tolist())
    assert len(set(ages[5:].tolist())) > 1


def test_dropped_frames_repeat_the_one_before():
    seen = np.array([float(one[0]) for one in played(steps=400, drop=0.25)])
    lost = np.diff(seen) == 0
    assert 0.15 < lost.mean() < 0.35
    assert (seen[1:][~lost] == np.arange(1, 401)[~lost]).all()


def test_jitter_draws_depend_on_the_seed_alone_and_stay_in_range():
    first, again = (
        effects(played(steps=100, action=0.1, jitter=0.3)),
        effects(played(steps=100, action=0.1, jitter=0.3)),
    )
    assert first == again
    ages = np.arange(1, 101) - np.array(first)
    assert ages[10:].min() >= 1
    assert ages[10:].max() <= 4
    assert (np.diff(first) >= 0).all(), "an older action never overrides a newer one"


def naive_draw(seed, car, episode, step, purpose):
    """Three rounds of SplitMix64 over the key, in whole numbers of Python."""

    def mixed(z):
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    z = mixed((seed * 0x9E3779B97F4A7C15 + car) % 2**64)
    z = mixed((z + (episode << 32) + step) % 2**64)
    return (mixed((z + (purpose << 32)) % 2**64) >> 11) / 2**53


def test_draws_are_those_of_a_naive_version():
    found = draw(7, np.arange(4), np.arange(4), 9, 8)
    np.testing.assert_array_equal(found, [naive_draw(7, car, car, 9, 8) for car in range(4)])
    many = draw(2**31 - 1, np.arange(10_000), 3, 5, 9)
    assert 0.49 < many.mean() < 0.51
    assert 0.0 <= many.min() < many.max() < 1.0


def test_action_line_takes_the_nearest_substep():
    line = ActionLine(Delays(action=0.1), 1, 1, time_step=0.05, substeps=5)
    line.begin(np.ones(1, bool))
    line.send(np.array([[5.0]], np.float32), [0.014])
    assert line.in_force([0])[0, :, 0].tolist() == [0, 5, 5, 5, 5]
    line.send(np.array([[6.0]], np.float32), [0.026])
    assert line.in_force([0])[0, :, 0].tolist() == [0, 5, 5, 6, 6]


def test_the_action_buffer_is_part_of_the_observation():
    seen = played(steps=3, elastic=True, act_buf_len=2)
    assert [one["last_actions"].tolist() for one in seen] == [[0, 0], [0, 1], [1, 2], [2, 3]]
    assert [one["observation"].tolist() for one in seen] == [[0, 0], [1, 0], [2, 1], [3, 2]]


def gym_config(**values):
    return GymConfig(**{"_target_": "paddock.environments.gym.make", "num_envs": 3, **values})


@pytest.mark.parametrize(("name", "size"), [("CartPole-v1", 2), ("Pendulum-v1", 1)])
def test_delays_of_gym_environments_are_exact_over_a_saved_state(name, size):
    delays = {"action": 0.05, "jitter": 0.1, "observation": 0.04, "drop": 0.1, "act_buf_len": 3}
    first, second = (make(gym_config(id=name, max_episode_steps=20, delays=delays), 3) for _ in range(2))
    assert first.single_observation_space["last_actions"].shape == (3 * size,)
    first.reset(seed=1)
    second.reset(seed=9)
    first.action_space.seed(0)
    for _ in range(11):
        first.step(first.action_space.sample())
    second.set_state(first.get_state())
    for _ in range(30):
        action = first.action_space.sample()
        (seen, reward, *_), (again, reward_again, *_) = first.step(action), second.step(action)
        np.testing.assert_array_equal(reward, reward_again)
        for part, values in seen.items():
            np.testing.assert_array_equal(values, again[part])


def test_delays_of_an_environment_without_a_time_step_need_one():
    env = Echo()
    env.metadata = {}
    with pytest.raises(InputError, match="time_step"):
        Delayed(env, StepDelays(action=0.1))
    with pytest.raises(InputError, match="delays"):
        make(gym_config(id="CartPole-v1", vectorization="custom", delays={"action": 0.1}), 2)

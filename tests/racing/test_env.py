"""paddock/Racing-v0: Gymnasium's contract, and state that goes on bit for bit."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import paddock.environments  # noqa: F401 - makes the id known
from paddock.environments.calls import final_observations
from paddock.environments.spaces import spec_of
from paddock.racing.env.vector import RacingVectorEnv
from racing_cases import ACTIONS, ID, OBSERVATIONS, REWARDS, drive, options_of


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_gymnasiums_own_checker_has_nothing_to_say(name, action):
    env = gymnasium.make(ID, action=action, track="oval", **options_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_stay_in_their_space_and_final_ones_are_arrays(name):
    env = gymnasium.make_vec(ID, num_envs=12, track="oval", max_episode_steps=7, **options_of(name))
    env.action_space.seed(3)
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    for step in range(1, 16):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert observation in env.observation_space
        assert reward.dtype == np.float32
        assert reward.shape == terminated.shape == truncated.shape == (12,)
        if step % 7 == 0:
            assert truncated.all()
            assert info["_final_obs"].all()
            assert info["final_obs"] in env.observation_space
            rows = np.arange(12)
            spec = spec_of(env)
            for part, values in final_observations(info, rows).items():
                assert values.shape == (12, *spec.observation[part].shape)


def test_the_vector_environment_says_what_it_is():
    env = gymnasium.make_vec(ID, num_envs=3, vectorization_mode="vector_entry_point", track="oval")
    assert isinstance(env, RacingVectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert env.metadata["render_fps"] == 20
    assert env.action_space.shape == (3, 2)


def test_a_final_observation_is_the_last_of_its_episode_and_the_next_is_fresh():
    env = RacingVectorEnv(4, track="oval", max_episode_steps=5, start={"speed": [0.0, 0.0]})
    env.reset(seed=0)
    full = np.tile(np.array([0.0, 1.0], np.float32), (4, 1))
    for _ in range(5):
        observation, _, terminated, truncated, info = env.step(full)
    assert truncated.all()
    assert not terminated.any()
    speed = env.observations.layout()["speed"][0]
    assert (info["final_obs"][:, speed] > 0.01).all()
    np.testing.assert_allclose(observation[:, speed], 0.0, atol=1e-6)
    assert (info["final_info"]["episode_length"] == 5).all()
    last_actions = slice(*env.observations.layout()["last_actions"])
    assert (info["final_obs"][:, last_actions] != 0).any()
    assert (observation[:, last_actions] == 0).all()


def test_gymnasiums_vector_wrappers_work_on_it():
    env = gymnasium.make_vec(ID, num_envs=4, track="oval", max_episode_steps=5)
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    env.reset(seed=0)
    for _ in range(5):
        *_, info = env.step(env.action_space.sample())
    assert (info["episode"]["l"] == 5).all()


def test_two_runs_from_one_seed_are_the_same_and_from_another_are_not():
    runs = []
    for seed in (1, 1, 2):
        env = RacingVectorEnv(16, track="oval", max_episode_steps=30)
        env.reset(seed=seed)
        runs.append(drive(env, 40))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    assert (runs[0][0] != runs[2][0]).any()


def test_a_car_drives_the_same_alone_as_among_many():
    results = []
    for count in (1, 7):
        env = RacingVectorEnv(count, track="oval")
        env.reset(seed=5)
        forward = np.tile(np.array([0.05, 0.7], np.float32), (count, 1))
        results.append([env.step(forward)[0][0] for _ in range(30)])
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("reward", REWARDS)
def test_state_is_exact(reward):
    options = {
        "track": "oval",
        "reward": reward,
        "max_episode_steps": 25,
        "action_delay": 1,
        "sensing": {"noise": 0.01, "latency": 1},
        "randomise": {"friction": (0.8, 1.1)},
    }
    first, second = RacingVectorEnv(8, **options), RacingVectorEnv(8, **options)
    first.reset(seed=3)
    second.reset(seed=99)
    drive(first, 20)
    first.set_reward_weight("progress", 0.7)
    second.set_state(first.get_state())
    (rewards, observations, infos), (again, seen_again, infos_again) = drive(first, 40, 7), drive(second, 40, 7)
    np.testing.assert_array_equal(rewards, again)
    np.testing.assert_array_equal(observations, seen_again)
    for one, other in zip(infos, infos_again, strict=True):
        np.testing.assert_equal(one, other)
    np.testing.assert_array_equal(first.reset()[0], second.reset()[0])


def test_state_of_a_single_environment_is_exact_and_can_be_saved(tmp_path):
    from paddock.core.trees import load_tree, save_tree

    first, second = gymnasium.make(ID, track="oval"), gymnasium.make(ID, track="oval")
    first.reset(seed=1)
    second.reset(seed=2)
    first.step(np.array([0.1, 1.0], np.float32))
    save_tree(tmp_path, "state", first.unwrapped.get_state())
    second.unwrapped.set_state(load_tree(tmp_path, "state"))
    action = np.array([-0.2, 0.8], np.float32)
    np.testing.assert_array_equal(first.step(action)[0], second.step(action)[0])

"""Tasks with several ways to a goal (two ways round, avoiding), their scripts, and the evaluator that counts ways."""

import gymnasium
import numpy as np
import pytest
import torch

from paddock.core.errors import InputError
from paddock.environments import avoiding, two_ways
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.evaluation.ways import Ways, WaysEvaluator, WaysEvaluatorConfig, entropy
from paddock.rollout.actor import RandomActor, RandomActorConfig

TASKS = {"TwoWays": (two_ways, 2, 20), "Avoiding": (avoiding, 24, 48)}


def demonstrations(module, episodes, seed=0):
    config = module.DemonstrateConfig(_target_="paddock.x", episodes=episodes, seed=seed)
    return list(module.demonstrate(config, None))


def replay(name, episode, seed):
    """The way that an episode took, by playing its actions again."""
    env = gymnasium.make_vec(f"paddock/{name}-v0", 1).unwrapped
    start = int(np.random.default_rng(seed).integers(2**31))
    env.reset(seed=[start])
    for action in episode["actions"]:
        info = env.step(action[None])[4]
    return int(info["final_info"]["way"][0]), bool(info["final_info"]["success"][0])


@pytest.mark.parametrize("name", TASKS)
def test_scripted_demonstrations_arrive_by_every_way_in_turn(name):
    module, ways, episodes = TASKS[name]
    found = demonstrations(module, episodes)
    assert all(one["rewards"][-1] == 1 and one["rewards"].sum() == 1 for one in found)
    taken = [replay(name, one, [0, number]) for number, one in enumerate(found)]
    assert all(success for _, success in taken)
    assert [way for way, _ in taken] == [number % ways for number in range(episodes)]
    assert all(len(one["observations"]["observation"]) == len(one["actions"]) + 1 for one in found)


def test_two_ways_straight_on_hits_the_disc_and_a_detour_arrives():
    env = two_ways.TwoWaysVectorEnv(1)
    env.reset(seed=1)
    done, steps = False, 0
    while not done:
        _, reward, terminated, _, info = env.step(np.array([[1.0, 0.0]]))
        done, steps = bool(terminated[0]), steps + 1
    assert reward[0] == 0
    assert info["final_info"]["success"].tolist() == [False]
    assert steps < 10  # at the disc's near side


def test_avoiding_leaves_the_plane_only_at_the_goal():
    env = avoiding.AvoidingVectorEnv(1)
    env.reset(seed=1)
    for _ in range(100):
        _, reward, terminated, _, _ = env.step(np.array([[-1.0, 0.0]]))
        if terminated[0]:
            break
    assert terminated[0]
    assert reward[0] == 0


@pytest.mark.parametrize("name", TASKS)
def test_tasks_with_ways_go_on_to_the_bit_from_their_state(name):
    env = gymnasium.make_vec(f"paddock/{name}-v0", 5).unwrapped
    env.reset(seed=2)
    draws = np.random.default_rng(0).uniform(-1, 1, (200, 5, 2)).astype(np.float32)
    for actions in draws[:50]:
        env.step(actions)
    state = env.get_state()
    first = [env.step(actions)[0] for actions in draws[50:]]
    env.set_state(state)
    assert all(np.array_equal(one, env.step(actions)[0]) for one, actions in zip(first, draws[50:], strict=True))


@pytest.mark.parametrize("name", TASKS)
def test_tasks_with_ways_draw_pictures(name):
    env = gymnasium.make_vec(f"paddock/{name}-v0", 2, render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    first, second = env.render()
    assert first.shape == (256, 256, 3)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) == 4  # ground, discs, goal, point
    assert not np.array_equal(first, second)


def test_way_entropy_is_that_of_successes_in_units_of_all_ways():
    assert entropy(np.array([1.0, 0.0])) == 0
    assert entropy(np.array([0.5, 0.5])) == pytest.approx(1)
    assert entropy(np.full(24, 1 / 24)) == pytest.approx(1)
    assert entropy(np.array([0.25, 0.75])) == pytest.approx(0.811278, abs=1e-5)
    found = Ways(np.array([1, 1, 0, 1], bool), np.array([0, 0, 1, 1]), np.array([3, 3, 3, 3]), 2).metrics()
    assert found["eval/success"] == 0.75
    assert found["eval/largest_way_share"] == pytest.approx(2 / 3)


def evaluator():
    return WaysEvaluator(WaysEvaluatorConfig(_target_="paddock.x", ways=2))


def test_ways_evaluator_counts_every_start_once_and_alike():
    config = GymConfig(_target_="it", id="paddock/TwoWays-v0", num_envs=1, vectorization="custom")

    def make_env(count, render_mode):
        return make(config, count, render_mode)

    actor = RandomActor(RandomActorConfig(_target_="it"), {}, spec_of(make_env(1, None)))
    torch.manual_seed(5)
    before = torch.get_rng_state()
    found = [evaluator()(actor, make_env, episodes=20, seed=3, deterministic=False) for _ in range(2)]
    assert torch.equal(before, torch.get_rng_state())
    assert found[0].lengths.tolist() == found[1].lengths.tolist()
    assert len(found[0].successes) == 20
    assert found[0].metrics()["eval/success"] < 0.3


def test_ways_evaluator_refuses_an_environment_without_ways():
    config = GymConfig(_target_="it", id="CartPole-v1", num_envs=1)
    actor = RandomActor(RandomActorConfig(_target_="it"), {}, spec_of(make(config, 1)))
    with pytest.raises(InputError, match="does not tell ways apart"):
        evaluator()(actor, lambda count, mode: make(config, count, mode), episodes=2, seed=0, deterministic=False)

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from paddock.core.errors import InputError
from paddock.core.trees import load_tree, save_tree
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import as_dict, final_observations, spec_of

EXACT = [
    ("CartPole-v1", "sync"),
    ("CartPole-v1", "custom"),
    ("Pendulum-v1", "sync"),
    ("Acrobot-v1", "sync"),
    ("MountainCar-v0", "sync"),
    ("MountainCarContinuous-v0", "sync"),
]


def config(**values):
    return GymConfig(**{"_target_": "paddock.environments.gym.make", "num_envs": 3, **values})


@pytest.mark.parametrize(("name", "vectorization"), EXACT)
def test_a_saved_state_goes_on_exactly(tmp_path, name, vectorization):
    settings = config(id=name, vectorization=vectorization, max_episode_steps=40)
    first, second = make(settings, 3), make(settings, 3)
    first.reset(seed=1)
    first.action_space.seed(0)
    actions = [first.action_space.sample() for _ in range(150)]
    for action in actions[:57]:
        first.step(action)
    save_tree(tmp_path, "state", first.get_state())
    second.set_state(load_tree(tmp_path, "state"))
    for action in actions[57:]:
        one, other = first.step(action), second.step(action)
        for left, right in zip(one[:4], other[:4], strict=True):
            assert np.array_equal(left, right)


def test_an_environment_without_state_says_so():
    env = make(config(id="LunarLander-v3"), 2)
    assert not hasattr(env, "get_state")
    env.close()


def test_the_true_last_observation_is_there():
    env = make(config(id="CartPole-v1"), 3)
    env.reset(seed=3)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    for _ in range(100):
        following, _, terminated, truncated, info = env.step(np.ones(3, np.int64))
        if (ended := np.flatnonzero(terminated | truncated)).size:
            break
    final = final_observations(info, ended)["observation"]
    assert (np.abs(final[:, 2]) > 0.2).all(), "the pole had fallen"
    assert (np.abs(as_dict(following)["observation"][ended, 2]) < 0.06).all(), "and stands again"


def test_specs_of_choices_boxes_and_flattened_spaces():
    assert spec_of(make(config(id="CartPole-v1"), 1)).action.choices == 2
    action = spec_of(make(config(id="Pendulum-v1"), 1)).action
    assert (action.low, action.high, action.shape) == (-2.0, 2.0, (1,))
    frozen_lake = spec_of(make(config(id="FrozenLake-v1", flatten_observation=True), 1))
    assert frozen_lake.observation["observation"].shape == (16,)
    with pytest.raises(InputError, match="flatten_observation=true"):
        spec_of(make(config(id="FrozenLake-v1"), 1))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPol-v1", "Did you mean 'CartPole-v1'"),
        ("ALE/Pong-v5", r"paddock\[atari\]"),
        ("MiniGrid-Empty-8x8-v0", r"paddock\[minigrid\]"),
        ("HalfCheetah-v5", r"paddock\[dmc\]"),
    ],
)
def test_what_cannot_be_made_is_explained(name, message):
    with pytest.raises(InputError, match=message):
        make(config(id=name), 1)


def test_unknown_arguments_are_explained():
    with pytest.raises(InputError, match="graviti"):
        make(config(id="CartPole-v1", arguments={"graviti": 3}), 1)

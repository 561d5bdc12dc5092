import sys

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from paddock.core.errors import InputError
from paddock.environments.calls import as_dict, final_observations
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of


def config(**values):
    return GymConfig(**{"_target_": "paddock.environments.gym.make", "num_envs": 3, **values})


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


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(InputError, match="Did you mean 'CartPole-v1'"):
        make(config(id="CartPol-v1"), 1)


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("ALE/Pong-v5", "ale_py", "atari"),
        ("MiniGrid-Empty-8x8-v0", "minigrid", "minigrid"),
        ("HalfCheetah-v5", "mujoco", "mujoco"),
        ("LunarLander-v3", "Box2D", "box2d"),
    ],
)
def test_what_is_not_installed_is_explained(monkeypatch, name, missing, extra):
    for module in [module for module in sys.modules if module.split(".")[0] == missing or "envs.box2d" in module]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=rf"paddock\[{extra}\]"):
        make(config(id=name), 1)


def test_wrappers_do_not_go_with_the_own_vector_version():
    with pytest.raises(InputError, match=r"vectorization to sync or async"):
        make(config(id="CartPole-v1", vectorization="custom", action_repeat=2), 1)


def test_unknown_arguments_are_explained():
    with pytest.raises(InputError, match="graviti"):
        make(config(id="CartPole-v1", arguments={"graviti": 3}), 1)

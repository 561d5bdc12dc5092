"""`gamma: auto`: a discount from the length of an episode."""

import pytest

from paddock.core.errors import InputError
from paddock.orchestration.discount import discount
from paddock.orchestration.launch import Request, resolve


@pytest.mark.parametrize(
    ("steps", "expected"), [(200, 0.975), (500, 0.99), (1_000, 0.995), (50, 0.95), (10_000, 0.995), (None, 0.99)]
)
def test_discount_of_an_episode_length(steps, expected):
    assert discount(steps) == expected


def gamma_of(experiment, *overrides):
    config, _ = resolve(Request(experiment, overrides=["workflow.gamma=auto", *overrides]))
    return config


def test_gamma_auto_reads_the_limit_of_the_environment():
    assert gamma_of("ppo", "environment.id=Pendulum-v1").workflow.gamma == 0.975
    assert gamma_of("ppo", "environment.id=CartPole-v1").workflow.gamma == 0.99
    assert gamma_of("ppo", "environment.id=CartPole-v1", "environment.max_episode_steps=100").workflow.gamma == 0.95


def test_gamma_auto_counts_decisions():
    assert gamma_of("ppo", "environment.id=CartPole-v1", "environment.action_repeat=2").workflow.gamma == 0.98


def test_gamma_auto_does_not_depend_on_where_copies_run():
    assert gamma_of("ppo", "environment.id=Pendulum-v1", "environment.vectorization=async").workflow.gamma == 0.975


def test_gamma_auto_is_one_number_everywhere():
    config = gamma_of("dqn", "environment.id=MountainCar-v0")
    assert config.workflow.gamma == config.buffers["replay"].gamma == 0.975


def test_gamma_auto_without_an_environment_to_look_at_is_refused():
    with pytest.raises(InputError, match="gamma: auto needs an environment"):
        gamma_of("trackmania_full_ppo")
    with pytest.raises(InputError, match="there is no Gymnasium environment 'CartPol-v1'"):
        gamma_of("ppo", "environment.id=CartPol-v1")

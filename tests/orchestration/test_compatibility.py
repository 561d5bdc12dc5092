"""Algorithms and environments that do not fit are refused in words, before anything is learned."""

import pytest

from paddock.core.errors import InputError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["sac_pendulum", "environment.id=CartPole-v1"],
            ["SAC is for continuous", "2 choices", "dqn, dreamer", "iqn", "ppo", "sac_racing"],
        ),
        (["dqn_cartpole", "environment.id=Pendulum-v1"], ["DQN is for discrete", "1 continuous", "ppo, redq, sac"]),
        (["redq_racing", "environment.action=discrete"], ["REDQ is for continuous", "15 choices", "redq_pendulum"]),
        (["iqn_racing", "environment.action=steer_throttle"], ["2 continuous numbers", "dqn_racing, iqn_racing"]),
    ],
    ids=["sac on choices", "dqn on numbers", "redq racing", "iqn racing"],
)
def test_what_does_not_fit_is_refused_and_told_what_does(prepared, tmp_path, arguments, words):
    with pytest.raises(InputError) as refused:
        prepared(*arguments)
    assert [word for word in words if word not in str(refused.value)] == []

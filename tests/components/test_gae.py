import numpy as np
import pytest
import torch

from paddock.components.return_computers.gae import generalized_advantages


def naive(reward, value, next_value, terminated, truncated, valid, gamma, lambda_):
    """The sum of the definition, each advantage on its own."""
    steps, copies = reward.shape
    advantage = np.zeros((steps, copies))
    for b in range(copies):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                if not valid[k, b]:
                    break
                future = 0.0 if terminated[k, b] else next_value[k, b]
                advantage[t, b] += weight * (reward[k, b] + gamma * future - value[k, b])
                if terminated[k, b] or truncated[k, b]:
                    break
                weight *= gamma * lambda_
    return advantage


@pytest.mark.parametrize("seed", range(5))
def test_against_the_definition(seed):
    random = np.random.default_rng(seed)
    shape = (20, 3)
    reward, value, next_value = random.normal(size=(3, *shape)).astype(np.float32)
    terminated, truncated = random.random((2, *shape)) < 0.1
    valid = random.random(shape) > 0.1
    arguments = (reward, value, next_value, terminated, truncated & ~terminated, valid)
    ours = generalized_advantages(*map(torch.from_numpy, arguments), gamma=0.97, lambda_=0.9)
    assert np.allclose(ours.numpy(), naive(*arguments, 0.97, 0.9), atol=1e-4)


def test_truncation_bootstraps_and_termination_does_not():
    one, zero = torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.bool)
    settings = {"gamma": 0.5, "lambda_": 1.0}
    truncated = generalized_advantages(one, 0 * one, 8 * one, zero, ~zero, ~zero, **settings)
    terminated = generalized_advantages(one, 0 * one, 8 * one, ~zero, zero, ~zero, **settings)
    assert truncated.item() == 5.0
    assert terminated.item() == 1.0

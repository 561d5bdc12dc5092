import pytest
import torch
from torch import distributions

from paddock.components.networks.distributions import Categorical, Gaussian

torch.manual_seed(0)


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_gaussian_agrees_with_torch(shape):
    mean, log_std = torch.randn(*shape, 2), torch.randn(2)
    action = torch.randn(*shape, 2)
    ours, theirs = Gaussian(mean, log_std), distributions.Normal(mean, log_std.exp())
    assert torch.allclose(ours.log_prob(action), theirs.log_prob(action).sum(-1), atol=1e-5)
    assert torch.allclose(ours.entropy(), theirs.entropy().sum(-1), atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_categorical_agrees_with_torch(shape):
    logits = torch.randn(*shape, 6)
    action = torch.randint(6, shape)
    ours, theirs = Categorical(logits), distributions.Categorical(logits=logits)
    assert torch.allclose(ours.log_prob(action), theirs.log_prob(action), atol=1e-5)
    assert torch.allclose(ours.entropy(), theirs.entropy(), atol=1e-5)
    assert torch.equal(ours.mode(), logits.argmax(-1))


def test_samples_follow_their_distribution():
    logits = torch.tensor([0.0, 1.0, -2.0])
    draws = Categorical(logits.expand(100_000, 3)).sample()
    assert torch.allclose(draws.bincount(minlength=3) / 100_000, logits.softmax(-1), atol=0.01)
    normal = Gaussian(torch.full((100_000, 1), 2.0), torch.tensor([-1.0])).sample()
    assert abs(normal.mean() - 2.0) < 0.01
    assert abs(normal.std() - torch.tensor(-1.0).exp()) < 0.01

import pytest
import torch
from torch import distributions

from paddock.components.actions import Categorical, Gaussian, SquashedGaussian

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


def test_squashed_log_probabilities_equal_torchs():
    torch.manual_seed(1)
    mean, log_std, noise = torch.randn(64, 3), torch.randn(64, 3) * 0.5, torch.randn(64, 3)
    ours = SquashedGaussian(mean, log_std)
    normal = torch.distributions.Normal(mean, log_std.exp())
    theirs = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform(cache_size=1))
    action, log_prob = ours.sample_with_log_prob(noise)
    assert torch.allclose(action, (mean + log_std.exp() * noise).tanh())
    inside = (action.abs() < 0.99).all(-1)
    assert inside.sum() > 20
    assert torch.allclose(log_prob[inside], theirs.log_prob(action).sum(-1)[inside], atol=1e-3)
    assert torch.allclose(ours.log_prob(action)[inside], log_prob[inside], atol=1e-3)
    assert torch.equal(ours.mode(), mean.tanh())
    assert (ours.sample().abs() <= 1).all()


def test_a_squashed_density_integrates_to_one_and_is_finite_far_out():
    grid = torch.linspace(-1, 1, 200_001, dtype=torch.float64)[1:-1]
    for mean, log_std in [(0.0, 0.0), (1.0, -1.0), (-0.5, 0.2)]:
        squashed = SquashedGaussian(
            *(torch.full((len(grid), 1), number, dtype=grid.dtype) for number in (mean, log_std))
        )
        mass = torch.trapezoid(squashed.log_prob(grid[:, None]).exp(), grid)
        assert abs(mass.item() - 1) < 1e-3
    far = SquashedGaussian(torch.tensor([[40.0]], requires_grad=True), torch.tensor([[2.0]]))
    _, log_prob = far.sample_with_log_prob(torch.tensor([[3.0]]))
    (gradient,) = torch.autograd.grad(log_prob.sum(), far.mean)
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(gradient).all()

import pytest
import torch

from paddock.components.normalizers import ReturnScale, ReturnScaleConfig
from paddock.components.return_computers.td_lambda import lambda_returns

T, B = 7, 3


@pytest.fixture
def steps():
    torch.manual_seed(0)
    reward, value = torch.randn(2, T, B, dtype=torch.float64)
    discount = 0.9 * (torch.rand(T, B) > 0.2).double()
    return reward, value, discount


def naive_n_step(reward, value, discount, t, b, n):
    """Rewards of n steps, then the value where they lead; at the end of the sequence what there is."""
    total, weight = 0.0, 1.0
    for k in range(t, min(t + n, T)):
        total += weight * reward[k, b]
        weight *= discount[k, b]
    return total + weight * value[min(t + n, T) - 1, b]


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.95])
def test_lambda_is_the_mixture_of_all_n(steps, lambda_):
    reward, value, discount = steps
    returns = lambda_returns(reward, value, discount, value[-1], lambda_=lambda_)
    for t in range(T):
        for b in range(B):
            left = T - t
            mixture = sum(
                (1 - lambda_) * lambda_ ** (n - 1) * naive_n_step(reward, value, discount, t, b, n)
                for n in range(1, left)
            ) + lambda_ ** (left - 1) * naive_n_step(reward, value, discount, t, b, left)
            assert returns[t, b].item() == pytest.approx(mixture.item())


def test_with_a_lambda_of_one_it_is_the_discounted_sum(steps):
    reward, value, discount = steps
    returns = lambda_returns(reward, value, discount, value[-1], lambda_=1.0)
    for t in range(T):
        for b in range(B):
            assert returns[t, b].item() == pytest.approx(naive_n_step(reward, value, discount, t, b, T))


def test_lambda_of_zero_cuts_the_sum(steps):
    reward, value, discount = steps
    lambda_ = torch.full((T, B), 0.8, dtype=torch.float64)
    lambda_[3] = 0
    cut = lambda_returns(reward, value, discount, value[-1], lambda_=lambda_)
    assert torch.allclose(cut[3], reward[3] + discount[3] * value[3])
    alone = lambda_returns(reward[:3], value[:3], discount[:3], cut[3], lambda_=0.8)
    assert torch.allclose(cut[:3], alone)


def test_the_scale_is_the_range_of_returns_but_never_small():
    scale = ReturnScale(ReturnScaleConfig(_target_="x"), None)
    assert scale() == 1
    scale.update(torch.linspace(0, 100, 1001).reshape(7, 143))
    assert scale().item() == pytest.approx(90, rel=1e-4)  # The average is of what was seen, not of where it began.
    scale.update(torch.zeros(50))
    assert scale().item() == pytest.approx(90 * 0.99 / 1.99, rel=1e-3)
    for _ in range(1000):
        scale.update(torch.linspace(0, 0.5, 100))
    assert scale() == 1
    off = ReturnScale(ReturnScaleConfig(_target_="x", enabled=False), None)
    off.update(torch.randn(100) * 1000)
    assert off() == 1

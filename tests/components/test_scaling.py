import math

import pytest
import torch

from paddock.components.networks.heads import (
    ContinueHead,
    NumberHead,
    NumberHeadConfig,
    expected_bin,
    symexp,
    symlog,
    symmetric_bins,
    two_hot,
    two_hot_cross_entropy,
)
from paddock.components.networks.mlp import DenseConfig

KINDS = ["normal", "symlog", "two_hot", "two_hot_symlog"]
NUMBERS = [-5e6, -333.0, -1.0, -0.013, 0.0, 0.4, 2.5, 77.0, 1e5]


def head(kind, **changes):
    config = {"layers": 1, "units": 16, "norm": "layer", "kind": kind, **changes}
    return NumberHead(NumberHeadConfig(**config), 5)


def test_symlog_is_the_signed_logarithm_and_symexp_undoes_it():
    numbers = torch.tensor(NUMBERS, dtype=torch.float64)
    naive = [math.copysign(math.log(1 + abs(number)), number) for number in NUMBERS]
    assert symlog(numbers).tolist() == pytest.approx(naive)
    assert symexp(symlog(numbers)).tolist() == pytest.approx(NUMBERS)


@pytest.mark.parametrize("exponential", [True, False])
def test_two_hot_round_trip(exponential):
    """Weights on two neighbouring bins whose mean is the number; numbers beyond the bins lie on the outermost."""
    bins = symmetric_bins(255, 20.0, exponential=exponential).double()
    numbers = torch.tensor(NUMBERS if exponential else [-20.0, -3.3, 0.0, 0.01, 7.7, 20.0], dtype=torch.float64)
    below, weight = two_hot(numbers, bins)
    dense = torch.zeros(len(numbers), 255, dtype=torch.float64)
    for row, (index, share) in enumerate(zip(below.tolist(), weight.tolist(), strict=True)):
        dense[row, index], dense[row, index + 1] = 1 - share, share
    assert (dense @ bins).tolist() == pytest.approx(numbers.tolist(), abs=1e-9)
    assert expected_bin(dense.log(), bins).tolist() == pytest.approx(numbers.tolist(), rel=1e-6, abs=1e-6)
    below, weight = two_hot(torch.tensor([1e12, -1e12], dtype=torch.float64), bins)
    assert below.tolist() == [253, 0]
    assert weight.tolist() == [1, 0]


@pytest.mark.parametrize("targets", [1, 2])
def test_two_hot_cross_entropy_is_that_of_dense_targets(targets):
    bins = symmetric_bins(41, 5.0, exponential=True).double()
    logits = torch.randn(6, 41, dtype=torch.float64, requires_grad=True)
    numbers = torch.randn(6, targets, dtype=torch.float64) * 20
    below, weight = two_hot(numbers, bins)
    dense = torch.zeros(6, 41, dtype=torch.float64)
    for one in range(targets):
        dense[range(6), below[:, one]] += 1 - weight[:, one]
        dense[range(6), below[:, one] + 1] += weight[:, one]
    naive = -(dense * logits.log_softmax(-1)).sum(-1)
    loss = two_hot_cross_entropy(logits, numbers, bins)
    assert torch.allclose(loss, naive)
    scale = torch.rand(6, dtype=torch.float64)
    (found,) = torch.autograd.grad((loss * scale).sum(), logits)
    (expected,) = torch.autograd.grad((naive * scale).sum(), logits)
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_that_begin_at_zero_predict_zero(kind):
    made = head(kind, output_scale=0.0)
    assert (made.predict(made(torch.randn(50, 5) * 100)) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_heads_learn_numbers_of_any_size(kind):
    """The loss is least where the prediction is the target."""
    made = head(kind, layers=0).double()
    target = torch.tensor([-40.0, 0.0, 3.0, 600.0], dtype=torch.float64)
    target = target / 100 if kind == "normal" else target
    outputs = torch.zeros(4, made.output.out_features, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([outputs], 0.3)
    for _ in range(300):
        optimizer.zero_grad()
        made.loss(outputs, target).sum().backward()
        optimizer.step()
    assert made.predict(outputs).tolist() == pytest.approx(target.tolist(), rel=0.02, abs=0.02)


def test_the_continue_head_gives_a_chance():
    made = ContinueHead(DenseConfig(layers=1, units=8), 5)
    logit = made(torch.randn(7, 5))
    goes_on = torch.tensor([1.0, 0, 1, 1, 0, 1, 0])
    chance = logit.sigmoid()
    naive = -(goes_on * chance.log() + (1 - goes_on) * (1 - chance).log())
    assert torch.allclose(made.loss(logit, goes_on), naive, atol=1e-6)


@pytest.mark.parametrize("kind", ["two_hot", "two_hot_symlog"])
def test_the_column_that_pads_a_heads_bins_changes_no_number_and_no_gradient(kind):
    torch.manual_seed(0)
    net, features, target = head(kind, output_scale=1.0), torch.randn(7, 5), torch.randn(7)
    padded = net(features)
    plain = net.output(net.hidden(features))
    assert padded.shape[-1] == plain.shape[-1] + 1
    torch.testing.assert_close(net.predict(padded), net.predict(plain))
    torch.testing.assert_close(net.loss(padded, target), net.loss(plain, target))
    for one, other in zip(
        torch.autograd.grad(net.loss(padded, target).sum(), list(net.parameters())),
        torch.autograd.grad(net.loss(plain, target).sum(), list(net.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(one, other)

"""Activations of our own against torch's."""

import torch

from paddock.components.networks.mlp import tanh


def test_tanh_and_its_gradient_are_torchs():
    inputs = torch.cat([torch.linspace(-12, 12, 4801), torch.tensor([-1e30, -200.0, 0.0, 1e-6, 200.0, 1e30])])
    ours, theirs = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()
    weights = torch.randn(len(inputs), generator=torch.Generator().manual_seed(1))
    outputs, expected = tanh(ours), torch.tanh(theirs)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=3e-7)
    (outputs * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=2e-6)
    assert tanh(torch.zeros(3)).eq(0).all()


def test_what_goes_in_stays_as_it_is():
    inputs = torch.randn(4, 5)
    before = inputs.clone()
    tanh(inputs)
    assert torch.equal(inputs, before)

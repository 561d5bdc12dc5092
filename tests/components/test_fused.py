"""The fused ensemble against a plain one of torch's own layers."""

import pytest
import torch

from paddock.components.networks.mlp import MLPConfig
from paddock.components.networks.stacked import StackedMLP


def plain(network: StackedMLP, inputs, members):
    answers = []
    for member in members:
        hidden = inputs
        for layer in network.hidden:
            hidden = torch.relu(hidden @ layer.weight[member] + layer.bias[member])
        answers.append(hidden @ network.head.weight[member] + network.head.bias[member])
    return torch.stack(answers)


def make(outputs: int, hidden: list[int]) -> StackedMLP:
    torch.manual_seed(0)
    config = MLPConfig(_target_="test", hidden=hidden, activation="relu", orthogonal=False)
    return StackedMLP(config, 3, 5, outputs, head_gain=None).double()


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("hidden", [[8], [8, 6]])
@pytest.mark.parametrize("chosen", [None, [2, 0]])
def test_a_fused_ensemble_has_the_outputs_and_gradients_of_a_plain_one(outputs, hidden, chosen):
    network, inputs = make(outputs, hidden), torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    learned = [inputs, *network.parameters()]
    index = None if chosen is None else torch.tensor(chosen)
    fused, naive = network(inputs, index), plain(network, inputs, chosen or range(3))
    assert type(fused.grad_fn).__name__ == "FusedReLUBackward"
    weight = torch.randn_like(naive)
    torch.testing.assert_close(fused, naive)
    kept = weight.clone()
    for one, other in zip(
        torch.autograd.grad((fused * weight).sum(), learned),
        torch.autograd.grad((naive * kept).sum(), learned),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_an_ensemble_that_does_not_learn_passes_the_gradient_of_its_inputs_alone():
    network, inputs = make(1, [8, 6]), torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    (naive,) = torch.autograd.grad(plain(network, inputs, range(3)).square().sum(), [inputs])
    values = network(inputs, learns=False)
    found = torch.autograd.grad(values.square().sum(), [inputs, network.head.weight], allow_unused=True)
    torch.testing.assert_close(found[0], naive)
    assert found[1] is None

"""Private functions of torch against plain ones: an upgrade of torch that changes or drops one of them fails here."""

import pytest
import torch

from paddock.components import torch_internals
from paddock.components.torch_internals import PLAIN


def tensors(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in [(), (3,), (2, 5)]]


def test_torch_internals_are_all_there():
    assert torch_internals.MISSING == []
    for name in ("copy_each", "lerp_each", "add_each", "multiply_each", "norm_each", "fused_adamw"):
        assert getattr(torch_internals, name) not in PLAIN.values()
    assert torch_internals.trace_gradients()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_foreach_copy_", [tensors(1)]),
        ("_foreach_lerp_", [tensors(1), 0.3]),
        ("_foreach_add_", [tensors(1)]),
        ("_foreach_add_", [1]),
        ("_foreach_mul_", [0.5]),
        ("_foreach_mul_", [[torch.tensor(0.5), torch.tensor(2.0), torch.tensor(-1.0)]]),
    ],
)
def test_torch_internals_change_tensors_as_plain_operations_do(name, arguments):
    ours, theirs = tensors(), tensors()
    getattr(torch, name)(ours, *arguments)
    PLAIN[name](theirs, *arguments)
    assert not any(torch.equal(*pair) for pair in zip(ours, tensors(), strict=True))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other)


def test_torch_internals_give_norms_as_plain_operations_do():
    norms = torch_internals.norm_each(tensors())
    for one, other in zip(norms, PLAIN["_foreach_norm"](tensors()), strict=True):
        assert torch.allclose(one, other)


@pytest.mark.parametrize("step", [torch_internals.fused_adamw, PLAIN["_fused_adamw_"]], ids=["fused", "plain"])
def test_fused_adamw_and_its_stand_in_take_the_steps_of_torch_optim(step):
    values, gradients = tensors(), tensors(1)
    parameters = [torch.nn.Parameter(value.clone()) for value in values]
    reference = torch.optim.AdamW(parameters, lr=0.05, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)
    firsts, seconds = ([torch.zeros_like(value) for value in values] for _ in range(2))
    counts = [torch.zeros(()) for _ in values]
    options = {"lr": 0.05, "beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.1}
    for _ in range(5):
        torch_internals.add_each(counts, 1)
        step(values, gradients, firsts, seconds, [], counts, **options, amsgrad=False, maximize=False)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
    for value, parameter in zip(values, parameters, strict=True):
        assert torch.allclose(value, parameter, atol=1e-6)

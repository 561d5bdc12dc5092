import pytest
import torch

from paddock.components import compilation


def gradients(weight, inputs):
    loss = (inputs @ weight).tanh().square().mean()
    return loss.detach(), torch.autograd.grad(loss, [weight])[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch
def test_a_compiled_function_gives_the_same_loss_and_gradient():
    torch.manual_seed(0)
    weight, inputs = torch.randn(3, 2, requires_grad=True), torch.randn(5, 3)
    compiled = compilation.compile_gradients(gradients, enabled=True)
    assert compiled is not gradients
    for one, other in zip(compiled(weight, inputs), gradients(weight, inputs), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_without_a_compiler_it_goes_on_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(compilation.shutil, "which", lambda name: None)
    assert compilation.compile_gradients(gradients, enabled=True) is gradients
    assert "no C++ compiler" in caplog.text
    assert compilation.compile_gradients(gradients, enabled=False) is gradients

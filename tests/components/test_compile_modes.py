from types import SimpleNamespace

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from paddock.components import compiling
from paddock.components.compiling import PLAIN_UPDATES, Compiling
from paddock.config.schema import Switch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch


def gradients(weight, inputs):
    loss = (inputs @ weight).tanh().square().mean()
    return loss.detach(), torch.autograd.grad(loss, [weight])[0]


def uncompilable(weight, inputs):
    """One graph cannot hold both branches."""
    loss, gradient = gradients(weight, inputs)
    return (loss, gradient) if loss.item() > 0 else (gradient, loss)


def numbers():
    torch.manual_seed(0)
    return torch.randn(3, 2, requires_grad=True), torch.randn(5, 3)


def test_a_compiled_function_gives_the_same_loss_and_gradient(tmp_path, monkeypatch):
    monkeypatch.delenv(compiling.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    compiled = Compiling("on", SimpleNamespace(updates=0)).gradients(gradients)
    assert compiled is not gradients
    for one, other in zip(compiled(*numbers()), gradients(*numbers()), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert any((tmp_path / "cache" / "inductor").iterdir()), "the next run would have to compile again"
    monkeypatch.delenv(compiling.CACHE_VARIABLE)


def test_compile_auto_begins_with_the_same_update_in_a_resumed_run():
    counters = SimpleNamespace(updates=PLAIN_UPDATES - 1)
    before = Compiling("auto", counters)
    assert not before.is_on
    counters.updates += 1
    assert before.is_on
    resumed = Compiling("auto", SimpleNamespace(updates=PLAIN_UPDATES))
    resumed.set_state(before.get_state())
    assert resumed.is_on


def test_a_run_that_began_without_a_compiler_stays_so_unless_compile_is_changed(monkeypatch, caplog):
    counters = SimpleNamespace(updates=PLAIN_UPDATES)
    with monkeypatch.context() as without:
        without.setattr(compiling.shutil, "which", lambda name: None)
        began = Compiling("auto", counters)
        assert not caplog.text, "nobody asked for it"
        Compiling("on", counters)
        assert "no C++ compiler" in caplog.text
        assert began.gradients(gradients)(*numbers())[0] == gradients(*numbers())[0]
    assert not began.is_on
    resumed, changed = Compiling("auto", counters), Compiling("on", counters)
    resumed.set_state(began.get_state())
    changed.set_state(began.get_state())
    assert (resumed.is_on, changed.is_on) == (False, True)


def test_where_compiling_fails_it_goes_on_plainly_and_says_so_once(caplog):
    part = Compiling("on", SimpleNamespace(updates=0))
    first, second = part.gradients(uncompilable), part.gradients(gradients)
    assert first(*numbers())[0] == gradients(*numbers())[0]
    assert second(*numbers())[0] == gradients(*numbers())[0]
    assert not part.is_on
    assert not part.get_state()["compiles"]
    assert caplog.text.count("compiling failed") == 1


def test_an_error_of_the_function_itself_is_not_taken_for_one_of_the_compiler():
    compiled = Compiling("on", SimpleNamespace(updates=0)).gradients(gradients)
    with pytest.raises(RuntimeError, match="shape"):
        compiled(torch.randn(4, 2, requires_grad=True), torch.randn(5, 3))


@pytest.mark.parametrize(("given", "mode"), [(True, "on"), (False, "off"), ("auto", "auto")])
def test_compile_takes_the_booleans_of_before(given, mode):
    assert TypeAdapter(Switch).validate_python(given) == mode
    with pytest.raises(ValidationError):
        TypeAdapter(Switch).validate_python("maybe")


def test_compile_off_leaves_the_function_as_it_is():
    assert Compiling("off", SimpleNamespace(updates=0)).gradients(gradients) is gradients

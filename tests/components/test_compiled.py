import pytest
import torch

from paddock.components import compiled as module
from paddock.components.compiled import compiled


def losses(inputs):
    return {"loss": inputs.tanh().square().mean()}


@pytest.mark.parametrize("mode", ["on", "auto"])
def test_compile_without_a_compiler_goes_on(monkeypatch, caplog, mode):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert compiled(losses, mode) is losses
    assert ("no C++ compiler" in caplog.text) == (mode == "on")
    assert compiled(losses, "off") is losses


def test_compile_that_fails_goes_on_with_one_sentence(monkeypatch, caplog):
    def fails(graph, inputs):
        raise RuntimeError("this backend compiles nothing")

    torch_compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function: torch_compile(function, backend=fails))
    function = compiled(losses, "on")
    for _ in range(2):
        assert function(torch.ones(3))["loss"].item() == pytest.approx(losses(torch.ones(3))["loss"].item())
    assert caplog.text.count("going on without") == 1

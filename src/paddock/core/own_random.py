"""Random numbers of torch for one thread alone: what it draws neither moves nor depends on the global generator, which
all threads share."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

LIKE = {torch.randn_like: torch.randn, torch.rand_like: torch.rand}
DRAWS = {
    torch.randn,
    torch.rand,
    torch.randint,
    torch.randint_like,
    torch.randperm,
    torch.normal,
    torch.bernoulli,
    torch.multinomial,
    torch.poisson,
    torch.Tensor.bernoulli,
    torch.Tensor.multinomial,
    torch.Tensor.exponential_,
    torch.Tensor.normal_,
    torch.Tensor.uniform_,
    torch.Tensor.bernoulli_,
    torch.Tensor.random_,
}
_thread = threading.local()


class OwnDraws(TorchFunctionMode):
    """Inside, this thread draws from `generator`, which is of the CPU."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in LIKE:
            kwargs = {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            func, args = LIKE[func], (tuple(args[0].shape),)
        if func in DRAWS and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self._generator}
        return func(*args, **kwargs)

    def __enter__(self) -> OwnDraws:
        _thread.generator = self._generator
        return super().__enter__()

    def __exit__(self, *why: Any) -> None:
        _thread.generator = None
        super().__exit__(*why)


def own_generator() -> torch.Generator | None:
    """The generator that this thread draws from; None where it is the global one."""
    return getattr(_thread, "generator", None)

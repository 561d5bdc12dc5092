"""torch.compile for functions that compute losses and their gradients in one graph."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from typing import Any

import torch

from paddock.components.torch_internals import trace_gradients

Function = Callable[..., Any]
COMPILERS = ("c++", "g++", "clang++")
log = logging.getLogger(__name__)


def compile_gradients(function: Function, *, enabled: bool) -> Function:
    """`function`, which may call `torch.autograd.grad`, as one compiled graph; as it is where that cannot be."""
    if not enabled:
        return function
    if not any(shutil.which(name) for name in COMPILERS):
        log.warning("compile: there is no C++ compiler (%s); going on without.", ", ".join(COMPILERS))
        return function
    if not trace_gradients():
        log.warning("compile: torch %s cannot compile gradients in one graph; going on without.", torch.__version__)
        return function
    return torch.compile(function, fullgraph=True)

"""torch.compile for losses: with a cache that outlives a run, and going on without where it fails."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from paddock.config.schema import Switch
from paddock.core.paths import paddock_home

Function = Callable[..., Any]
COMPILERS = ("c++", "g++", "clang++")
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
log = logging.getLogger(__name__)


def compiled(function: Function, mode: Switch) -> Function:
    """`function` as torch compiles it, from its first call on; as it is where that is off or cannot be.

    Compiling happens within that call and never beside it: compiled losses differ from plain ones in rounding, so that
    a change at whatever moment the compiler is done would make a run impossible to repeat.
    """
    if mode == "off":
        return function
    if not any(shutil.which(name) for name in COMPILERS):
        if mode == "on":
            log.warning("compile: there is no C++ compiler (%s); going on without.", ", ".join(COMPILERS))
        return function
    os.environ.setdefault(CACHE_VARIABLE, str(paddock_home() / "cache" / "inductor"))
    graph: Function | None = torch.compile(function)

    @wraps(function)
    def run(*arguments: Any) -> Any:
        nonlocal graph
        if graph is None:
            return function(*arguments)
        try:
            return graph(*arguments)
        except torch._dynamo.exc.TorchDynamoException as error:
            graph = None
            log.warning("compile: going on without: %s", (str(error).strip().splitlines() or [type(error).__name__])[0])
            return function(*arguments)

    return run

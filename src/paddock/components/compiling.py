"""torch.compile for functions that compute losses and their gradients: when, by which cache, and what if it fails."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

import torch

from paddock.components.torch_internals import is_compiler_error, trace_gradients
from paddock.config.schema import Switch
from paddock.core.paths import paddock_home

Function = Callable[..., Any]
COMPILERS = ("c++", "g++", "clang++")
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
PLAIN_UPDATES = 20_000  # With `auto`: a run that gets this far goes on for long enough to make up for compiling.
log = logging.getLogger(__name__)


class Updates(Protocol):
    """Where the number of updates of a run stands, those before a resume included."""

    updates: int


class Compiling:
    """Whether the functions of a workflow run as compiled graphs, which give the same numbers up to rounding: with `on`
    at once, with `auto` after the first `PLAIN_UPDATES` updates of a run.

    Which kind runs depends on the number of updates alone, and a checkpoint holds whether there is a compiler, so that
    a resumed run goes on with the same kind. Every shape gets a graph of its own: graphs for many shapes would depend
    on which shapes came first. Nothing of the compiler is imported before it is needed.
    """

    def __init__(self, mode: Switch, counters: Updates) -> None:
        self.mode = mode
        self._counters = counters
        self._from = PLAIN_UPDATES if mode == "auto" else 0
        self._compiles = mode != "off" and _has_compiler(logging.WARNING if mode == "on" else logging.INFO)

    @property
    def is_on(self) -> bool:
        """Whether compiled graphs run at this update."""
        return self._compiles and self._counters.updates >= self._from

    def gradients(self, function: Function) -> Function:
        """`function`, which may call `torch.autograd.grad`: as it is, or as one compiled graph where that is on."""
        return self._where_on(function, _with_gradients)

    def losses(self, function: Function) -> Function:
        """The same for a function whose gradients are taken outside of it."""
        return self._where_on(function, _compiled)

    def _where_on(self, function: Function, compiler: Callable[[Function], Function]) -> Function:
        if self.mode == "off":
            return function
        compiled: Function | None = None

        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            nonlocal compiled
            if not self.is_on:
                return function(*arguments, **named)
            try:
                compiled = compiled or compiler(function)
                return compiled(*arguments, **named)
            except Exception as error:
                if not is_compiler_error(error):
                    raise
                self._compiles = False
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                log.warning("compile: going on without, because compiling failed: %s", reason)
            return function(*arguments, **named)

        return run

    def get_state(self) -> dict[str, Any]:
        return {"mode": self.mode, "compiles": self._compiles}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on as before, unless another mode was asked for since, or there is no compiler any more."""
        if state.get("mode") == self.mode:
            self._compiles = self._compiles and bool(state["compiles"])


def _has_compiler(level: int) -> bool:
    if any(shutil.which(name) for name in COMPILERS):
        return True
    log.log(level, "compile: there is no C++ compiler (%s); going on without.", ", ".join(COMPILERS))
    return False


def _compiled(function: Function) -> Function:
    """One graph, whose compiled form is kept in Paddock's home between runs."""
    _keep_compiled()
    return torch.compile(function, fullgraph=True, dynamic=False)


def _with_gradients(function: Function) -> Function:
    """The same with gradients inside."""
    _keep_compiled()
    if trace_gradients():
        return _compiled(function)
    log.warning("compile: torch %s cannot compile gradients in one graph; going on without.", torch.__version__)
    return function


def _keep_compiled() -> None:
    """Before anything of the compiler is imported, which would choose a temporary folder."""
    os.environ.setdefault(CACHE_VARIABLE, str(paddock_home() / "cache" / "inductor"))

"""Paddock: a reinforcement-learning lab for driving and control. Importing it imports nothing heavy.

    agent = paddock.load("runs/demo")        # a trained policy
    run = paddock.train("racing", seed=1)    # a run, as `paddock train` makes it

See docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.core.errors import InputError, PaddockError
    from paddock.orchestration.agent import Agent
    from paddock.orchestration.agent import load_agent as load
    from paddock.orchestration.training import Run, resume, train
    from paddock.rollout.actor import load_policy

__version__ = "0.1.0"
__all__ = ["Agent", "InputError", "PaddockError", "Run", "__version__", "load", "load_policy", "resume", "train"]

# name: where it is. A module is imported only when something of it is used.
_PLACES = {
    "Agent": "paddock.orchestration.agent.Agent",
    "InputError": "paddock.core.errors.InputError",
    "PaddockError": "paddock.core.errors.PaddockError",
    "Run": "paddock.orchestration.training.Run",
    "load": "paddock.orchestration.agent.load_agent",
    "load_policy": "paddock.rollout.actor.load_policy",
    "resume": "paddock.orchestration.training.resume",
    "train": "paddock.orchestration.training.train",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'paddock' has no attribute '{name}'")
    import importlib

    module, _, attribute = _PLACES[name].rpartition(".")
    found = getattr(importlib.import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

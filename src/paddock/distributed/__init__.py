"""Relay, workers and trainer: experience that is collected on other machines. `Relay`, `Worker` and `Trainer` are for
scripts; importing this package imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.distributed.roles import Relay, Trainer, Worker

__all__ = ["Relay", "Trainer", "Worker"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'paddock.distributed' has no attribute '{name}'")
    from paddock.distributed import roles

    return getattr(roles, name)

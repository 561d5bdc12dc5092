"""Components that a phase forbids to learn. The optimizers pass over their parameters; what else a component learns
(running statistics, a target's steps towards its source) asks here."""

from __future__ import annotations

from torch import nn

_FLAG = "_paddock_is_frozen"  # for those without parameters


def set_frozen(component: nn.Module, frozen: bool) -> None:
    """Forbid or allow a component and all of its parts to learn."""
    component.requires_grad_(not frozen)
    for part in component.modules():
        setattr(part, _FLAG, frozen)


def is_frozen(component: nn.Module) -> bool:
    """Whether the phase forbids that this component learns."""
    first = next(component.parameters(), None)
    return getattr(component, _FLAG, False) or (first is not None and not first.requires_grad)

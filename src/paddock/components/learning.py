"""What may learn, and what follows: components that a phase freezes, and target networks.

The optimizers pass over frozen parameters; what else a component learns (running statistics, a target's steps towards
its source) asks here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paddock.components.torch_internals import copy_each, lerp_each

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


class TargetNetwork:
    """Moves `target` towards `source`: a step of `tau` with every update, or a copy with a tau of 1.

    All parameters move in one operation; a frozen target stays where it is. A checkpoint holds the target as a
    component of its own.
    """

    def __init__(self, target: nn.Module, source: nn.Module, tau: float) -> None:
        target.load_state_dict(source.state_dict())
        self.tau = tau
        self._component = target
        self._target: list[Tensor] = list(target.parameters())
        self._source: list[Tensor] = list(source.parameters())

    @torch.no_grad()
    def update(self) -> None:
        if is_frozen(self._component):
            return
        if self.tau == 1:
            copy_each(self._target, self._source)
        else:
            lerp_each(self._target, self._source, self.tau)

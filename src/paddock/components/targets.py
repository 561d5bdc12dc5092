"""Target networks: slow copies of what is learned, which learning aims at."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paddock.components.freezing import is_frozen
from paddock.components.torch_internals import copy_each, lerp_each


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

"""Target networks: slow copies of what is learned, which learning aims at."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paddock.components.freezing import is_frozen


class TargetNetwork:
    """Lets `target` follow `source`: a step of `rate` towards it with every call, or a copy with a rate of 1.

    All parameters move in one operation; a frozen target stays where it is. A checkpoint holds the target as a
    component of its own.
    """

    def __init__(self, target: nn.Module, source: nn.Module, rate: float) -> None:
        target.load_state_dict(source.state_dict())
        self.rate = rate
        self._component = target
        self._target: list[Tensor] = list(target.parameters())
        self._source: list[Tensor] = list(source.parameters())

    @torch.no_grad()
    def follow(self) -> None:
        if is_frozen(self._component):
            return
        if self.rate == 1:
            torch._foreach_copy_(self._target, self._source)
        else:
            torch._foreach_lerp_(self._target, self._source, self.rate)

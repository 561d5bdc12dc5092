"""The option `mean_init` of policies: an agent that already leans the right way explores there."""

from __future__ import annotations

import torch
from torch import nn

from paddock.core.errors import InputError


def start_mean_at(head: nn.Linear, mean: list[float] | None, count: int, *, squashed: bool) -> None:
    """Let the first `count` outputs of a head begin at `mean`, or their tanh if `squashed`; None changes nothing."""
    if mean is None:
        return
    if len(mean) != count or (squashed and any(abs(number) >= 1 for number in mean)):
        bounds = " between -1 and 1" if squashed else ""
        raise InputError(f"mean_init = {mean}; this policy needs {count} numbers{bounds}, one for each output.")
    values = torch.tensor(mean)
    with torch.no_grad():
        head.bias[:count] = values.atanh() if squashed else values

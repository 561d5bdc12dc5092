"""How much of what follows a transition counts, for learning from replay."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def bootstrap_weight(batch: dict[str, Any], gamma: float) -> Tensor:
    """[N]: gamma to the power of the transition's steps, 0 where the episode terminated; truncation ends nothing."""
    is_going_on = (~batch["terminated"]).float()
    if "steps" not in batch:
        return is_going_on * gamma
    return is_going_on * torch.pow(gamma, batch["steps"])


def importance_weights(probability: Tensor, count: int, beta: float) -> Tensor:
    """[N], largest 1: undoes that transitions were not drawn uniformly from `count`; Sec. 3.4, arXiv:1511.05952."""
    weight = (count * probability).pow(-beta)
    return weight / weight.max()

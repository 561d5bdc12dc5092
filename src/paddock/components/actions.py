"""Actions as the vectors that models read: numbers in [-1, 1] as they are, a choice as one of K."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from paddock.core.specs import ArraySpec


def vector_size(action: ArraySpec) -> int:
    """A: numbers in an action's vector."""
    return action.choices if action.choices is not None else action.size


def to_vector(actions: Tensor, action: ArraySpec) -> Tensor:
    """Actions [..., *shape] (or choices [...]) to vectors [..., A]."""
    if action.choices is not None:
        return functional.one_hot(actions.long(), action.choices).float()
    lead = actions.shape[: actions.dim() - len(action.shape)]
    return actions.reshape(*lead, vector_size(action)).float()


def from_vector(vectors: Tensor, action: ArraySpec) -> Tensor:
    """Vectors [..., A] to the actions that they stand for; a choice is the largest number's."""
    if action.choices is not None:
        return vectors.argmax(-1)
    return vectors.reshape(*vectors.shape[:-1], *action.shape)


def previous_actions(vectors: Tensor, is_first: Tensor) -> Tensor:
    """From the action taken upon each row [B, T, A] to the one that led to it; none (zeros) before a first row."""
    before = torch.cat([torch.zeros_like(vectors[:, :1]), vectors[:, :-1]], 1)
    return before * ~is_first.unsqueeze(-1)

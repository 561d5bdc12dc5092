"""Trees of arrays from the first rank to all others, as bytes and without pickle."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed

from paddock.components.learners import answered
from paddock.core.trees import pack_tree, unpack_tree

Tree = Any


def send(tree: Tree) -> None:
    """To all other ranks."""
    packed = bytearray(pack_tree(tree))  # A tensor has to be able to write to its memory.
    answered(distributed.broadcast, torch.tensor([len(packed)]), 0)
    answered(distributed.broadcast, torch.frombuffer(packed, dtype=torch.uint8), 0)


def receive() -> Tree:
    """What the first rank sends next; waits for it."""
    size = torch.zeros(1, dtype=torch.int64)
    answered(distributed.broadcast, size, 0)
    content = torch.empty(int(size), dtype=torch.uint8)
    answered(distributed.broadcast, content, 0)
    return unpack_tree(content.numpy().data)

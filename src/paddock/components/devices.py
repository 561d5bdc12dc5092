"""Which device a run learns on, in which precision, and how arrays get there: the one place that decides."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from paddock.core.errors import InputError
from paddock.core.trees import map_tree

Precision = Literal["float32", "bfloat16"]


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """The device of a name: auto, cpu, cuda, cuda:1, mps. Of several ranks on a machine each has a GPU of its own,
    unless the name says which."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        if name == "cuda" and torch.cuda.is_available():
            name = f"cuda:{local_rank % torch.cuda.device_count()}"
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device '{name}' cannot be used: {reason} Choose device=auto, cpu, cuda, cuda:1 or mps."
        ) from error
    return device


def to_device(tree: Any, device: torch.device) -> Any:
    """A tree of tensors on a device. Those for a GPU travel from pinned memory, while the processor goes on."""
    return map_tree(partial(_moved, device=device), tree)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """Inside, products of matrices and convolutions are computed in this precision; parameters stay as they are."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()


def memory_in_use(device: torch.device) -> dict[str, float]:
    """Gigabytes that this process holds on a GPU, and the most that it ever held; nothing for a processor."""
    if device.type != "cuda":
        return {}
    return {
        "system/device_memory_gb": torch.cuda.memory_allocated(device) / 1e9,
        "system/device_memory_peak_gb": torch.cuda.max_memory_allocated(device) / 1e9,
    }


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)

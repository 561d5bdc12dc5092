"""Everything that is used of torch although it is not public: one place to look at when torch is upgraded.

Operations over lists of tensors (`_foreach_*`) and the kernel behind `torch.optim.AdamW(fused=True)` save most of what
an update of a small network costs. Where torch no longer has one of them, the plain operations below take their place.
Each name is bound to torch's own function, so a call costs no frame of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Tensors = Sequence[Tensor]


def _copy_plainly(targets: Tensors, sources: Tensors) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def _lerp_plainly(targets: Tensors, sources: Tensors, weight: float) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.lerp_(source, weight)


def _add_plainly(targets: Tensors, others: Tensors | float) -> None:
    for target, other in zip(targets, _for_each(targets, others), strict=True):
        target.add_(other)


def _multiply_plainly(targets: Tensors, factors: Tensors | float) -> None:
    for target, factor in zip(targets, _for_each(targets, factors), strict=True):
        target.mul_(factor)


def _norms_plainly(tensors: Tensors) -> list[Tensor]:
    return [torch.linalg.vector_norm(tensor) for tensor in tensors]


def _adamw_plainly(
    values: Tensors,
    gradients: Tensors,
    firsts: Tensors,
    seconds: Tensors,
    _: Tensors,
    steps: Tensors,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    **__: bool,
) -> None:
    """Algorithm 2, arXiv:1711.05101; `steps` counts this one already."""
    for value, gradient, first, second, step in zip(values, gradients, firsts, seconds, steps, strict=True):
        count = step.item()
        value.mul_(1 - lr * weight_decay)
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = (second / (1 - beta2**count)).sqrt_().add_(eps)
        value.addcdiv_(first, root, value=-lr / (1 - beta1**count))


def _for_each(targets: Tensors, others: Tensors | float) -> Sequence[Tensor | float]:
    return [others] * len(targets) if isinstance(others, (int, float)) else others


PLAIN: dict[str, Any] = {
    "_foreach_copy_": _copy_plainly,
    "_foreach_lerp_": _lerp_plainly,
    "_foreach_add_": _add_plainly,
    "_foreach_mul_": _multiply_plainly,
    "_foreach_norm": _norms_plainly,
    "_fused_adamw_": _adamw_plainly,
}
"""What stands in for each function of torch that is not there."""
MISSING = [name for name in PLAIN if not hasattr(torch, name)]


def _bound(name: str) -> Any:
    return getattr(torch, name, PLAIN[name])


copy_each = _bound("_foreach_copy_")
lerp_each = _bound("_foreach_lerp_")
add_each = _bound("_foreach_add_")
multiply_each = _bound("_foreach_mul_")
norm_each = _bound("_foreach_norm")
fused_adamw = _bound("_fused_adamw_")


def trace_gradients() -> bool:
    """Let torch.compile take `torch.autograd.grad` into its graphs; False where this torch cannot."""
    from torch._dynamo import config as dynamo_config

    if not hasattr(dynamo_config, "trace_autograd_ops"):
        return False
    dynamo_config.trace_autograd_ops = True
    # A workflow's function may meet many combinations of shapes and frozen components; each is a graph of its own.
    dynamo_config.recompile_limit = max(dynamo_config.recompile_limit, 64)
    return True


def is_compiler_error(error: Exception) -> bool:
    """Whether torch.compile raised this because a function cannot be compiled; errors of the function are others."""
    from torch._dynamo.exc import TorchDynamoException

    return isinstance(error, TorchDynamoException)

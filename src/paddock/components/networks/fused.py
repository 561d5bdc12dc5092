"""An ensemble of ReLU perceptrons as a single node of autograd, with its gradient written out.

On a processor half of what such a network costs beside its products of matrices is memory for intermediate results and
the walk through dozens of nodes. Here everything that can be is done in place.
Shapes: C members, B vectors, I inputs, O outputs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def can_fuse(inputs: Tensor) -> bool:
    """Whether `FusedReLU` is for these inputs: not in a graph that is compiled, which fuses by itself, nor on a GPU,
    nor where products are to be of half the width."""
    return inputs.device.type == "cpu" and not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu")


class FusedReLU(torch.autograd.Function):
    """Vectors [B, I] and (weight [C, I, O], bias [C, 1, O]) of each layer to [C, B, O]; linear at the end."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, learns: bool, *parameters: Tensor) -> Tensor:
        """`learns`: whether gradients for the parameters are asked for, which autograd does not tell."""
        weights, biases = parameters[::2], parameters[1::2]
        features = [inputs.expand(len(weights[0]), *inputs.shape)]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            features.append(torch.bmm(features[-1], weight).add_(bias).relu_())
        context.learns = learns
        context.save_for_backward(*weights, *features)
        return _times(features[-1], weights[-1]).add_(biases[-1])

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        count = len(context.saved_tensors) // 2
        weights, features = context.saved_tensors[:count], context.saved_tensors[count:]
        found: list[Tensor | None] = []  # last bias, last weight, the bias before it, ...
        for layer in reversed(range(count)):
            if layer < count - 1:  # Where a ReLU gave nothing, nothing comes back.
                passed: Any = torch.ops.aten.threshold_backward.grad_input
                passed(gradient, features[layer + 1], 0.0, grad_input=gradient)
            if context.learns:
                found += [gradient.sum(1, keepdim=True), _times_transposed(features[layer], gradient)]
            if layer or context.needs_input_grad[0]:
                gradient = _outer(gradient, weights[layer])
        of_inputs = gradient.sum(0) if context.needs_input_grad[0] else None
        return (of_inputs, None, *(reversed(found) if context.learns else [None] * (2 * count)))


def _times(features: Tensor, weight: Tensor) -> Tensor:
    """[C, B, I] and [C, I, O] to [C, B, O]. Batched products are many times slower than this for a single column."""
    if weight.shape[-1] > 1:
        return torch.bmm(features, weight)
    columns = weight.squeeze(-1)
    return torch.stack([torch.mv(member, column) for member, column in zip(features, columns, strict=True)])[..., None]


def _times_transposed(features: Tensor, gradient: Tensor) -> Tensor:
    """[C, B, I] and [C, B, O] to the weight's gradient [C, I, O]."""
    if gradient.shape[-1] > 1:
        return torch.bmm(features.transpose(1, 2), gradient)
    columns = gradient.squeeze(-1)
    return torch.stack([torch.mv(one.T, column) for one, column in zip(features, columns, strict=True)])[..., None]


def _outer(gradient: Tensor, weight: Tensor) -> Tensor:
    """[C, B, O] and [C, I, O] to the features' gradient [C, B, I]."""
    if gradient.shape[-1] > 1:
        return torch.bmm(gradient, weight.transpose(1, 2))
    return gradient * weight.transpose(1, 2)

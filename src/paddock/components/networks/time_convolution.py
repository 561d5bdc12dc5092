"""Convolutions over few time steps and many channels, as one product of matrices each.

A time step's channels lie side by side: [B, T, C]. torch's own conv1d is several times slower on a processor where
there are 4 to 16 steps and hundreds of channels; weights are as torch's would be, in another order. A product of few
rows reads its weights faster where those of one output lie side by side in memory, so that is how they are laid out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class TimeConvolution(nn.Module):
    """[B, T, inputs] to [B, T', outputs]: `nn.Conv1d` with the same padding at both ends."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride, self.padding = kernel, stride, kernel // 2
        self.weight, self.bias = _parameters(kernel * inputs, outputs)

    def forward(self, sequence: Tensor) -> Tensor:
        return windows(sequence, self.kernel, self.stride, self.padding) @ self.weight + self.bias

    def load_convolution(self, weight: Tensor, bias: Tensor) -> None:
        """Take the weight [outputs, inputs, kernel] and bias [outputs] of an `nn.Conv1d`."""
        with torch.no_grad():
            self.weight.copy_(weight.permute(2, 1, 0).reshape(self.weight.shape))
            self.bias.copy_(bias)


class TimeUpsampling(nn.Module):
    """[B, T, C] to [B, 2 T, C]: `nn.ConvTranspose1d` with a kernel of 4, stride 2 and padding 1.

    An output at an even place depends on the step there and the one before it, one at an odd place on the step there
    and the one after it: two products.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        even, self.bias = _parameters(2 * channels, channels)
        odd, _ = _parameters(2 * channels, channels)
        self.weight = nn.Parameter(by_output(torch.stack([even.detach(), odd.detach()])))

    def forward(self, sequence: Tensor) -> Tensor:
        pairs = windows(sequence, 2, 1, 1)  # [B, T + 1, 2 C]
        even, odd = pairs[:, :-1] @ self.weight[0], pairs[:, 1:] @ self.weight[1]
        return torch.stack([even, odd], 2).flatten(1, 2) + self.bias

    def load_convolution(self, weight: Tensor, bias: Tensor) -> None:
        """Take the weight [C, C, 4] (inputs first) and bias [C] of an `nn.ConvTranspose1d`."""
        with torch.no_grad():
            self.weight[0].copy_(torch.cat([weight[:, :, 3], weight[:, :, 1]]))
            self.weight[1].copy_(torch.cat([weight[:, :, 2], weight[:, :, 0]]))
            self.bias.copy_(bias)


class TimeGroupNorm(nn.Module):
    """`nn.GroupNorm` over [B, T, C]: mean 0 and variance 1 over the steps and the channels of each group."""

    def __init__(self, groups: int, channels: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.groups, self.epsilon = groups, epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, sequence: Tensor) -> Tensor:
        grouped = sequence.unflatten(-1, (self.groups, -1))
        variance, mean = torch.var_mean(grouped, (1, 3), correction=0, keepdim=True)
        normed = (grouped - mean) * (variance + self.epsilon).rsqrt()
        return torch.addcmul(self.bias, normed.flatten(2), self.weight)


def windows(sequence: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """[B, T, C] to [B, T', kernel C]: the steps under a kernel side by side, zeros beyond the ends."""
    if kernel == 1 and stride == 1:
        return sequence
    padded = functional.pad(sequence, (0, 0, padding, padding))
    return padded.unfold(1, kernel, stride).transpose(2, 3).flatten(2)


def _parameters(inputs: int, outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Begun as torch's convolutions are: uniform within 1 / sqrt(inputs)."""
    reach = 1 / math.sqrt(inputs)
    weight, bias = torch.empty(inputs, outputs), torch.empty(outputs)
    return nn.Parameter(by_output(weight.uniform_(-reach, reach))), nn.Parameter(bias.uniform_(-reach, reach))


def by_output(weight: Tensor) -> Tensor:
    """The same weights [..., inputs, outputs] with those of one output side by side in memory."""
    return weight.transpose(-1, -2).contiguous().transpose(-1, -2)

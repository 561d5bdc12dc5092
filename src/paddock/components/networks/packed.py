"""A perceptron with its head as the kernels read it: one vector of all parameters, and where each layer lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from paddock.components.networks.mlp import MLP, flatten_observation

TANH, RELU = 0, 1  # as in `paddock.components.kernels.actor_critic`
KINDS = {"tanh": TANH, "relu": RELU}
LARGEST_LAYER = 64 * 128  # weights; a larger product would not be one that BLAS leaves to a single thread


def obstacle(network: nn.Module) -> str | None:
    """Why the kernels cannot compute a network; None where they can."""
    if type(network) is not MLP:  # A subclass computes in its own way.
        return f"its network is {type(network).__name__}, not MLP"
    if network.config.layer_norm:
        return "its network has layer_norm"
    if network.config.activation not in KINDS:
        return f"its activation is {network.config.activation}, not one of {', '.join(KINDS)}"
    layers = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
    if any(layer.weight.numel() > LARGEST_LAYER for layer in layers):
        return f"a layer of its network has more than {LARGEST_LAYER:,} weights"
    if layers[0].weight.device.type != "cpu":
        return f"its device is {layers[0].weight.device}"
    return None


class PackedMLP:
    """The layers of an MLP and its head, for kernels that need no gradient of torch.

    Where an optimizer laid all parameters in one vector, kernels read that memory itself; else, as in a copy of a
    policy, they are copied into one with each call. `extra`: one more parameter, a free log std.
    """

    def __init__(self, network: MLP, head: nn.Linear, extra: nn.Parameter | None = None) -> None:
        self.kind = KINDS[network.config.activation]
        self._linears = [layer for layer in network.layers if isinstance(layer, nn.Linear)] + [head]
        self._extra = extra
        weights: list[Any] = [parameter for layer in self._linears for parameter in (layer.weight, layer.bias)]
        self.parameters: list[nn.Parameter] = weights if extra is None else [*weights, extra]
        self._laid_at = -1  # where the first parameter lay when the following were made
        self._values: NDArray[np.float32] = np.zeros(0, np.float32)
        self._layers: NDArray[np.int64] = np.zeros((0, 4), np.int64)
        self._extra_at = -1
        self._places: list[NDArray[np.float32]] = []  # of parameters that have to be copied

    @property
    def is_in_place(self) -> bool:
        """Whether the parameters lie in one vector already."""
        self._lay_out()
        return not self._places

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
        """All parameters as they are now [P], where the layers lie among them [L, 4], and where `extra` does."""
        self._lay_out()
        for place, parameter in zip(self._places, self.parameters, strict=False):
            np.copyto(place, parameter.detach().numpy())
        return self._values, self._layers, self._extra_at

    def views(self, vector: NDArray[np.float32]) -> list[Tensor]:
        """Parts of a vector [P] in the shapes of the parameters that lie there."""
        self._lay_out()
        whole, found = torch.from_numpy(vector), []
        for layer, (inputs, outputs, weight, bias) in zip(self._linears, self._layers.tolist(), strict=True):
            found += [whole[weight : weight + inputs * outputs].view_as(layer.weight), whole[bias : bias + outputs]]
        if self._extra is not None:
            found.append(whole[self._extra_at : self._extra_at + self._extra.numel()].view_as(self._extra))
        return found

    def __call__(self, observation: dict[str, Tensor], scaling: NDArray[np.float32]) -> Tensor:
        """What the head gives [M, outputs] for the parts of an observation [M, ...], D numbers in all, normalised by
        `scaling` [3, D], without a gradient."""
        values, layers, _ = self.arrays()
        parts = list(observation.values())
        is_vector = len(parts) == 1 and parts[0].dim() == 2 and parts[0].dtype == torch.float32
        vector = parts[0] if is_vector else flatten_observation(observation)
        result = torch.empty(len(vector), int(layers[-1, 1]))
        kernels().evaluate(values, layers, self.kind, scaling, vector.contiguous().numpy(), result.numpy())
        return result

    def _lay_out(self) -> None:
        parameters = self.parameters
        if parameters[0].data_ptr() == self._laid_at:
            return
        storages = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        if len(storages) == 1:
            self._values = torch.empty(0).set_(parameters[0].untyped_storage()).numpy()
            starts, self._places = [int(parameter.storage_offset()) for parameter in parameters], []
        else:
            sizes = [parameter.numel() for parameter in parameters]
            starts = [sum(sizes[:number]) for number in range(len(sizes))]
            self._values = np.zeros(sum(sizes), np.float32)
            self._places = [
                self._values[start : start + size].reshape(parameter.shape)
                for start, size, parameter in zip(starts, sizes, parameters, strict=True)
            ]
        self._extra_at = -1 if self._extra is None else starts[-1]
        self._layers = np.array(
            [
                (layer.in_features, layer.out_features, starts[2 * number], starts[2 * number + 1])
                for number, layer in enumerate(self._linears)
            ],
            np.int64,
        )
        self._laid_at = parameters[0].data_ptr()


def kernels() -> Any:
    """The kernels' module, imported when it is first needed: it loads the compiler."""
    from paddock.components.kernels import actor_critic

    return actor_critic

"""An exponential moving average (EMA) of a component's weights: what acts while the component itself still learns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paddock.components.learning import is_frozen
from paddock.components.torch_internals import lerp_each


class ExponentialAverage:
    """Moves `average` towards `source` with every update. The decay rises with the updates from 0 to `most`:
    1 - (1 + updates)^-power, as published for diffusion policies.

    Where an optimizer has laid the source's weights end to end, the average is laid likewise, and an update is one
    operation on one tensor.
    """

    def __init__(self, average: nn.Module, source: nn.Module, *, power: float, most: float) -> None:
        self._component, self._source_component = average, source
        self.power, self.most = power, most
        average.requires_grad_(False)
        self._source = _end_to_end(list(source.parameters()))
        self._average = _laid_alike(list(average.parameters()), list(source.parameters()), self._source)
        self.copy()

    def copy(self) -> None:
        """Make the average what the source is, all of its state included."""
        self._component.load_state_dict(self._source_component.state_dict())

    def decay(self, updates: int) -> float:
        """The share of the average that stays, after so many updates."""
        return min(1 - (1 + updates) ** -self.power, self.most)

    @torch.no_grad()
    def update(self, updates: int) -> float:
        """One step towards the source; updates: those before this one. Returns the decay."""
        decay = self.decay(updates)
        if not is_frozen(self._source_component):
            lerp_each(self._average, self._source, 1 - decay)
        return decay


def _end_to_end(parameters: list[nn.Parameter]) -> list[Tensor]:
    """The one tensor that all parameters are views of, gaps included; else each of them."""
    first = parameters[0]
    storages = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    if len(parameters) == 1 or len(storages) > 1 or any(parameter.dtype != first.dtype for parameter in parameters):
        return [parameter.detach() for parameter in parameters]
    return [torch.empty(0, dtype=first.dtype, device=first.device).set_(first.untyped_storage())]


def _laid_alike(parameters: list[nn.Parameter], source: list[nn.Parameter], flat: list[Tensor]) -> list[Tensor]:
    """Put `parameters` into one tensor of the source's layout, where the source has one."""
    if len(flat) != 1 or len(source) == 1:
        return [parameter.detach() for parameter in parameters]
    values = torch.zeros_like(flat[0])
    for parameter, like in zip(parameters, source, strict=True):
        start = like.storage_offset()
        place = values[start : start + like.numel()].view_as(parameter)
        place.copy_(parameter.detach())
        parameter.data = place
    return [values]

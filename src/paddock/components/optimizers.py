"""Optimizers by configuration: which components they move, how fast, and how gradients are tamed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError, NonFiniteError, unknown_choice


class AdamConfig(TargetSchema):
    """Options of Adam."""

    components: list[str] = Field(min_length=1)
    learning_rate: float = Field(gt=0)
    epsilon: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    max_gradient_norm: float | None = Field(default=None, gt=0)


class Adam(torch.optim.AdamW):
    """Adam over named components, with gradient clipping and a guard against NaN and Inf in one `descend`.

    The parameters of a component are laid end to end in one tensor, and so are their gradients: the modules keep views
    of it. For small networks most of an update is the overhead of many tiny operations, and this makes one of many.
    """

    def __init__(self, config: AdamConfig, components: Mapping[str, nn.Module]) -> None:
        for name in config.components:
            if name not in components:
                raise unknown_choice("component (in optimizers)", name, components)
        self.components = {name: components[name] for name in config.components}
        self._flat = {name: _flatten(name, component) for name, component in self.components.items()}
        self._gradients = {name: torch.zeros_like(flat, requires_grad=False) for name, flat in self._flat.items()}
        self._share_gradients()
        super().__init__(
            list(self._flat.values()),
            lr=config.learning_rate,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.config = config
        self.base_learning_rate = config.learning_rate

    def descend(self, loss: Tensor) -> float:
        """One gradient step on `loss`; components that are frozen stay where they are. Returns the gradient's norm."""
        moving = [name for name, part in self.components.items() if next(part.parameters()).requires_grad]
        gradients = [self._gradients[name] for name in moving]
        torch._foreach_zero_(gradients)
        loss.backward()
        norm = math.hypot(*(part.item() for part in torch._foreach_norm(gradients)))
        if not math.isfinite(norm):
            raise NonFiniteError(self._first_nonfinite(loss))
        limit = self.config.max_gradient_norm
        if limit is not None and norm > limit:
            torch._foreach_mul_(gradients, limit / (norm + 1e-6))
        for name, flat in self._flat.items():
            flat.grad = self._gradients[name] if name in moving else None
        self.step()
        return norm

    def set_learning_rate_fraction(self, fraction: float) -> None:
        """Anneal: the learning rate becomes this part of the configured one."""
        for group in self.param_groups:
            group["lr"] = self.base_learning_rate * fraction

    def _share_gradients(self) -> None:
        """Let every parameter's gradient be a view of its component's."""
        for name, component in self.components.items():
            for parameter, place in _places(component).items():
                parameter.grad = self._gradients[name][place].view_as(parameter)

    def _first_nonfinite(self, loss: Tensor) -> str:
        if not torch.isfinite(loss):
            return "loss"
        for component_name, component in self.components.items():
            for name, parameter in component.named_parameters():
                if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                    return f"gradient of {component_name}.{name}"
        return "gradient norm"


def _flatten(name: str, component: nn.Module) -> nn.Parameter:
    """All parameters of a component end to end; the component's own become views of it."""
    places = _places(component)
    if not places:
        raise InputError(f"component '{name}' has no parameters, so an optimizer has nothing to do for it.")
    first = next(iter(places))
    flat = torch.zeros(max(place.stop for place in places.values()), dtype=first.dtype, device=first.device)
    for parameter, place in places.items():
        flat[place] = parameter.detach().reshape(-1)
        parameter.data = flat[place].view_as(parameter)
    return nn.Parameter(flat)


def _places(component: nn.Module) -> dict[nn.Parameter, slice]:
    """Where each parameter lies in the flat tensor; each starts at a multiple of 64 bytes, for matrix kernels."""
    places, start = {}, 0
    for parameter in component.parameters():
        places[parameter] = slice(start, start + parameter.numel())
        alignment = 64 // parameter.element_size()
        start = -(-places[parameter].stop // alignment) * alignment
    return places

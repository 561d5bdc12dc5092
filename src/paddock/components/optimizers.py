"""Optimizers by configuration: which components they move, how fast, and how gradients are tamed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

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


class Adam:
    """Adam over named components (decoupled weight decay, arXiv:1711.05101), with clipping and a guard against NaN.

    The parameters of a component are laid end to end in one tensor, and the modules keep views of it: for small
    networks most of an update is the overhead of many tiny operations, and this makes one of many.
    """

    def __init__(self, config: AdamConfig, components: Mapping[str, nn.Module]) -> None:
        for name in config.components:
            if name not in components:
                raise unknown_choice("component (in optimizers)", name, components)
        self.config = config
        self.learning_rate = config.learning_rate
        self._flats = {name: Flat(name, components[name]) for name in config.components}

    def descend(self, loss: Tensor) -> float:
        """One gradient step on `loss`; components that are frozen stay where they are. Returns the gradient's norm."""
        flats = [flat for flat in self._flats.values() if flat.parameters[0].requires_grad]
        for flat in flats:
            flat.forget_gradient()
        loss.backward()
        for flat in flats:
            flat.gather_gradient()
        gradients = [flat.gradient for flat in flats]
        norm = math.hypot(*(part.item() for part in torch._foreach_norm(gradients)))
        if not math.isfinite(norm):
            raise NonFiniteError(self._first_nonfinite(loss))
        limit = self.config.max_gradient_norm
        if limit is not None and norm > limit:
            torch._foreach_mul_(gradients, limit / (norm + 1e-6))
        self._step(flats)
        return norm

    def set_learning_rate_fraction(self, fraction: float) -> None:
        """Anneal: the learning rate becomes this part of the configured one."""
        self.learning_rate = self.config.learning_rate * fraction

    def state_dict(self) -> dict[str, Any]:
        moments = {name: flat.moments() for name, flat in self._flats.items()}
        return {"learning_rate": self.learning_rate, "moments": moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learning_rate = state["learning_rate"]
        for name, flat in self._flats.items():
            for mine, saved in zip(flat.moments().values(), state["moments"][name].values(), strict=True):
                mine.copy_(saved)

    @torch.no_grad()
    def _step(self, flats: list[Flat]) -> None:
        steps = [flat.step for flat in flats]
        torch._foreach_add_(steps, 1)
        # The kernel behind torch.optim.AdamW(fused=True), without the bookkeeping around it, which costs more.
        torch._fused_adamw_(
            [flat.values for flat in flats],
            [flat.gradient for flat in flats],
            [flat.first for flat in flats],
            [flat.second for flat in flats],
            [],
            steps,
            lr=self.learning_rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self.config.weight_decay,
            eps=self.config.epsilon,
            amsgrad=False,
            maximize=False,
        )

    def _first_nonfinite(self, loss: Tensor) -> str:
        if not torch.isfinite(loss):
            return "loss"
        for flat in self._flats.values():
            for name, parameter in flat.component.named_parameters():
                if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                    return f"gradient of {flat.name}.{name}"
        return "gradient norm"


class Flat:
    """All parameters of a component end to end, with their gradient and Adam's moments in the same layout."""

    def __init__(self, name: str, component: nn.Module) -> None:
        self.name = name
        self.component = component
        self.parameters = list(component.parameters())
        if not self.parameters:
            raise InputError(f"component '{name}' has no parameters, so an optimizer has nothing to do for it.")
        places = _places(self.parameters)
        first = self.parameters[0]
        self.values = torch.zeros(places[-1].stop, dtype=first.dtype, device=first.device)
        for parameter, place in zip(self.parameters, places, strict=True):
            self.values[place] = parameter.detach().reshape(-1)
            parameter.data = self.values[place].view_as(parameter)
        self.gradient, self.first, self.second = (torch.zeros_like(self.values) for _ in range(3))
        self.step = torch.zeros((), device=first.device)
        self._views = [self.gradient[p].view_as(q) for p, q in zip(places, self.parameters, strict=True)]

    def forget_gradient(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def gather_gradient(self) -> None:
        """Bring what the backward pass left at the parameters together; what it did not reach is zero."""
        found = [parameter.grad for parameter in self.parameters]
        reached = [gradient for gradient in found if gradient is not None]
        if len(reached) < len(found):
            self.gradient.zero_()
        views = [view for view, gradient in zip(self._views, found, strict=True) if gradient is not None]
        if reached:
            torch._foreach_copy_(views, reached)

    def moments(self) -> dict[str, Tensor]:
        return {"first": self.first, "second": self.second, "step": self.step}


def _places(parameters: list[nn.Parameter]) -> list[slice]:
    """Where each parameter lies in the flat tensor; each starts at a multiple of 64 bytes, for matrix kernels."""
    places: list[slice] = []
    start = 0
    for parameter in parameters:
        places.append(slice(start, start + parameter.numel()))
        alignment = 64 // parameter.element_size()
        start = -(-places[-1].stop // alignment) * alignment
    return places

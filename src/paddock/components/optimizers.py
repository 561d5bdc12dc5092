"""Optimizers by configuration: which components they move, how fast, and how gradients are tamed."""

from __future__ import annotations

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
    """Adam over named components, with gradient clipping and a guard against NaN and Inf in one `descend`."""

    def __init__(self, config: AdamConfig, components: Mapping[str, nn.Module]) -> None:
        for name in config.components:
            if name not in components:
                raise unknown_choice("component (in optimizers)", name, components)
        self.names = {
            parameter: f"{component}.{name}"
            for component in config.components
            for name, parameter in components[component].named_parameters()
        }
        if not self.names:
            raise InputError(f"the optimizer of {config.components} has nothing to learn: they have no parameters.")
        super().__init__(
            list(self.names),
            lr=config.learning_rate,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.config = config
        self.base_learning_rate = config.learning_rate

    def descend(self, loss: Tensor) -> Tensor:
        """One gradient step on `loss`. Returns the gradient's norm before clipping."""
        self.zero_grad(set_to_none=True)
        loss.backward()
        gradients = [parameter.grad for parameter in self.names if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not torch.isfinite(norm):
            raise NonFiniteError(self._first_nonfinite(loss))
        if self.config.max_gradient_norm is not None:
            scale = (self.config.max_gradient_norm / (norm + 1e-6)).clamp(max=1.0)
            torch._foreach_mul_(gradients, scale)
        self.step()
        return norm

    def set_learning_rate_fraction(self, fraction: float) -> None:
        """Anneal: the learning rate becomes this part of the configured one."""
        for group in self.param_groups:
            group["lr"] = self.base_learning_rate * fraction

    def _first_nonfinite(self, loss: Tensor) -> str:
        if not torch.isfinite(loss):
            return "loss"
        for parameter, name in self.names.items():
            if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                return f"gradient of {name}"
        return "gradient norm"

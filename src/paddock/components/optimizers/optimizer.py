"""What an optimizer is to a workflow and to a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from paddock.components.workers import Workers

Gradients = Sequence[Tensor | None]


class Optimizer(Protocol):
    """Moves the components that its configuration names. Frozen ones stay where they are; clipping, and refusing what
    is not finite (`NonFiniteError`), are its own business."""

    learning_rate: float

    def descend(self, loss: Tensor, gradients: Gradients | None = None, *, retain_graph: bool = False) -> float:
        """One gradient step on a loss [], or with gradients of it that are known already. Returns their norm."""

    def differentiate_sum(
        self, losses: Sequence[Callable[[], Tensor]], workers: Workers
    ) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """The sum of losses [] that are computed side by side and added up in their order, and its gradients."""

    def differentiate(self, loss: Tensor, *, retain_graph: bool = False) -> tuple[Tensor | None, ...]:
        """Gradients of a loss [] for `descend`, one for each parameter that is not frozen."""

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What gradients are taken of, in the order of `differentiate`: all parameters that are not frozen."""

    def set_learning_rate_fraction(self, fraction: float) -> None:
        """Anneal: the learning rate becomes this part of the configured one."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to hold: the learning rate and the moments."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""

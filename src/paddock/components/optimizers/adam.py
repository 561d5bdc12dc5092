"""Optimizers by configuration, Adam and LaProp: which components they move, how fast, and how gradients are tamed.

What a phase freezes is passed over here, so that every workflow that leaves gradients to its optimizers keeps to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from paddock.components.torch_internals import add_each, copy_each, fused_adamw, multiply_each, norm_each
from paddock.components.workers import Workers
from paddock.config.schema import TargetSchema
from paddock.core.errors import InputError, NonFiniteError, unknown_choice

Gradients = Sequence[Tensor | None]
SMALLEST_NORM = 1e-3  # of a parameter, for clipping: what begins at zero has to be able to move
MOMENTUM, MEMORY = 0.9, 0.999


class AdamConfig(TargetSchema):
    """Options of Adam. `learning_rate_scales`: by `component.part`, what the learning rate of that part is times."""

    components: list[str] = Field(min_length=1)
    learning_rate: float = Field(gt=0)
    learning_rate_scales: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
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
        scales = config.learning_rate_scales
        self._flats = {
            name: Flat(name, parameters)
            for component in config.components
            for name, parameters in _split(component, components[component], scales).items()
        }
        self._scales = {name: scales.get(name, 1.0) for name in self._flats}
        for name in scales:
            if name not in self._flats:
                raise unknown_choice("part (in learning_rate_scales)", name, _part_names(config.components, components))

    def descend(self, loss: Tensor, gradients: Gradients | None = None, *, retain_graph: bool = False) -> float:
        """One gradient step on `loss`; components that are frozen stay where they are. Returns the gradient's norm.

        `gradients` are given where they were found already (by `differentiate` inside a compiled graph, say).
        Only the parameters of this optimizer are differentiated; `retain_graph` leaves the graph for another loss.
        """
        found = self.differentiate(loss, retain_graph=retain_graph) if gradients is None else gradients
        return self._move(loss, found)

    def differentiate_sum(
        self, losses: Sequence[Callable[[], Tensor]], workers: Workers
    ) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """The sum of losses that are computed side by side and added up in their order, and its gradients."""

        def differentiate(loss_of: Callable[[], Tensor]) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            loss = loss_of()
            return loss.detach(), self.differentiate(loss)

        found = workers.map(differentiate, losses)
        return torch.stack([loss for loss, _ in found]).sum(), _summed([gradients for _, gradients in found])

    def differentiate(self, loss: Tensor, *, retain_graph: bool = False) -> tuple[Tensor | None, ...]:
        """Gradients of `loss` for `descend`: of what is not frozen, None where the loss does not depend on it."""
        parameters = self.parameters
        if not parameters:
            return ()
        return torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=retain_graph)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What `descend` takes gradients of, in this order: all parameters of the components that are not frozen."""
        return [parameter for flat in self._moving() for parameter in flat.parameters]

    def _moving(self) -> list[Flat]:
        return [flat for flat in self._flats.values() if flat.parameters[0].requires_grad]

    def _move(self, loss: Tensor, found: Gradients) -> float:
        """Lay out what was found, clip it, refuse what is not finite, take the step; 0 where everything is frozen."""
        flats, start = self._moving(), 0
        if not flats:
            return 0.0
        for flat in flats:
            stop = start + len(flat.parameters)
            flat.gather(found[start:stop])
            start = stop
        gradients = [flat.gradient for flat in flats]
        norm = math.hypot(*(part.item() for part in norm_each(gradients)))
        if not math.isfinite(norm):
            raise NonFiniteError(self._first_nonfinite(loss))
        limit = self.config.max_gradient_norm
        if limit is not None and norm > limit:
            multiply_each(gradients, limit / (norm + 1e-6))
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

    def _step(self, flats: list[Flat]) -> None:
        for scale in dict.fromkeys(self._scales.values()):
            chosen = [flat for flat in flats if self._scales[flat.name] == scale]
            if chosen:
                self._step_at(self.learning_rate * scale, chosen)

    @torch.no_grad()
    def _step_at(self, learning_rate: float, flats: list[Flat]) -> None:
        steps = [flat.step for flat in flats]
        add_each(steps, 1)
        # The kernel behind torch.optim.AdamW(fused=True), without the bookkeeping around it, which costs more.
        fused_adamw(
            [flat.values for flat in flats],
            [flat.gradient for flat in flats],
            [flat.first for flat in flats],
            [flat.second for flat in flats],
            [],
            steps,
            lr=learning_rate,
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
            for name, gradient in zip(flat.names, flat.gradients, strict=True):
                if not torch.isfinite(gradient).all():
                    return f"gradient of {name}"
        return "gradient norm"


class Flat:
    """All parameters of a component end to end, with their gradient and Adam's moments in the same layout."""

    def __init__(self, name: str, parameters: Mapping[str, nn.Parameter]) -> None:
        self.name = name
        self.names = list(parameters)
        self.parameters = list(parameters.values())
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
        self.gradients = [self.gradient[p].view_as(q) for p, q in zip(places, self.parameters, strict=True)]
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient  # Nothing is accumulated here; it shows the newest step's gradient.

    def gather(self, found: Gradients) -> None:
        """Lay gradients, one per parameter, end to end; what is not there is zero, what lies here already stays."""
        if all(one is view for one, view in zip(found, self.gradients, strict=True)):
            return
        pairs = [(view, gradient) for view, gradient in zip(self.gradients, found, strict=True) if gradient is not None]
        if len(pairs) < len(self.gradients):
            self.gradient.zero_()
        if pairs:
            copy_each([view for view, _ in pairs], [gradient for _, gradient in pairs])

    def moments(self) -> dict[str, Tensor]:
        return {"first": self.first, "second": self.second, "step": self.step}


class LaPropConfig(AdamConfig):
    """Options of LaProp. `adaptive_clip` bounds each parameter's gradient by so much of the parameter's own norm
    (arXiv:2102.06171); `warm_up` is the number of steps until the learning rate is full, `half_life` that after which
    half of it is left."""

    adaptive_clip: float | None = Field(default=0.3, gt=0)
    warm_up: int = Field(default=0, ge=0)
    half_life: int | None = Field(default=None, ge=1)


class LaProp(Adam):
    """The optimizer of DreamerV3 (2024): gradients clipped by the size of what they move, scaled by their root mean
    square, then given momentum (LaProp, arXiv:2002.04839), at a learning rate that warms up, and may fade. As momentum
    is of gradients that are scaled already, a sudden large one cannot move anything far."""

    config: LaPropConfig

    def __init__(self, config: LaPropConfig, components: Mapping[str, nn.Module]) -> None:
        super().__init__(config, components)

    @torch.no_grad()
    def _step(self, flats: list[Flat]) -> None:
        for flat in flats:
            if self.config.adaptive_clip is not None:
                clip_adaptively(flat, self.config.adaptive_clip)
            flat.step += 1
            count = flat.step.item()
            flat.second.mul_(MEMORY).addcmul_(flat.gradient, flat.gradient, value=1 - MEMORY)
            root = (flat.second / (1 - MEMORY**count)).sqrt_().add_(self.config.epsilon)
            flat.first.lerp_(flat.gradient / root, 1 - MOMENTUM)
            rate = self.learning_rate * self._scales[flat.name] * min(1.0, count / max(self.config.warm_up, 1))
            if self.config.half_life is not None:
                rate *= 0.5 ** (count / self.config.half_life)
            if self.config.weight_decay:
                flat.values.mul_(1 - rate * self.config.weight_decay)
            flat.values.sub_(flat.first, alpha=rate / (1 - MOMENTUM**count))


def clip_adaptively(flat: Flat, share: float) -> None:
    """Scale down each parameter's gradient to at most `share` of the parameter's norm."""
    gradients = torch.stack(norm_each(flat.gradients))
    values = torch.stack(norm_each([parameter.detach() for parameter in flat.parameters]))
    factors = (share * values.clamp(min=SMALLEST_NORM) / gradients.clamp(min=1e-12)).clamp(max=1.0)
    multiply_each(flat.gradients, list(factors.unbind()))


def _split(name: str, component: nn.Module, scales: Mapping[str, float]) -> dict[str, dict[str, nn.Parameter]]:
    """A component's parameters by full name: those of each part with a learning rate of its own, and the rest."""
    groups: dict[str, dict[str, nn.Parameter]] = {}
    for key, parameter in component.named_parameters():
        full = f"{name}.{key}"
        part = next((one for one in scales if full.startswith(f"{one}.")), name)
        groups.setdefault(part, {})[full] = parameter
    return groups or {name: {}}


def _part_names(names: Sequence[str], components: Mapping[str, nn.Module]) -> list[str]:
    return [f"{name}.{part}" for name in names for part, _ in components[name].named_children()]


def _summed(found: Sequence[Gradients]) -> tuple[Tensor | None, ...]:
    """Gradients added up in their order; None where none of them is there. Not in place: they may share memory."""
    sums = list(found[0])
    for gradients in found[1:]:
        pairs = zip(sums, gradients, strict=True)
        sums = [one if sum_ is None else sum_ if one is None else sum_ + one for sum_, one in pairs]
    return tuple(sums)


def _places(parameters: list[nn.Parameter]) -> list[slice]:
    """Where each parameter lies in the flat tensor; each starts at a multiple of 64 bytes, for matrix kernels."""
    places: list[slice] = []
    start = 0
    for parameter in parameters:
        places.append(slice(start, start + parameter.numel()))
        alignment = 64 // parameter.element_size()
        start = -(-places[-1].stop // alignment) * alignment
    return places

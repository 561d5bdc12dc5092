"""What `--debug` adds: anomaly detection, statistics of weights and gradients, and a profile of the updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.autograd import set_detect_anomaly
from torch.profiler import ProfilerActivity, profile

from paddock.core.errors import NonFiniteError


class Diagnostics:
    """Does nothing at all unless switched on."""

    def __init__(self, is_on: bool, components: Mapping[str, Any]) -> None:
        self._is_on = is_on
        self._components = components
        self._profile: Any = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around one update: name the operation that made a NaN, and profile the very first update."""
        if not self._is_on:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(set_detect_anomaly(True))
            if self._profile is None:
                self._profile = stack.enter_context(profile(activities=[ProfilerActivity.CPU]))
            try:
                yield
            except RuntimeError as error:
                if "returned nan values" not in str(error):
                    raise
                raise NonFiniteError(f"the backward pass: {error}") from error

    @torch.no_grad()
    def statistics(self) -> dict[str, float]:
        """Norms of weights and last gradients of every component."""
        if not self._is_on:
            return {}
        found: dict[str, float] = {}
        for name, component in self._components.items():
            for path, parameter in component.named_parameters():
                found[f"train/debug/{name}.{path}/weight_norm"] = float(parameter.norm())
                found[f"train/debug/{name}.{path}/weight_max"] = float(parameter.abs().max())
                if parameter.grad is not None:
                    found[f"train/debug/{name}.{path}/gradient_norm"] = float(parameter.grad.norm())
        return found

    def table(self) -> str:
        """Where the profiled update spent its time."""
        return self._profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=15) if self._profile else ""
